"""Which values of rows a column can hold: found before they are sent, row by row. Pure.

Databend would refuse a whole file for one bad value, or bend the value; here the one row is named,
and its neighbours pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_kind

from penstock_connector.decimals import from_texts
from penstock_databases.databend_sink.types import carried, is_json
from penstock_databases.dialect import Column

Problem = tuple[pa.BooleanArray, str]
"""Rows that cannot be written, and why; for people: `column "x" …`."""

_DAYS: Final = (-719_162, 2_932_896)
"""From 0001-01-01 to 9999-12-31, Databend's first and last day."""

_STAMPS: Final = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
"""The same in microseconds."""

_INTEGERS: Final = (-(2**63), 2**64 - 1)
"""Whole numbers that a VARIANT keeps; it makes floating ones of all others."""

_INT_DIGITS: Final = 20
"""Of the longest whole number, one of 64 bits without a sign."""

_TEXTS: Final = frozenset({pa.string(), pa.large_string(), pa.string_view()})


def fit(values: pa.Array, column: Column) -> tuple[pa.Array, list[Problem]]:
    """Return values as the column takes them, and the rows for which there are none.

    Raises:
        pa.ArrowNotImplementedError: no value of this type is one of the column's.
    """
    problems: list[Problem] = []
    values = plain(values)
    kind = carried(column.native)
    if kind is not None and values.type != kind:
        values, failed = _cast_rows(values, kind)
        if failed is not None:
            problems.append((failed, f"has a value that is no {column.native}"))
    if is_json(column.native):
        problems += _where(values, _json_problem, "has a text that is no JSON, or a number in it "
                           "that VARIANT would round")  # fmt: skip
    elif is_kind.is_string(values.type):
        problems += _broken_text(values)
    elif is_kind.is_temporal(values.type):
        problems += _out_of_range(values, column)
    return values, problems


def plain(values: pa.Array) -> pa.Array:
    """Return an array of a type that Parquet, and Databend's reader of it, have."""
    if is_kind.is_dictionary(values.type):
        values = values.dictionary_decode()
    if is_kind.is_duration(values.type):
        return values.cast(pa.duration("us")).cast(pa.int64())
    if is_kind.is_time(values.type):
        return values.cast(pa.string())
    return values


def _cast_rows(values: pa.Array, to: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    try:
        return _cast(values, to), None
    except (pa.ArrowInvalid, ValueError):
        pass
    failed = [False] * len(values)
    for row in _failing(values, to):
        failed[row] = True
    mask = pa.array(failed)
    return _cast(pc.if_else(mask, pa.scalar(None, values.type), values), to), mask


def _failing(values: pa.Array, to: pa.DataType) -> list[int]:
    """Return the rows that cannot be cast. Halves what fails: a few bad rows cost little."""
    found: list[int] = []
    left = [(0, len(values))]
    while left:
        start, end = left.pop()
        try:
            _cast(values.slice(start, end - start), to)
        except (pa.ArrowInvalid, ValueError):
            middle = (start + end) // 2
            if end - start == 1:
                found.append(start)
            else:
                left += [(start, middle), (middle, end)]
    return found


def _cast(values: pa.Array, to: pa.DataType) -> pa.Array:
    source = values.type
    if is_kind.is_decimal(to) and (is_kind.is_integer(source) or is_kind.is_boolean(source)):
        whole = values.cast(pa.int8()) if is_kind.is_boolean(source) else values
        return whole.cast(pa.decimal256(_INT_DIGITS + to.scale, to.scale)).cast(to)
    if is_kind.is_decimal(to) and source in _TEXTS:
        return from_texts(values.cast(pa.string()), to)
    if is_kind.is_timestamp(source) and is_kind.is_date(to):
        days = values.cast(to)
        if not days.cast(source).equals(values):
            raise pa.ArrowInvalid("a time of day would be lost")
        return days
    if is_kind.is_float32(to) and is_kind.is_float64(source):
        narrow = values.cast(to)
        if pc.any(pc.and_(pc.is_inf(narrow), pc.is_finite(values))).as_py():
            raise pa.ArrowInvalid("a number is too large")
        return narrow
    return values.cast(to)


def _out_of_range(values: pa.Array, column: Column) -> list[Problem]:
    days = is_kind.is_date32(values.type)
    low, high = _DAYS if days else _STAMPS
    numbers = values.view(pa.int32() if days else pa.int64())
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is None or (ends["min"] >= low and ends["max"] <= high):
        return []
    outside = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
    return [(outside, f"has a value before year 1 or after 9999, no {column.native} has")]


def _broken_text(values: pa.Array) -> list[Problem]:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raw = values.cast(pa.binary())
        return _where(raw, _is_broken, "has a text that is no valid UTF-8")
    return []


def _is_broken(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return False


def _where(values: pa.Array, bad: Callable[..., bool], why: str) -> list[Problem]:
    mask = pa.array([one is not None and bad(one) for one in values.to_pylist()], pa.bool_())
    return [(mask, why)] if pc.any(mask).as_py() else []


def _json_problem(text: str) -> bool:
    """Tell whether a VARIANT could not hold a text as it is. Order and spaces are not kept."""
    try:
        json.loads(text, parse_int=_whole, parse_float=_fraction, parse_constant=_refused)
    except (ValueError, RecursionError):
        return True
    return False


def _whole(digits: str) -> int:
    if len(digits) > _INT_DIGITS or not _INTEGERS[0] <= int(digits) <= _INTEGERS[1]:
        raise ValueError
    return 0


def _fraction(digits: str) -> float:
    number = float(digits)
    if abs(number) == float("inf") or Decimal(repr(number)) != Decimal(digits):
        raise ValueError
    return number


def _refused(word: str) -> float:
    raise ValueError(word)
