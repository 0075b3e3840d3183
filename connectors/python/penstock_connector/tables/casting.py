"""Values of one Arrow type as values of another, exactly or not at all. Pure."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_values.decimals import from_texts

_PLAIN: Final = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}

_DIGITS_OF_INT: Final = 20
"""Digits of the largest integer of 64 bits."""


def is_binary(kind: pa.DataType) -> bool:
    """Return whether values of a type are bytes."""
    tests = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_binary_view,
    )
    return any(test(kind) for test in tests)


def plain(values: pa.Array) -> pa.Array:
    """Return an array of one of the few types that the rest is about."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_fixed_size_binary(values.type):
        return values.cast(pa.binary())
    nearest = _PLAIN.get(values.type)
    return values.cast(nearest) if nearest else values


def cast_rows(
    values: pa.Array, cast: Callable[[pa.Array], pa.Array]
) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Return values as another type, and the rows that have none there; those are null then.

    Raises:
        pa.ArrowNotImplementedError: no value of the one type is one of the other.
    """
    try:
        return cast(values), None
    except (pa.ArrowInvalid, ValueError, TypeError):
        if not len(values):
            raise
    failed = [False] * len(values)
    for row in _failing(values, cast):
        failed[row] = True
    mask = pa.array(failed)
    return cast(pc.if_else(mask, pa.scalar(None, values.type), values)), mask


def _failing(values: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> Sequence[int]:
    """Return the rows that cannot be cast. Halves what fails: a few bad rows cost little."""
    found: list[int] = []
    left = [(0, len(values))]
    while left:
        start, end = left.pop()
        try:
            cast(values.slice(start, end - start))
        except (pa.ArrowInvalid, ValueError, TypeError):
            middle = (start + end) // 2
            if end - start == 1:
                found.append(start)
            else:
                left += [(start, middle), (middle, end)]
    return found


def cast_exactly(values: pa.Array, to: pa.DataType, shape: str, zone: str) -> pa.Array:
    """Return values as another type; raises for a value that would be another one there.

    Args:
        values: An array of a type that `plain` returns.
        to: The type.
        shape: How a text is made of values that are none; see `Limit`.
        zone: Where a wall clock stands that shows times without a zone.
    """
    source = values.type
    text = pa.types.is_string(to)
    if text and (shape.startswith("bits") or pa.types.is_nested(source)):
        made = _bits(shape) if shape.startswith("bits") else _TEXTS[shape]
        return pa.array([None if v is None else made(v) for v in values.to_pylist()], pa.string())
    between = (source, to)
    if any(map(pa.types.is_timestamp, between)) and all(map(_is_moment, between)):
        return _moments(values, to, zone)
    _refuse_numbers_as_moments(source, to)
    if pa.types.is_decimal(to) and pa.types.is_integer(source):
        return values.cast(pa.decimal256(_DIGITS_OF_INT + to.scale, to.scale)).cast(to)
    if pa.types.is_decimal(to) and pa.types.is_string(source):
        return from_texts(values, to)
    if pa.types.is_boolean(to) and not pa.types.is_string(source):
        return _flag(values)
    if pa.types.is_float32(to) and pa.types.is_floating(source):
        return cast_singles(values)
    return values.cast(to)


def _refuse_numbers_as_moments(source: pa.DataType, to: pa.DataType) -> None:
    """Arrow takes a number for a point in time, of whatever unit it has; nobody meant that."""
    timed = [pa.types.is_temporal(kind) and not pa.types.is_duration(kind) for kind in (source, to)]
    texts = [pa.types.is_string(kind) or pa.types.is_null(kind) for kind in (source, to)]
    if timed[0] != timed[1] and not any(texts):
        raise pa.ArrowNotImplementedError(f"{source} is no {to}")


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_string(kind))


def _moments(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    """Cast from or to points in time, texts and days among them."""
    if not pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us"))
    return _timestamp(values, to, zone)


def _timestamp(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    if pa.types.is_date(to):
        return cast_dates(values, to)
    if not pa.types.is_timestamp(to) or bool(values.type.tz) == bool(to.tz):
        return values.cast(to)
    exact = values.cast(pa.timestamp("us", values.type.tz))
    if to.tz:
        known = pc.assume_timezone(exact, zone, ambiguous="earliest", nonexistent="earliest")
        return known.cast(to)
    return pc.local_timestamp(exact.cast(pa.timestamp("us", zone)))


def cast_dates(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Return timestamps as dates; raises for one that has a time of day."""
    dates = values.cast(to)
    if not dates.cast(values.type).equals(values):
        raise pa.ArrowInvalid("a time of day would be lost")
    return dates


def _flag(values: pa.Array) -> pa.Array:
    numbers = values.cast(pa.int64())
    if not pc.all(pc.is_in(numbers, pa.array([0, 1, None])), min_count=0).as_py():
        raise pa.ArrowInvalid("a number is neither 0 nor 1")
    return numbers.cast(pa.bool_())


def cast_singles(values: pa.Array) -> pa.Array:
    """Return floats as singles; raises for a number that would be infinite."""
    singles = values.cast(pa.float32())
    lost = pc.and_(pc.is_inf(singles), pc.is_finite(values))
    if pc.any(lost).as_py():
        raise pa.ArrowInvalid("a number is too large")
    return singles


# ── texts of values that are made of others ──────────────────────────────────────────────────────


def _json(value: Any) -> str:
    return json.dumps(_simple(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _simple(value: Any) -> Any:
    """Return what JSON has for a value; numbers beyond JSON's own are texts."""
    if isinstance(value, dict):
        return {str(name): _simple(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_simple(part) for part in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal | uuid.UUID) else value


def _array(value: Any) -> str:
    """Return PostgreSQL's text of an array."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(_array(part) for part in value) + "}"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, int | float):
        return str(value)
    text = "\\x" + value.hex() if isinstance(value, bytes) else _element(value)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _element(value: Any) -> str:
    return _json(value) if isinstance(value, dict) else str(value)


def _bits(shape: str) -> Callable[[Any], str]:
    """Return what makes digits of a number: `bits8` has eight. A text of digits is one already."""
    width = int(shape.removeprefix("bits") or 0)

    def made(value: Any) -> str:
        return value if isinstance(value, str) else f"{int(value):0{width}b}"

    return made


_TEXTS: Final = {"json": _json, "array": _array}
