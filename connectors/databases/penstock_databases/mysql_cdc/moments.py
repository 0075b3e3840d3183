"""Dates and times of rows in the log. Pure.

https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html; dates that no calendar has
(zeros, and what ALLOW_INVALID_DATES lets in) become what the configuration says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock_connector import DataError
from penstock_databases.mysql_cdc.arena import Arena, Ints, Mask, fixed

_DAY: Final = 86_400
_YEAR_1: Final = -719_162
"""0001-01-01 in days from 1970-01-01: what a date that is none is rounded to."""


def fraction_width(digits: int) -> int:
    """Return the bytes that digits after the point take."""
    return (digits + 1) // 2


def _micros(arena: Arena, at: Ints, digits: int, offset: int) -> Ints:
    width = fraction_width(digits)
    if not width:
        return np.zeros(len(at), np.int64)
    micros: Ints = arena.big(at, width, offset).astype(np.int64) * 10 ** (6 - 2 * width)
    return micros


@dataclass(frozen=True, slots=True)
class Dates:
    """Dates of 3 bytes."""

    zeros: str
    width: int = 3

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the dates at places."""
        packed = arena.little(at, 3).astype(np.int64)
        days, bad = _days(packed >> 9, packed >> 5 & 15, packed & 31)
        null = settled(days, bad, null, self.zeros, _YEAR_1)
        return fixed(days.astype(np.int32), pa.date32(), null)


@dataclass(frozen=True, slots=True)
class Stamps:
    """DATETIME of 5 bytes and a fraction."""

    digits: int
    zeros: str
    kind: pa.DataType

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return 5 + fraction_width(self.digits)

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the moments at places."""
        packed = arena.big(at, 5).astype(np.int64) & ((1 << 39) - 1)
        months = packed >> 22
        days, bad = _days(months // 13, months % 13, packed >> 17 & 31)
        seconds = (packed >> 12 & 31) * 3600 + (packed >> 6 & 63) * 60 + (packed & 63)
        micros = (days * _DAY + seconds) * 1_000_000 + _micros(arena, at, self.digits, 5)
        null = settled(micros, bad, null, self.zeros, _YEAR_1 * _DAY * 1_000_000)
        return fixed(micros, self.kind, null)


@dataclass(frozen=True, slots=True)
class OldStamps:
    """DATETIME as servers before 5.6 store it: a decimal number of 14 digits in 8 bytes."""

    zeros: str
    kind: pa.DataType
    width: int = 8

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the moments at places."""
        number = arena.little(at, 8).astype(np.int64)
        date, time = number // 1_000_000, number % 1_000_000
        days, bad = _days(date // 10_000, date // 100 % 100, date % 100)
        seconds = time // 10_000 * 3600 + time // 100 % 100 * 60 + time % 100
        micros = (days * _DAY + seconds) * 1_000_000
        null = settled(micros, bad, null, self.zeros, _YEAR_1 * _DAY * 1_000_000)
        return fixed(micros, self.kind, null)


@dataclass(frozen=True, slots=True)
class Instants:
    """TIMESTAMP: seconds since 1970, most significant byte first, and a fraction."""

    digits: int
    zeros: str
    kind: pa.DataType
    old: bool = False

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return 4 + fraction_width(self.digits)

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the moments at places."""
        words = arena.little(at, 4) if self.old else arena.big(at, 4)
        seconds = words.astype(np.int64)
        micros = seconds * 1_000_000 + _micros(arena, at, self.digits, 4)
        null = settled(micros, micros == 0, null, self.zeros, _YEAR_1 * _DAY * 1_000_000)
        return fixed(micros, self.kind, null)


@dataclass(frozen=True, slots=True)
class Times:
    """TIME: from -838:59:59 to 838:59:59, as text with all its digits."""

    digits: int
    old: bool = False

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return 3 + fraction_width(self.digits)

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the times at places."""
        sign, seconds, micros = self._old(arena, at) if self.old else self._new(arena, at)
        count, digits = len(at), self.digits
        gone = null.tolist() if null is not None else [False] * count
        parts = zip(sign.tolist(), seconds.tolist(), micros.tolist(), gone, strict=True)
        texts = [
            None if none else _time(negative, second, micro, digits)
            for negative, second, micro, none in parts
        ]
        return pa.array(texts, pa.string())

    def _new(self, arena: Arena, at: Ints) -> tuple[Mask, Ints, Ints]:
        """Whole and fraction are one number, of which zero stands in the middle."""
        width = fraction_width(self.digits)
        packed = arena.big(at, self.width).astype(np.int64) - (0x800000 << 8 * width)
        sign, packed = packed < 0, np.abs(packed)
        micros = (packed & ((1 << 8 * width) - 1)) * 10 ** (6 - 2 * width)
        packed >>= 8 * width
        seconds = (packed >> 12 & 1023) * 3600 + (packed >> 6 & 63) * 60 + (packed & 63)
        return sign, seconds, micros

    def _old(self, arena: Arena, at: Ints) -> tuple[Mask, Ints, Ints]:
        """Before 5.6: a decimal number of 7 digits in 3 bytes."""
        three = (arena.gather(at, "<u4") << np.uint32(8)).view(np.int32) >> 8
        sign, number = three < 0, np.abs(three).astype(np.int64)
        seconds = number // 10_000 * 3600 + number // 100 % 100 * 60 + number % 100
        return sign, seconds, np.zeros(len(at), np.int64)


def _time(negative: bool, seconds: int, micros: int, digits: int) -> str:
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    fraction = f".{micros:06}"[: digits + 1] if digits else ""
    return f"{'-' if negative else ''}{hours:02}:{minute:02}:{second:02}{fraction}"


def _days(years: Ints, months: Ints, days: Ints) -> tuple[Ints, Mask]:
    """Return days since 1970, and which dates are none."""
    first = ((years - 1970) * 12 + months - 1).astype("M8[M]")
    starts = first.astype("M8[D]").astype(np.int64)
    bad = (months == 0) | (days == 0) | (years == 0)
    late = days > 28
    if late.any():
        ends = (first + np.timedelta64(1, "M")).astype("M8[D]").astype(np.int64)
        bad |= late & (starts + days > ends)
    return starts + days - 1, bad


def settled(values: Ints, bad: Mask, null: Mask | None, policy: str, least: int) -> Mask | None:
    """Apply the policy for dates that are none; returns what is null then.

    Raises:
        DataError: `sql.odd_value`: the policy is to fail.
    """
    if null is not None:
        bad &= ~null
    if not bad.any():
        return null
    if policy == "fail":
        raise DataError(
            "sql.odd_value",
            "a row has a date of zeros, or one that no calendar has",
            fix="Set `zero.dates` to null or round, or correct the rows.",
        )
    if policy == "round":
        values[bad] = least
        return null
    return bad if null is None else null | bad
