"""Times and their texts computed by Arrow, for fused plans. Each gives what Spark gives.

ParsedTime(of, parsing_regex("yyyy-MM-dd"))   # an instant of a text; other texts fail
ScaledTime(of, 1_000)                         # an instant of a number of milliseconds
convert_column(of, partial(write_instants, pattern="HH:mm"))   # a text of an instant
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.transform.column_kernel import ColumnSource
from penstock.transform.java.date_formats import PART, literal_text
from penstock.transform.java.date_texts import DAY_US, FIRST_US, DateText, divide_down

INSTANT: Final = pa.timestamp("us", "UTC")
"""Spark's timestamp with time zone; the engine's time zone is UTC."""

_DAY: Final = DateText("yyyy-MM-dd")
_ISO: Final = DateText("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_ISO_TIME: Final = DateText("HH:mm:ss.SSS'Z'")


def format_date(days: pa.Array) -> pa.Array:
    """Return dates as ISO 8601."""
    return write_times(pc.cast(days.cast(pa.int32()), pa.int64()), _DAY)


def format_iso(times: pa.Array, *, time_only: bool) -> pa.Array:
    """Return times in microseconds as ISO 8601 with milliseconds."""
    text = _ISO_TIME if time_only else _ISO
    return write_times(text.units(times.cast(pa.int64())), text)


_CANONICAL: Final = "yyyy-MM-dd HH:mm:ss.SSS"
"""How Arrow writes a time in milliseconds: a letter of it is a digit."""
_END_US: Final = 2_932_897 * DAY_US
"""The end of the year 9999, the last one of four digits."""


def write_times(units: pa.Array, text: DateText) -> pa.Array:
    """Return the texts of times in units of a text (`DateText.unit_us`)."""
    pieces = _pieces(text.pattern)
    first, last = FIRST_US // text.unit_us, _END_US // text.unit_us
    limits = pc.min_max(units).as_py()
    if pieces and limits["min"] is not None and first <= limits["min"] <= limits["max"] < last:
        factor = pa.scalar(text.unit_us // 1_000, pa.int64())
        canonical = pc.multiply(units, factor).cast(pa.timestamp("ms")).cast(pa.string())
        found = (
            one if isinstance(one, str) else pc.utf8_slice_codeunits(canonical, *one)
            for one in pieces
        )
        return pc.binary_join_element_wise(*found, "")
    coded = units.dictionary_encode()
    texts = [text.spark_text_of(one) for one in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)


def _pieces(pattern: str) -> list[str | tuple[int, int]]:
    """Return a pattern as parts of `_CANONICAL` (from, to) and other texts; nothing for a pattern
    that has other numbers, or none.
    """
    found: list[str | tuple[int, int]] = []
    for part in PART.finditer(pattern):
        at = _CANONICAL.find(part[0])
        if part[1] is None:
            found.append(literal_text(part[0]))
        elif at < 0 or part[0] not in _FIELDS:
            return []
        else:
            found.append((at, at + len(part[0])))
    return _join(found) if any(isinstance(piece, tuple) for piece in found) else []


def _join(pieces: list[str | tuple[int, int]]) -> list[str | tuple[int, int]]:
    """Return the pieces with neighbours joined that follow each other in `_CANONICAL`, too."""
    joined: list[str | tuple[int, int]] = []
    for piece in pieces:
        begin = joined[-2] if len(joined) > 1 else None
        between = joined[-1] if joined else None
        if (
            isinstance(piece, tuple)
            and isinstance(begin, tuple)
            and isinstance(between, str)
            and between == _CANONICAL[begin[1] : piece[0]]
        ):
            joined[-2:] = [(begin[0], piece[1])]
        else:
            joined.append(piece)
    return joined


def write_instants(instants: pa.Array, pattern: str) -> pa.Array:
    """Return instants as texts of a pattern of Spark."""
    text = DateText(pattern)
    return write_times(text.units(instants.cast(pa.int64())), text)


def to_instants(times: pa.Array) -> pa.Array:
    """Return timestamps with or without a time zone as instants."""
    return times.cast(pa.int64()).cast(INSTANT)


def to_dates(instants: pa.Array) -> pa.Array:
    """Return the days of instants."""
    return divide_down(instants.cast(pa.int64()), DAY_US).cast(pa.int32()).cast(pa.date32())


def to_times(instants: pa.Array) -> pa.Array:
    """Return microseconds since midnight."""
    us = instants.cast(pa.int64())
    return pc.subtract(us, pc.multiply(divide_down(us, DAY_US), pa.scalar(DAY_US, pa.int64())))


def to_unix(instants: pa.Array, unit_us: int) -> pa.Array:
    """Return instants in a unit since 1970: milliseconds rounded down, of which seconds are cut."""
    us = instants.cast(pa.int64())
    if unit_us == 1:
        return us
    milliseconds = divide_down(us, 1_000)
    return milliseconds if unit_us == 1_000 else cut_thousands(milliseconds)


def cut_thousands(numbers: pa.Array) -> pa.Array:
    """Return thousandths, cut towards zero."""
    return pc.divide(numbers, pa.scalar(1_000, pa.int64()))


@dataclass(frozen=True, slots=True)
class ScaledTime:
    """Instants of whole numbers of a unit, or of days. A time that no int64 of microseconds holds
    fails.
    """

    of: ColumnSource
    unit_us: int

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the instants, with nulls for those that are too far away."""
        numbers = self._numbers(batch)
        highest, lowest = _MOST // self.unit_us, -(_LEAST // -self.unit_us)
        limits = pc.min_max(numbers).as_py()
        if limits["min"] is not None and not lowest <= limits["min"] <= limits["max"] <= highest:
            fits = pc.and_(pc.less_equal(numbers, highest), pc.greater_equal(numbers, lowest))
            numbers = pc.if_else(fits, numbers, pa.scalar(None, pa.int64()))
        return pc.multiply(numbers, pa.scalar(self.unit_us, pa.int64())).cast(INSTANT)

    def failed(self, batch: pa.RecordBatch, result: pa.Array) -> pa.Array | None:
        """Return which times are too far away; None for none of them."""
        return new_nulls(self.of.array(batch), result)

    def _numbers(self, batch: pa.RecordBatch) -> pa.Array:
        numbers = self.of.array(batch)
        return numbers.cast(pa.int32() if pa.types.is_date32(numbers.type) else pa.int64()).cast(
            pa.int64()
        )


