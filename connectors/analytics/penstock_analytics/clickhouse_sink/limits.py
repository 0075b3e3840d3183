"""What a column of ClickHouse can hold, and how values become its own. Pure.

ClickHouse itself wraps numbers around, cuts fractions of seconds off and fills texts up, without a
word; here the one row is refused.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_kind

from penstock_analytics.clickhouse_sink.types import (
    bare,
    carried,
    is_list,
    is_nullable,
    made_of,
    named_part,
    parted,
    precision,
)
from penstock_connector import SchemaError
from penstock_connector.tables.casting import cast_dates, cast_exactly, cast_singles
from penstock_connector.tables.columns import Column
from penstock_connector.tables.fitting import UUID, Limit, Problem
from penstock_values.decimals import from_texts

_INT_DIGITS: Final = 20
"""Of the longest whole number, one of 64 bits without a sign."""

_SECOND: Final = 1_000_000
_FIRST_DAY, _LAST_DAY = -25_567, 120_529
"""1900-01-01 and 2299-12-31, the ends of Date32 and DateTime64."""

_RANGES: Final = {
    "Date": (0, 65_535),
    "Date32": (_FIRST_DAY, _LAST_DAY),
    "DateTime": (0, (2**32 - 1) * _SECOND),
    "Int128": (-(2**127), 2**127 - 1),
    "Int256": (-(2**255), 2**255 - 1),
    "UInt128": (0, 2**128 - 1),
    "UInt256": (0, 2**256 - 1),
}
_STAMPS: Final = (_FIRST_DAY * 86_400 * _SECOND, (_LAST_DAY + 1) * 86_400 * _SECOND - 1)
_NANO_STAMPS: Final = (_STAMPS[0] * 1000, 2**63 - 1)
_WHOLE: Final = re.compile(r"-?\d{1,78}")

Check = Callable[[pa.Array], Iterator[Problem]]


def limit(column: Column) -> Limit:
    """Return what a column can hold.

    Raises:
        SchemaError: `clickhouse.column_type`: rows cannot be written to it.
    """
    native, kind = column.native, carried(column.native)
    name, inside = made_of(bare(native))
    if kind is None:
        raise SchemaError(
            "clickhouse.column_type",
            f"column {column.name!r} is {native[:200]}, and no values of rows are",
            fix="Leave the field out (`fields.whitelist`), or give the column another type.",
        )
    if column.key and name == "String" and is_kind.is_string(column.field.type):
        kind = pa.string()  # of a key, for people who read it
    low, high = _RANGES.get(name, (None, None))
    if name == "DateTime64":
        low, high = _STAMPS if precision(inside) <= 6 else _NANO_STAMPS
    check = _checked(native, name, inside)
    if is_kind.is_string(kind):
        low = high = None
    pattern = UUID if name == "UUID" else ""
    return Limit(native, kind, is_nullable(native), low, high, pattern=pattern, check=check)


def _checked(native: str, name: str, inside: str) -> Check | None:
    """Return what else values of a type have to be."""
    match name:
        case "IPv4" | "IPv6":
            return _each(f"is no {name}", _is_address(int(name[-1])))
        case "Enum8" | "Enum16":
            words = frozenset(_words(inside))
            return _each(f"is none of the words of {name}", words.__contains__)
        case "FixedString":
            return _sized(int(inside))
        case "JSON":
            why = "is no object of JSON, or has a number that would be rounded"
            return _each(why, _is_object)
        case "Int128" | "Int256" | "UInt128" | "UInt256":
            return _each(f"is no number of the type {name}", _is_between(*_RANGES[name]))
        case "DateTime" | "DateTime64":
            digits = precision(inside) if name == "DateTime64" else 0
            return _rounded(10 ** ((6 if digits <= 6 else 9) - digits))
        case "Array" | "Map" | "Tuple":
            return _filled(native)
    return None


def cast(values: pa.Array, limit: Limit) -> pa.Array:
    """Return values as a column's type, exactly or not at all."""
    source, to = values.type, limit.type
    assert to is not None  # noqa: S101 - `limit` gives one to each column
    if is_kind.is_nested(source):  # Arrow casts what a slice leaves out, too
        values = values.take(pa.array(range(len(values)), pa.int64()))
    if is_kind.is_duration(source):
        values = values.cast(pa.duration("us")).cast(pa.int64())
    elif is_kind.is_time(source):
        values = values.cast(pa.string())
    if is_kind.is_binary(to) and not is_kind.is_binary(source):
        return cast(values, Limit(limit.native, pa.string())).cast(to)
    if is_kind.is_nested(source) and made_of(bare(limit.native))[0] == "JSON":
        return cast_exactly(values, to, "json", "UTC")
    if is_kind.is_decimal(to):
        return _decimals(values, to)
    if is_kind.is_temporal(to) and is_kind.is_integer(source):
        raise pa.ArrowNotImplementedError("a number is no point in time")
    if is_kind.is_timestamp(source) and is_kind.is_date(to):
        return cast_dates(values, to)
    if is_kind.is_float32(to) and is_kind.is_float64(source):
        return cast_singles(values)
    return values.cast(to)


