"""Arrow schemas and columns: copies of semantic types (`penstock_values.semantic_types`), the range
of times of day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kind

from penstock_values.semantic_types import SEMANTIC_TYPE_KEY


def copy_semantic_type(field: pa.Field, of: pa.Field) -> pa.Field:
    """Return the field with the semantic type of another field as its only metadata."""
    found = (of.metadata or {}).get(SEMANTIC_TYPE_KEY)
    return field.with_metadata({SEMANTIC_TYPE_KEY: found}) if found else field.remove_metadata()


def copy_semantic_types(schema: pa.Schema, of: pa.Schema) -> pa.Schema:
    """Copy semantic types to those fields that have the same name and type in `of`."""
    known = {field.name: field for field in of}
    fields = []
    for field in schema:
        other = known.get(field.name)
        same = other is not None and other.type == field.type
        fields.append(copy_semantic_type(field, other) if same else field)
    return pa.schema(fields)


def set_semantic_types(schema: pa.Schema, semantic_types: Mapping[str, str]) -> pa.Schema:
    """Return the schema with exactly these semantic types, by column name, without others."""
    fields = [
        field.with_metadata({SEMANTIC_TYPE_KEY: semantic_types[field.name].encode()})
        if field.name in semantic_types
        else field.remove_metadata()
        for field in schema
    ]
    return pa.schema(fields)


_DAY_US: Final = 86_400_000_000


def iterate_types(type_: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and the types nested in it, at every depth."""
    yield type_
    for n in range(type_.num_fields):
        yield from iterate_types(type_.field(n).type)


def check_times_of_day(column: pa.Array) -> None:
    """Refuse times of day outside of 24 hours; Arrow holds them and formats `<value out of range>`.

    Args:
        column: Its times of day, at any depth, are in microseconds.

    Raises:
        pa.ArrowInvalid: a time of day is negative, or 24 hours or more.
    """
    type_ = column.type
    if not any(kind.is_time(part) for part in iterate_types(type_)):
        return
    if kind.is_time(type_):
        extremes = pc.min_max(column.cast(pa.int64())).as_py()
        if (extremes["min"] or 0) < 0 or (extremes["max"] or 0) >= _DAY_US:
            raise pa.ArrowInvalid("a time of the day is beyond its 24 hours")
    elif kind.is_map(type_):
        check_times_of_day(column.keys)
        check_times_of_day(column.items)
    else:
        for inner in column.flatten() if kind.is_struct(type_) else [column.flatten()]:
            check_times_of_day(inner)