_MOST, _LEAST = (1 << 63) - 1, -(1 << 63)


def new_nulls(before: pa.Array, after: pa.Array) -> pa.Array | None:
    """Return where there was a value and is none any more; None for nowhere."""
    if before.null_count == after.null_count:
        return None
    return pc.and_(pc.is_valid(before), pc.is_null(after))


_FIELDS: Final = {
    "yyyy": r"(?P<y>[0-9]{4}|\+[0-9]{5,9}|-[0-9]{4,9})",
    "MM": "(?P<M>[0-9]{2})",
    "dd": "(?P<d>[0-9]{2})",
    "HH": "(?P<H>[0-9]{2})",
    "mm": "(?P<m>[0-9]{2})",
    "ss": "(?P<s>[0-9]{2})",
    "SSS": "(?P<S>[0-9]{3})",
    "XXX": "(?P<X>Z|[+-][0-9]{2}:[0-9]{2})",
}
"""Parts of patterns that Java reads from a fixed number of digits. Years that no microseconds hold
fail like texts that are no time, and so do the last weeks of the years at both ends."""


def parsing_regex(pattern: str) -> str:
    """Return the regular expression of the texts of a pattern, with its numbers as groups; empty
    for patterns that only Spark reads.
    """
    parts = list(PART.finditer(pattern))
    names = [part[0] for part in parts if part[1] is not None]
    if len(set(names)) < len(names) or not _FIELDS.keys() >= set(names):
        return ""
    if len(_DATE.intersection(names)) not in {0, len(_DATE)}:
        return ""
    if any(after[0] == "SSS" and before[1] is not None for before, after in pairwise(parts)):
        return ""  # Spark does not read milliseconds right behind digits
    found = (
        re.sub(r"[^A-Za-z0-9]", _escape, literal_text(part[0]))
        if part[1] is None
        else _FIELDS[part[0]]
        for part in parts
    )
    return rf"\A(?i:{''.join(found)})\z"


_DATE: Final = frozenset({"yyyy", "MM", "dd"})


def _escape(sign: re.Match[str]) -> str:
    return f"\\x{{{ord(sign[0]):x}}}"


_ISO_8601: Final = re.compile(r"yyyy-MM-dd(?:(?: |'T')HH:mm(?::ss(?:\.SSS)?)?)?('Z')?")
"""Patterns whose texts Arrow reads, without the letter `Z`."""


