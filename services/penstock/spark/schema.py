"""Which Arrow types Spark takes, and how the others are brought there without loss.

uint8 → int16 · uint16 → int32 · uint32 → int64 · uint64 → decimal(20,0) · float16 → float32 · large
and view strings and binaries → string, binary · dictionary → its values · null → string · times of
the day → int64 microseconds · timestamps of s, ms → us (of ns: cut to us) · date64 → date32. Nested
types are taken apart and rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.types as kind

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

_Rule = tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], pa.DataType]]

_RULES: Final[tuple[_Rule, ...]] = (
    (kind.is_dictionary, lambda t: normal_type(t.value_type)),
    (kind.is_time, lambda _: pa.int64()),
    (kind.is_timestamp, lambda t: pa.timestamp("us", tz=t.tz and "UTC")),
    (kind.is_fixed_size_binary, lambda _: pa.binary()),
    (kind.is_struct, lambda t: pa.struct([_normal_field(t.field(i)) for i in range(t.num_fields)])),
    (kind.is_map, lambda t: pa.map_(normal_type(t.key_type), normal_type(t.item_type))),
    (
        lambda t: kind.is_list(t) or kind.is_large_list(t) or kind.is_fixed_size_list(t),
        lambda t: pa.list_(normal_type(t.value_type)),
    ),
)


def normal_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that Spark takes for values of a type."""
    exact = _EXACT.get(type_)
    if exact is not None:
        return exact
    for applies, change in _RULES:
        if applies(type_):
            return change(type_)
    return type_


def normal_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows as Spark gets them. Every column may be null: Spark checks
    nothing.
    """
    return pa.schema([_normal_field(field) for field in schema])


def normal_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in a normal schema; without a copy when it is there already."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type.equals(field.type) else _cast(column, field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _normal_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, normal_type(field.type), nullable=True)


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if kind.is_time(column.type):
        return column.cast(pa.time64("us"), safe=False).cast(type_)
    # nanoseconds are cut to what Spark has; every other change is exact
    return column.cast(type_, safe=not kind.is_timestamp(column.type))
