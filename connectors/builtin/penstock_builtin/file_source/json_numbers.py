"""Whole numbers of JSON that their column would not hold digit by digit. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_EXACT: Final = 1 << 53
"""Every whole number up to it is a double."""

INT64: Final = 1 << 63
"""The first whole number that is none."""
_LONG_WHOLE: Final = r"[\[:,\s]-?[0-9]{16,}[\s,\]}]"


def may_lose_digits(data: bytes, rows: pa.RecordBatch, declared: pa.Schema) -> bool:
    """Return whether a column of fractions, whose type was inferred, may hold a whole number that
    was written with other digits, or an infinity, of which Arrow takes words that others do not. A
    search of values, then one of the text: nothing is done per row.
    """
    columns = zip(rows.schema.names, rows.columns, strict=True)
    largest = max((_largest(column) for name, column in columns if name not in declared.names),
                  default=0.0)  # fmt: skip
    if largest < _EXACT or math.isinf(largest):
        return math.isinf(largest)
    text = pa.array([data.decode()], pa.large_string())
    return bool(pc.match_substring_regex(text, _LONG_WHOLE)[0].as_py())


def _largest(column: pa.Array) -> float:
    """Return the largest fraction of a column without its sign, at any depth."""
    if pa.types.is_struct(column.type):
        return max(map(_largest, column.flatten()), default=0.0)
    if pa.types.is_list(column.type):
        return _largest(pc.list_flatten(column))
    if not pa.types.is_floating(column.type):
        return 0.0
    ends = pc.min_max(column).as_py()
    return max(-(ends["min"] or 0.0), ends["max"] or 0.0)


def inexact_field(
    row: Mapping[str, Any], schema: pa.Schema, declared: pa.Schema, least: int
) -> tuple[str, int] | None:
    """Return the place and the value of a whole number that would lose digits and is `least` or
    larger without its sign; None for none.
    """
    fields = (field for field in schema if field.name not in declared.names)
    found = (
        place for field in fields for place in _inexact(row.get(field.name), field.type, field.name)
    )
    return next((one for one in found if abs(one[1]) >= least), None)


def _inexact(value: Any, kind: pa.DataType, place: str) -> Iterator[tuple[str, int]]:
    match value:
        case bool():
            return
        case int():
            if not _is_held(value, kind):
                yield place, value
        case dict() if pa.types.is_struct(kind):
            for child in kind:
                yield from _inexact(value.get(child.name), child.type, f"{place}.{child.name}")
        case list() if pa.types.is_list(kind):
            for item in value:
                yield from _inexact(item, kind.value_type, place)


def _is_held(value: int, kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        # digits that a program wrote for a double come back: 9223372036854776000 is 2^63 so written
        return abs(value) <= _EXACT or Decimal(repr(float(value))) == value
    return -INT64 <= value < INT64 or not pa.types.is_integer(kind)
