"""Declared types that Arrow's JSON reader does not make of what stands in JSON: it reads them as
others, of which they are made here. Pure.

Dates and times of the day stand in JSON as texts; Arrow takes numbers for them alone. And it brings
a number to the scale of its decimal without a look at what that holds: 41 as decimal(37,37) becomes
another number. So decimals are read with so few digits that 256 bits hold them at their scale.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock_builtin.file_source.declared import parse_texts
from penstock_builtin.nested import is_list, list_items

_DIGITS: Final = 76
"""Digits that 256 bits hold."""


def read_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which Arrow reads columns; itself where it reads all of them as they
    are.
    """
    types = [_read_type(kind) for kind in schema.types]
    if types == schema.types:
        return schema
    return pa.schema(list(zip(schema.names, types, strict=True)))


def as_declared(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return what was read in a read schema with the types of the schema itself. Columns that it
    does not have stay as they are.

    Raises:
        pa.ArrowInvalid: a value is not of its type.
    """
    for field in schema:
        at = table.schema.get_field_index(field.name)
        if at >= 0 and table.schema.field(at).type != field.type:
            column = table.column(at).combine_chunks()
            table = table.set_column(at, field.name, _as_type(column, field.type))
    return table


def _read_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return pa.decimal256(_DIGITS - kind.scale, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([(child.name, _read_type(child.type)) for child in kind])
    return pa.list_(_read_type(kind.value_type)) if pa.types.is_list(kind) else kind


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        children = [
            _as_type(child, field.type) for child, field in zip(column.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())
    if is_list(kind):
        offsets, items = list_items(column)
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), _as_type(items, kind.value_type), kind,
            mask=column.is_null(),
        )  # fmt: skip
    return column.cast(kind) if pa.types.is_decimal(kind) else parse_texts(column, kind)
