"""Arrow types that Delta tables have, and the nearest ones for those they have not. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock_connector import SchemaError

_NEAREST: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.null(): pa.string(),
}


def table_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a table for rows of a schema; every column may be missing."""
    return pa.schema([pa.field(field.name, table_type(field.type)) for field in schema])


def table_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a table's column."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        return pa.map_(table_type(kind.key_type), table_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, table_type(child.type)) for child in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(table_type(kind.value_type))
    return _NEAREST.get(kind, kind)


def new_columns(table: pa.Schema, rows: pa.Schema, where: str) -> pa.Schema:
    """Return the columns that a table lacks for rows of a schema.

    Raises:
        SchemaError: `delta.schema_incompatible`: a column's values do not fit into the table's.
    """
    missing = []
    for field in rows:
        place = table.get_field_index(field.name)
        if place < 0:
            missing.append(field)
        elif not fits(field.type, table.field(place).type):
            raise SchemaError(
                "delta.schema_incompatible",
                f"{where}: column {field.name!r} is {table.field(place).type}, "
                f"rows have {field.type}",
                fix="Cast the column with a transform, or write to another table.",
            )
    return pa.schema(missing)


def fits(rows: pa.DataType, table: pa.DataType) -> bool:
    """Return whether values of a type fit into a column without loss."""
    if rows == table:
        return True
    try:
        joined = pa.unify_schemas(
            [pa.schema([("c", rows)]), pa.schema([("c", table)])], promote_options="permissive"
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return bool(joined.field("c").type == table)
