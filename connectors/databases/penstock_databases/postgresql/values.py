"""Values as PostgreSQL writes them → typed Arrow columns.

A whole column is cast at once. Only what Arrow's casts do not know takes the exact slow path, value
by value: infinities, years beyond four digits, arrays. The texts are those of a session as
`connection.py` begins it: ISO dates, UTC, hexadecimal bytes. Pure.

`infinity` of dates and times has no place in rows: it becomes the last microsecond (the first one,
when negative) of the years 0001 to 9999, which is as far as everybody's dates go.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import DataError
from penstock_values.semantic_types import semantic_type

_DAY_US: Final = 86_400_000_000
_FIRST_DAY: Final = -719_162  # 0001-01-01
_LAST_DAY: Final = 2_932_896  # 9999-12-31
_STAMP: Final = re.compile(
    r"(\d{4,})-(\d\d)-(\d\d)"
    r"(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?)?)?( BC)?"
)
_ITEM: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def typed(texts: pa.Array, wanted: pa.Field, where: object) -> pa.Array:
    """Return a column of texts as values of a field.

    Args:
        texts: Strings, or null.
        wanted: The field that `row_field` gave for the column.
        where: The table, for errors.

    Raises:
        DataError: `sql.value`: a value that the type of rows cannot hold. It is not shown.
    """
    kind = wanted.type
    if pa.types.is_string(kind):
        return texts
    try:
        return _at_once(texts, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, binascii.Error, ValueError):
        pass
    try:
        return _one_by_one(texts, kind)
    except (pa.ArrowInvalid, ValueError, OverflowError) as error:
        raise DataError(
            "sql.value",
            f"{where}: column {wanted.name!r} has a value that {kind} cannot hold",
            fix="NaN is no decimal, and arrays have one dimension here: change the row, or leave "
            "the column out.",
            dataset=str(where),
        ) from error


def _at_once(texts: pa.Array, wanted: pa.Field) -> pa.Array:
    kind = wanted.type
    if pa.types.is_boolean(kind):
        return pc.equal(texts, "t")
    if pa.types.is_binary(kind):
        return _geometries(texts) if semantic_type(wanted) == "wkb" else _bytes(texts)
    if pa.types.is_list(kind):
        return _lists(texts, wanted)
    return pc.cast(texts, kind)


def _one_by_one(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    one: Callable[[str], Any]
    if pa.types.is_decimal(kind):  # casts of 38 digits fail over an overflow that is none
        return pc.cast(texts, pa.decimal256(76, kind.scale)).cast(kind)
    if pa.types.is_date(kind):
        one = days
    elif pa.types.is_timestamp(kind):
        one = micros
    else:
        raise ValueError(str(kind))
    numbers = [None if text is None else one(text) for text in texts.to_pylist()]
    storage = pa.int32() if pa.types.is_date(kind) else pa.int64()
    return pa.array(numbers, storage).cast(kind)


# ── dates and times ──────────────────────────────────────────────────────────────────────────────


def days(text: str) -> int:
    """Return the days since 1970 of a date."""
    if text.endswith("infinity"):
        return _FIRST_DAY if text.startswith("-") else _LAST_DAY
    match = _STAMP.fullmatch(text)
    if match is None or match[4]:
        raise ValueError("no date")
    return _day_number(match)


def micros(text: str) -> int:
    """Return the microseconds since 1970 of a timestamp."""
    if text.endswith("infinity"):
        return _FIRST_DAY * _DAY_US if text.startswith("-") else (_LAST_DAY + 1) * _DAY_US - 1
    match = _STAMP.fullmatch(text)
    if match is None or not match[4]:
        raise ValueError("no timestamp")
    seconds = int(match[4]) * 3600 + int(match[5]) * 60 + int(match[6])
    zone = int(match[9] or 0) * 3600 + int(match[10] or 0) * 60 + int(match[11] or 0)
    seconds -= -zone if match[8] == "-" else zone
    fraction = int((match[7] or "").ljust(6, "0"))
    return _day_number(match) * _DAY_US + seconds * 1_000_000 + fraction


def _day_number(match: re.Match[str]) -> int:
    """Return a day's number in the Gregorian calendar, extended both ways as the server does.

    https://howardhinnant.github.io/date_algorithms.html#days_from_civil
    """
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    year = (1 - year if match[12] else year) - (month <= 2)
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────


def _bytes(texts: pa.Array) -> pa.Array:
    r"""Return `\x6869` as bytes."""
    unhexed = [None if v is None else binascii.unhexlify(v[2:]) for v in texts.to_pylist()]
    return pa.array(unhexed, pa.binary())


def _geometries(texts: pa.Array) -> pa.Array:
    """Return PostGIS's hexadecimal EWKB as WKB: the number of the reference system is left out."""
    return pa.array([None if v is None else _wkb(v) for v in texts.to_pylist()], pa.binary())


def _wkb(text: str) -> bytes:
    data = bytes.fromhex(text)
    order = "little" if data[:1] == b"\x01" else "big"
    kind = int.from_bytes(data[1:5], order)  # type: ignore[arg-type] # one of the two words
    if not kind & 0x20000000:
        return data
    plain = (kind & ~0x20000000).to_bytes(4, order)  # type: ignore[arg-type] # as above
    return data[:1] + plain + data[9:]


# ── arrays ───────────────────────────────────────────────────────────────────────────────────────


def _lists(texts: pa.Array, wanted: pa.Field) -> pa.Array:
    offsets: list[int | None] = []
    items: list[str | None] = []
    for text in texts.to_pylist():
        offsets.append(None if text is None else len(items))
        if text is not None:
            items += array_items(text)
    offsets.append(len(items))
    values = typed(pa.array(items, pa.string()), wanted.type.value_field, wanted.name)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=wanted.type)


def array_items(text: str) -> list[str | None]:
    """Return the texts of an array's items.

    Raises:
        ValueError: It has more than one dimension.
    """
    if text.startswith("["):  # bounds that do not begin at 1: [0:2]={…}
        text = text.partition("=")[2]
    if "{" in text[1:] and _nested(text):
        raise ValueError("an array of arrays")
    items: list[str | None] = []
    for match in _ITEM.finditer(text, 1, len(text) - 1):
        quoted, plain = match.groups()
        if plain is None:
            items.append(_ESCAPED.sub(r"\1", quoted))
        else:
            items.append(None if plain.upper() == "NULL" else plain)
    return items


def _nested(text: str) -> bool:
    return "{" in _ITEM.sub("", text[1:])
