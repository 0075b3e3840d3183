"""What a column of Databend can hold, and how values become its own. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_kind

from penstock_connector.tables.casting import cast_dates, cast_singles
from penstock_connector.tables.columns import Column
from penstock_connector.tables.fitting import DAYS, STAMPS, Limit, Problem
from penstock_databases.databend_sink.types import carried, is_json
from penstock_values.decimals import from_texts

_INTEGERS: Final = (-(2**63), 2**64 - 1)
"""Whole numbers that a VARIANT keeps; it makes floating ones of all others."""

_INT_DIGITS: Final = 20
"""Of the longest whole number, one of 64 bits without a sign."""


def limit(column: Column) -> Limit:
    """Return what a column can hold."""
    native, kind = column.native, carried(column.native)
    if is_json(native):
        return Limit(native, kind, column.nullable, check=_check_json)
    low, high = None, None
    if kind is not None and is_kind.is_temporal(kind):
        low, high = DAYS if is_kind.is_date(kind) else STAMPS
    return Limit(native, kind, column.nullable, low, high)


def cast(values: pa.Array, limit: Limit) -> pa.Array:
    """Return values as a column's type. Databend takes numbers for flags and for points in time."""
    source, to = values.type, limit.type
    assert to is not None  # noqa: S101 - else values stay as they are
    if is_kind.is_duration(source):
        return values.cast(pa.duration("us")).cast(pa.int64()).cast(to)
    if is_kind.is_time(source):
        return values.cast(pa.string()).cast(to)
    if is_kind.is_decimal(to) and (is_kind.is_integer(source) or is_kind.is_boolean(source)):
        whole = values.cast(pa.int8()) if is_kind.is_boolean(source) else values
        return whole.cast(pa.decimal256(_INT_DIGITS + to.scale, to.scale)).cast(to)
    if is_kind.is_decimal(to) and is_kind.is_string(source):
        return from_texts(values, to)
    if is_kind.is_timestamp(source) and is_kind.is_date(to):
        return cast_dates(values, to)
    if is_kind.is_float32(to) and is_kind.is_float64(source):
        return cast_singles(values)
    return values.cast(to)


def _check_json(values: pa.Array) -> Iterator[Problem]:
    mask = pa.array([one is not None and _is_bent(one) for one in values.to_pylist()], pa.bool_())
    if pc.any(mask).as_py():
        yield Problem(mask, "is no JSON, or has a number in it that VARIANT would round")


def _is_bent(text: str) -> bool:
    """Return whether a VARIANT could not hold a text as it is. Order and spaces are not kept."""
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