def _decimals(values: pa.Array, to: pa.DataType) -> pa.Array:
    if is_kind.is_boolean(values.type):
        values = values.cast(pa.int8())
    if is_kind.is_integer(values.type):
        return values.cast(pa.decimal256(_INT_DIGITS + to.scale, to.scale)).cast(to)
    return from_texts(values, to) if is_kind.is_string(values.type) else values.cast(to)


def emptied(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose lists, maps and structures are empty where they are null."""
    columns = []
    for name, values in zip(rows.schema.names, rows.columns, strict=True):
        ours = name.startswith("__") or not values.null_count
        columns.append(values if ours else _empty_for_null(values))
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _empty_for_null(values: pa.Array) -> pa.Array:
    kind = values.type
    if is_kind.is_struct(kind):
        return pa.StructArray.from_arrays(values.flatten(), fields=[*kind])
    if is_kind.is_map(kind) or is_list(kind):
        return pa.array([[] if one is None else one for one in values.to_pylist()], kind)
    return values


def _each(why: str, holds: Callable[[Any], bool]) -> Check:
    """Return a check of each value that is not null."""

    def check(values: pa.Array) -> Iterator[Problem]:
        bad = [one is not None and not holds(one) for one in values.to_pylist()]
        if any(bad):
            yield Problem(pa.array(bad, pa.bool_()), why)

    return check


def _sized(size: int) -> Check:
    def check(values: pa.Array) -> Iterator[Problem]:
        bad = pc.not_equal(pc.binary_length(values), size)
        if pc.any(bad).as_py():
            yield Problem(bad, f"has not {size} bytes, and the column would fill or cut it")

    return check


def _rounded(unit: int) -> Check:
    """Return a check that no fraction of a unit is lost."""

    def check(values: pa.Array) -> Iterator[Problem]:
        if unit == 1:
            return
        numbers = values.view(pa.int64())
        bad = pc.not_equal(numbers, pc.multiply(pc.divide(numbers, unit), unit))
        if pc.any(bad).as_py():
            yield Problem(bad, "has a fraction of a second that the column would cut off")

    return check


def _filled(native: str) -> Check:
    """Return a check that there is no null inside of a value where its type has none."""

    def check(values: pa.Array) -> Iterator[Problem]:
        bad = [one is not None and not _holds(one, native) for one in values.to_pylist()]
        if any(bad):
            yield Problem(pa.array(bad, pa.bool_()), f"has a null inside, {native[:80]} has not")

    def look(values: pa.Array) -> Iterator[Problem]:
        if _has_nulls(values):
            yield from check(values)

    return look


def _has_nulls(values: pa.Array) -> bool:
    """Return whether anything inside of values is null: mostly nothing is, which is cheap."""
    kind = values.type
    parts: list[pa.Array] = []
    if is_kind.is_map(kind):
        parts = [values.keys, values.items]
    elif is_list(kind):
        parts = [values.flatten()]
    elif is_kind.is_struct(kind):
        parts = values.flatten()
    return any(part.null_count or _has_nulls(part) for part in parts)


def _holds(value: Any, native: str) -> bool:
    if value is None:
        return is_nullable(native)
    name, inside = made_of(bare(native))
    if name == "Array":
        return all(_holds(one, inside) for one in value)
    if name == "Map":
        key, item = parted(inside)
        return all(_holds(one, key) and _holds(other, item) for one, other in value)
    if name == "Tuple":
        kinds = [named_part(part)[1] for part in parted(inside)]
        return all(_holds(one, kind) for one, kind in zip(value.values(), kinds, strict=True))
    return True


def _words(inside: str) -> Iterator[str]:
    for part in parted(inside):
        yield part[1 : part.rindex("'")].replace("\\'", "'").replace("\\\\", "\\")


def _is_address(version: int) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return holds


def _is_between(low: int, high: int) -> Callable[[str], bool]:
    return lambda text: bool(_WHOLE.fullmatch(text)) and low <= int(text) <= high


def _is_object(text: str) -> bool:
    try:
        found = json.loads(text, parse_int=_whole, parse_float=_fraction, parse_constant=_refused)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict)


def _whole(digits: str) -> int:
    if len(digits) > _INT_DIGITS or not -(2**63) <= int(digits) < 2**64:
        raise ValueError
    return 0


def _fraction(digits: str) -> float:
    number = float(digits)
    if abs(number) == float("inf") or (len(digits) > 17 and repr(number) != digits):
        raise ValueError
    return number


def _refused(word: str) -> float:
    raise ValueError(word)
