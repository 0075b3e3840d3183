"""Times as texts in UTC and English, for kernels: as `SimpleDateFormat` writes them, and those of
years before 1 and after 9999 as Spark does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.transform.java.date_formats import PART, literal_text, translate_date_format

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_UNITS_US: Final = (("S", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("HhKka", 3_600_000_000))
DAY_US: Final = 86_400_000_000
_CYCLE_US: Final = 146_097 * DAY_US
"""400 years, after which the calendar repeats."""
FIRST_US: Final = -719_162 * DAY_US
"""The beginning of the year 1."""


@dataclass(frozen=True, slots=True)
class DateText:
    """A pattern of `SimpleDateFormat`."""

    pattern: str

    @staticmethod
    def compile(pattern: str, path: str) -> DateText:
        """Check a pattern; `path` is its key.

        Raises:
            ConfigError: `transform.bad_date_format`.
        """
        translate_date_format(pattern, path)
        return DateText(pattern)

    @property
    def unit_us(self) -> int:
        """Microseconds of the smallest unit that the text tells apart."""
        letters = {part[1] for part in PART.finditer(self.pattern) if part[1]}
        found = (unit for names, unit in _UNITS_US if letters.intersection(names))
        return next(found, DAY_US)

    def units(self, times_us: pa.Array) -> pa.Array:
        """Return times in microseconds as the number of units since 1970, rounded down."""
        return divide_down(times_us, self.unit_us)

    def text_of(self, units: int) -> str | None:
        """Return the text of a time in units; None for a year before 1 or after 9999."""
        try:
            time = _EPOCH + timedelta(microseconds=units * self.unit_us)
        except OverflowError:
            return None
        return self._write(time)

    def spark_text_of(self, units: int) -> str:
        """Return the text of a time in units of any year."""
        us = units * self.unit_us
        cycles = (us - FIRST_US) // _CYCLE_US  # since the year 1
        time = _EPOCH + timedelta(microseconds=us - cycles * _CYCLE_US)
        return self._write(time, time.year + 400 * cycles)

    def _write(self, time: datetime, year: int | None = None) -> str:
        has_era = any(part[1] == "G" for part in PART.finditer(self.pattern))
        parts = PART.finditer(self.pattern)
        return "".join(_text_of_part(part, time, year, has_era=has_era) for part in parts)


def divide_down(numbers: pa.Array, divisor: int) -> pa.Array:
    """Return quotients of int64, rounded down."""
    unit = pa.scalar(divisor, pa.int64())
    quotient = pc.divide(numbers, unit)  # towards zero
    is_rounded_up = pc.greater(pc.multiply(quotient, unit), numbers)
    return pc.subtract(quotient, pc.cast(is_rounded_up, pa.int64()))


def _text_of_part(
    part: re.Match[str], time: datetime, year: int | None = None, *, has_era: bool = False
) -> str:
    letter = part[1]
    if letter is not None and year is not None and letter in "yG":
        return _era(year) if letter == "G" else _far_year(year, len(part[0]), has_era=has_era)
    if letter is not None:
        return _LETTERS[letter](time, len(part[0]))
    return literal_text(part[0])


def _era(year: int) -> str:
    return "AD" if year > 0 else "BC"


def _far_year(year: int, count: int, *, has_era: bool) -> str:
    """Return a year as Java's `DateTimeFormatter` writes it, beside an era without a sign."""
    shown = 1 - year if has_era and year <= 0 else year
    sign = "-" if shown < 0 else "+" if count == 4 and shown > 9999 else ""
    return f"{sign}{abs(shown):0{count}d}"


def _number(of: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda time, count: f"{of(time):0{count}d}"


def _month(time: datetime, count: int) -> str:
    if count < 3:
        return f"{time.month:0{count}d}"
    name = _MONTHS[time.month - 1]
    return name if count == 4 else name[:3]


def _weekday(time: datetime, count: int) -> str:
    name = _WEEKDAYS[time.weekday()]
    return name if count == 4 else name[:3]


_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_LETTERS: Final[Mapping[str, Callable[[datetime, int], str]]] = {
    "y": _number(lambda time: time.year),
    "M": _month,
    "d": _number(lambda time: time.day),
    "D": _number(lambda time: time.timetuple().tm_yday),
    "H": _number(lambda time: time.hour),
    "k": _number(lambda time: time.hour or 24),
    "K": _number(lambda time: time.hour % 12),
    "h": _number(lambda time: time.hour % 12 or 12),
    "m": _number(lambda time: time.minute),
    "s": _number(lambda time: time.second),
    "S": _number(lambda time: time.microsecond // 1000),
    "a": lambda time, _: "AM" if time.hour < 12 else "PM",
    "E": _weekday,
    "G": lambda _time, _count: "AD",
    "z": lambda _time, count: "Coordinated Universal Time" if count == 4 else "UTC",
    "Z": lambda _time, _count: "+0000",
    "X": lambda _time, _count: "Z",
}