@dataclass(frozen=True, slots=True)
class ParsedTime:
    """Instants of texts of a pattern. `regex` is that of `parsing_regex`."""

    of: ColumnSource
    pattern: str
    regex: str

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the instants, with nulls for texts that are none."""
        texts = self.of.array(batch)
        quick = self._read_iso(texts)
        return self._read(texts) if quick is None else quick

    def _read_iso(self, texts: pa.Array) -> pa.Array | None:
        """Return the instants where all texts are times of ISO 8601; None for others."""
        iso = _ISO_8601.fullmatch(self.pattern)
        if iso is None:
            return None
        regex = self.regex.replace(_FIELDS["yyyy"], "[0-9]{4}")
        if pc.all(pc.match_substring_regex(texts, regex)).as_py() is False:
            return None
        try:
            plain = pc.utf8_slice_codeunits(texts, 0, -1) if iso[1] else texts
            return plain.cast(pa.timestamp("us")).cast(pa.int64()).cast(INSTANT)
        except pa.ArrowInvalid:  # there is no such day
            return None

    def _read(self, texts: pa.Array) -> pa.Array:
        found = pc.extract_regex(texts, self.regex)
        good = ~_to_numpy(pc.is_null(found))
        numbers = {field.name: _numbers(found.field(at), good) for at, field in
                   enumerate(found.type) if field.name != "X"}  # fmt: skip
        us, fits = _time_of_day(numbers, texts)
        if "y" in numbers:
            days, are_days = _days(numbers["y"], numbers["M"], numbers["d"])
            us, fits = us + days * DAY_US, fits & are_days & ~_is_negative_zero(found, numbers["y"])
        names = [field.name for field in found.type]
        if "X" in names:
            shift, is_zone = _zone(found.field(names.index("X")), good)
            us, fits = us - shift, fits & is_zone
        return pa.array(us, pa.int64(), mask=~(good & fits)).cast(INSTANT)

    def failed(self, batch: pa.RecordBatch, result: pa.Array) -> pa.Array | None:
        """Return on which rows there is a text and no time; None for no row."""
        return new_nulls(self.of.array(batch), result)


_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Flags = np.ndarray[Any, np.dtype[np.bool_]]


def _to_numpy(array: pa.Array) -> Any:
    return array.to_numpy(zero_copy_only=False)


def _numbers(texts: pa.Array, good: _Flags) -> _Numbers:
    """Return a group of digits as numbers; 1 where the text did not match."""
    digits = pc.if_else(pa.array(good), texts, "1")
    plain = pc.replace_substring(digits, "+", "")
    numbers: _Numbers = _to_numpy(plain.cast(pa.int64()))
    return numbers


def _time_of_day(numbers: dict[str, _Numbers], texts: pa.Array) -> tuple[_Numbers, _Flags]:
    us = np.zeros(len(texts), np.int64)
    fits = np.ones(len(texts), np.bool_)
    for name, limit, unit in (("H", 24, 3_600_000_000), ("m", 60, 60_000_000),
                              ("s", 60, 1_000_000), ("S", 1000, 1_000)):  # fmt: skip
        if name in numbers:
            us += numbers[name] * unit
            fits &= numbers[name] < limit
    return us, fits


_FAR: Final = 106_751_990
"""Days around 1970 that int64 has in microseconds."""


def _is_negative_zero(found: pa.StructArray, year: _Numbers) -> _Flags:
    """Return which years are a zero with a sign, which Java refuses."""
    signed = pc.fill_null(pc.starts_with(pc.struct_field(found, ["y"]), "-"), False)
    flags: _Flags = _to_numpy(signed) & (year == 0)
    return flags


def _days(year: _Numbers, month: _Numbers, day: _Numbers) -> tuple[_Numbers, _Flags]:
    """Return days since 1970, and which dates there are."""
    fits = (np.abs(year) < 300_000) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(fits, (year - 1970) * 12 + month - 1, 0)
    begin = _first_days(months)
    fits &= (day <= _first_days(months + 1) - begin) & (np.abs(begin) < _FAR - 31)
    return np.where(fits, begin + day - 1, 0), fits


def _first_days(months: _Numbers) -> _Numbers:
    dates = months.astype("datetime64[M]").astype("datetime64[D]")
    return dates.astype(np.int64)


def _zone(texts: pa.Array, good: _Flags) -> tuple[_Numbers, _Flags]:
    """Return offsets of zones in microseconds, and which zones there are: to 18 hours."""
    offsets = pc.if_else(pc.equal(pc.utf8_length(texts), 1), "+00:00", texts)
    offsets = pc.if_else(pa.array(good), offsets, "+00:00")
    hours, minutes = (
        _to_numpy(pc.utf8_slice_codeunits(offsets, at, at + 2).cast(pa.int64())) for at in (1, 4)
    )
    total = hours * 60 + minutes
    sign = np.where(_to_numpy(pc.starts_with(offsets, "-")), -1, 1)
    return sign * total * 60_000_000, (minutes < 60) & (total <= 18 * 60)
