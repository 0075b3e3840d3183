"""Converts Arrow types that Spark does not take into those that it takes, without loss.

uint8 → int16 · uint16 → int32 · uint32 → int64 · uint64 → decimal(20,0) · float16 → float32 ·
large and view strings and binaries, large and fixed size lists, fixed size binaries → plain ones ·
dictionary and extension types → their values · null → string · decimals of up to 38 digits →
decimal128, larger ones → string · date64 → date32 · durations and timestamps of s, ms, ns → us (of
any zone: UTC) · times of the day → string `HH:MM:SS.ffffff` of the semantic type `time`. The same
holds inside structs, lists and maps. A value finer than a microsecond is `engine.out_of_range`.

Unions, run-end encoded columns, list views and calendar intervals have no counterpart:
`engine.unsupported_type`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.types as kind

from penstock.model.arrow_schema import check_times_of_day, copy_semantic_type, iterate_types
from penstock.model.errors import DataError, SchemaError
from penstock_values.semantic_types import SEMANTIC_TYPE_KEY

MAX_DIGITS: Final = 38
"""Digits of Spark's widest decimal."""

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
    pa.null(): pa.string(),
    pa.date64(): pa.date32(),
}

_TIME: Final = {SEMANTIC_TYPE_KEY: b"time"}
"""Metadata that marks a text as a time of the day, for sinks."""

_Time: TypeAlias = pa.DataType
_Rule: TypeAlias = tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, _Time], pa.DataType]]


def _is_list(type_: pa.DataType) -> bool:
    return any(
        is_one(type_) for is_one in (kind.is_list, kind.is_large_list, kind.is_fixed_size_list)
    )


def _has_no_counterpart(type_: pa.DataType) -> bool:
    # list views: Arrow's own cast of a slice makes lists that do not validate
    lists = (kind.is_list_view, kind.is_large_list_view)
    others = (kind.is_union, kind.is_run_end_encoded, kind.is_interval)
    return any(is_one(type_) for is_one in (*lists, *others))


_RULES: Final[tuple[_Rule, ...]] = (
    (lambda t: isinstance(t, pa.BaseExtensionType), lambda t, of: _spark_type(t.storage_type, of)),
    (kind.is_dictionary, lambda t, of: _spark_type(t.value_type, of)),
    (kind.is_time, lambda _, of: of),
    (kind.is_timestamp, lambda t, _: pa.timestamp("us", tz=t.tz and "UTC")),
    (kind.is_duration, lambda *_: pa.duration("us")),
    (kind.is_fixed_size_binary, lambda *_: pa.binary()),
    (kind.is_decimal, lambda t, _: _spark_decimal(t)),
    (kind.is_struct, lambda t, of: pa.struct([_spark_field(child, of) for child in t])),
    (kind.is_map, lambda t, of: pa.map_(_spark_type(t.key_type, of), _spark_type(t.item_type, of))),
    (_is_list, lambda t, of: pa.list_(_spark_type(t.value_type, of))),
    (_has_no_counterpart, lambda t, _: _refuse(t)),
)  # fmt: skip


def normalize_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows as Spark gets them. Every column is nullable: Spark does not check.

    Raises:
        SchemaError: `engine.unsupported_type`.
    """
    return pa.schema([_spark_field(field, pa.string()) for field in schema])


def normalize_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in the schema of `normalize_schema`; without a copy when it has that already.

    Raises:
        DataError: `engine.out_of_range`: a value does not fit into Spark's type.
    """
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type.equals(field.type) else _cast(column, field)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def has_dictionaries(schema: pa.Schema) -> bool:
    """Return whether a schema has dictionary types, at any depth."""
    return any(kind.is_dictionary(part) for type_ in schema.types for part in iterate_types(type_))


def _spark_type(type_: pa.DataType, time: _Time) -> pa.DataType:
    """Return Spark's type. Times of the day become the type `time`, at any depth."""
    exact = _EXACT.get(type_)
    if exact is not None:
        return exact
    return next((change(type_, time) for applies, change in _RULES if applies(type_)), type_)


def _spark_field(field: pa.Field, time: _Time) -> pa.Field:
    type_ = _spark_type(field.type, time)
    if kind.is_time(field.type) and kind.is_string(type_):
        return pa.field(field.name, type_, nullable=True, metadata=_TIME)
    return copy_semantic_type(pa.field(field.name, type_, nullable=True), field)


def _spark_decimal(type_: pa.DataType) -> pa.DataType:
    # Spark allows neither a negative scale nor a scale above the precision
    scale = max(type_.scale, 0)
    digits = max(type_.precision - min(type_.scale, 0), scale)
    return pa.decimal128(digits, scale) if digits <= MAX_DIGITS else pa.string()


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    # all times of the day get six digits, whatever their unit was
    stored = _spark_type(column.type, pa.time64("us"))
    try:
        whole = column.cast(stored)
        check_times_of_day(whole)
        return whole.cast(field.type)
    except pa.ArrowInvalid as error:
        raise DataError(
            "engine.out_of_range",
            f"column {field.name}: {error}",
            fix=f"Make the column {stored} at the source, or drop it there.",
        ) from None


def _refuse(type_: pa.DataType) -> pa.DataType:
    raise SchemaError(
        "engine.unsupported_type",
        f"Spark has no type for values of the Arrow type {type_}",
        fix="Give the column another type at the source, or drop it there.",
    )
