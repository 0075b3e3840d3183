"""Converts Arrow types that a topic cannot store into those that it stores, without loss. Pure.

A Delta table has fewer types than Arrow. A column gets the nearest type that holds every value: the
same as in Spark, so that a topic does not depend on how its rows came:

uint8 → int16 · uint16 → int32 · uint32 → int64 · uint64 → decimal(20,0) · float16 → float32 · large
and view strings and binaries → string, binary · dictionary → its values · fixed-size binary →
binary · date64 → date32 · times of the day → string `HH:MM:SS.ffffff` of the semantic type `time` ·
durations → int64 microseconds · timestamps → microseconds, UTC where they have a zone · decimal256
→ decimal128 where it has the digits. The same holds inside structs, lists and maps. A value finer
than a microsecond is `engine.out_of_range`. A column of nulls has no type yet: it is left out until
it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.types as kind

from penstock.model.arrow_schema import check_times_of_day, copy_semantic_type
from penstock.model.errors import DataError, SchemaError
from penstock.topic_files.layout import PARTITION, POSITION_COLUMNS
from penstock_values.semantic_types import SEMANTIC_TYPE_KEY

MAX_DIGITS: Final = 38
"""Digits of a decimal that every reader of Parquet tables supports."""

_EXACT: Final[Mapping[pa.DataType, pa.DataType]] = {
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
    pa.null(): pa.string(),  # only inside other types: an empty list of JSON
}

_SAME: Final = frozenset(
    {
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
        *(pa.string(), pa.binary(), pa.date32()),
    }
)

_TIME: Final = {SEMANTIC_TYPE_KEY: b"time"}
"""Metadata that marks a text as a time of the day, for sinks."""

_WIDENS: Final[Mapping[pa.DataType, frozenset[pa.DataType]]] = {
    pa.int8(): frozenset({pa.int16(), pa.int32(), pa.int64()}),
    pa.int16(): frozenset({pa.int32(), pa.int64()}),
    pa.int32(): frozenset({pa.int64()}),
    pa.float32(): frozenset({pa.float64()}),
}


@dataclass(frozen=True, slots=True)
class _TimeTypes:
    """The types that replace times of the day and durations, at any depth."""

    day: pa.DataType
    duration: pa.DataType


_STORED: Final = _TimeTypes(pa.string(), pa.int64())
_MICROSECONDS: Final = _TimeTypes(pa.time64("us"), pa.duration("us"))
"""An intermediate step, in which Arrow checks for loss, and all times get six digits."""

_Rule: TypeAlias = tuple[
    Callable[[pa.DataType], bool], Callable[[pa.DataType, _TimeTypes], pa.DataType]
]

_RULES: Final[tuple[_Rule, ...]] = (
    (lambda t: isinstance(t, pa.BaseExtensionType), lambda t, of: _stored_type(t.storage_type, of)),
    (kind.is_dictionary, lambda t, of: _stored_type(t.value_type, of)),
    (kind.is_time, lambda _, of: of.day),
    (kind.is_duration, lambda _, of: of.duration),
    (kind.is_timestamp, lambda t, _: pa.timestamp("us", tz=t.tz and "UTC")),
    (kind.is_fixed_size_binary, lambda *_: pa.binary()),
    (kind.is_decimal, lambda t, _: _stored_decimal(t)),
    (kind.is_struct, lambda t, of: pa.struct([_stored_field(child, of) for child in t])),
    (
        kind.is_map,
        lambda t, of: pa.map_(_stored_type(t.key_type, of), _stored_type(t.item_type, of)),
    ),
    (
        lambda t: kind.is_list(t) or kind.is_large_list(t) or kind.is_fixed_size_list(t),
        lambda t, of: pa.list_(_stored_type(t.value_type, of)),
    ),
)  # fmt: skip


def to_stored_schema(schema: pa.Schema, dataset: str = "") -> pa.Schema:
    """Return the columns of a topic for rows of a schema. All are nullable.

    Raises:
        SchemaError: `topic.type_unsupported`, `topic.column_name`.
    """
    check_column_names(schema.names, dataset)
    return pa.schema(
        [_stored_field(field, _STORED) for field in schema if not kind.is_null(field.type)]
    )


_Columns = TypeVar("_Columns", pa.Schema, pa.RecordBatch)


def without_partition(rows: _Columns) -> _Columns:
    """Return rows, or their schema, without the partition that rows choose: a topic has it as the
    number of their file.
    """
    schema = rows if isinstance(rows, pa.Schema) else rows.schema
    at = schema.get_field_index(PARTITION)
    if at < 0:
        return rows
    return rows.remove(at) if isinstance(rows, pa.Schema) else rows.remove_column(at)


def to_stored_rows(
    rows: pa.RecordBatch, columns: pa.Schema, casts: Mapping[str, pa.DataType]
) -> pa.RecordBatch:
    """Return rows in `columns`, which is `to_stored_schema(rows.schema)`; those in `casts` get a
    wider type. Columns that have their type already are not copied.

    Raises:
        DataError: `engine.out_of_range`: a value does not fit into the stored type.
        SchemaError: `topic.type_unsupported`.
    """
    arrays, fields = [], []
    for field in columns:
        wanted = casts.get(field.name, field.type)
        arrays.append(_cast(rows.column(field.name), wanted, field.name))
        fields.append(pa.field(field.name, wanted))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def merge_types(table: pa.DataType, rows: pa.DataType) -> pa.DataType | None:
    """Return the type that a column of the table needs for rows of another type: the table's own,
    with the members that its structs lack. None when the values do not fit without loss. Both are
    stored types.
    """
    if table == rows or table in _WIDENS.get(rows, ()):
        return table
    if kind.is_decimal(table) and kind.is_decimal(rows):
        before = table.precision - table.scale >= rows.precision - rows.scale
        return table if before and table.scale >= rows.scale else None
    if kind.is_struct(table) and kind.is_struct(rows):
        return _merge_structs(table, rows)
    if kind.is_list(table) and kind.is_list(rows):
        item = merge_types(table.value_type, rows.value_type)
        return None if item is None else pa.list_(item)
    if kind.is_map(table) and kind.is_map(rows) and table.key_type == rows.key_type:
        item = merge_types(table.item_type, rows.item_type)
        return None if item is None else pa.map_(table.key_type, item)
    return None


def check_column_names(names: list[str], dataset: str) -> None:
    """Refuse names that a table cannot have: reserved ones, or two that differ in case only."""
    seen: dict[str, str] = {}
    for name in names:
        other = name if name in POSITION_COLUMNS else seen.get(name.casefold())
        seen[name.casefold()] = name
        if other is not None:
            raise SchemaError(
                "topic.column_name",
                f"column `{name}`: the Delta table has a column `{other}` already; names must "
                f"differ in more than case, and {', '.join(sorted(POSITION_COLUMNS))} are reserved",
                fix="Rename or drop the column with a ReplaceField transform.",
                dataset=dataset,
            )


def _stored_type(type_: pa.DataType, of: _TimeTypes) -> pa.DataType:
    if type_ in _SAME:
        return type_
    exact = _EXACT.get(type_)
    if exact is not None:
        return exact
    for applies, change in _RULES:
        if applies(type_):
            return change(type_, of)
    raise _unsupported(type_)


def _stored_field(field: pa.Field, of: _TimeTypes) -> pa.Field:
    type_ = _stored_type(field.type, of)
    if kind.is_time(field.type) and kind.is_string(type_):
        return pa.field(field.name, type_, nullable=True, metadata=_TIME)
    return copy_semantic_type(pa.field(field.name, type_, nullable=True), field)


def _stored_decimal(type_: pa.DataType) -> pa.DataType:
    if type_.precision > MAX_DIGITS or type_.scale < 0:
        raise _unsupported(type_)
    return pa.decimal128(type_.precision, type_.scale)


def _merge_structs(table: pa.DataType, rows: pa.DataType) -> pa.DataType | None:
    fields = {table.field(i).name: table.field(i).type for i in range(table.num_fields)}
    for place in range(rows.num_fields):
        field = rows.field(place)
        merged = merge_types(fields[field.name], field.type) if field.name in fields else field.type
        if merged is None:
            return None
        fields[field.name] = merged
    return pa.struct(list(fields.items()))


def _cast(column: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    if column.type == type_:
        return column
    try:
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        whole = column.cast(_stored_type(column.type, _MICROSECONDS))
        check_times_of_day(whole)
        return whole.cast(type_)
    except pa.ArrowInvalid as error:
        raise DataError(
            "engine.out_of_range",
            f"column `{name}`: {error}",
            fix=f"Make the column {type_} at the source, or drop it there.",
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(
            "topic.type_unsupported",
            f"column `{name}`: {column.type} cannot be stored as {type_}: {error}",
            fix="Cast the column with a transform.",
        ) from error


def _unsupported(type_: pa.DataType) -> SchemaError:
    return SchemaError(
        "topic.type_unsupported",
        f"a topic cannot store values of type {type_}",
        fix="Cast the column with a transform, for example to a string.",
    )
