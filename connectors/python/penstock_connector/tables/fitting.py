"""Which values of rows a column can hold: found before they are sent, row by row. Pure.

A server would refuse a whole statement for one bad value, or bend the value; here the one row is
named, and its neighbours pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector.tables.casting import cast_exactly, cast_rows, plain


class Problem(NamedTuple):
    """Rows that cannot be written.

    Attributes:
        rows: Which.
        why: For people: `… {why}`.
        narrow: A wider column, or one of another type, would take them.
        nul: They have the character U+0000.
    """

    rows: pa.BooleanArray
    why: str
    narrow: bool = False
    nul: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """What a column can hold.

    Attributes:
        native: Its type in the words of the database.
        type: The Arrow type of its values on their way to it; None: as the rows have them.
        nullable: It can be null, or is filled in when it is.
        low, high: Limits of numbers, days, or microseconds; None: those of the type.
        chars: Most characters of a text; 0: no limit.
        bytes: Most bytes of a text or binary; 0: no limit.
        nul: Texts may have the character U+0000.
        strips: It is removed from texts that may not have it.
        specials: Infinities and NaN are possible.
        pattern: What a text must look like; empty: anything.
        shape: How a text is made of values that are none: `json`, `array` or `bits`.
        check: Returns what else is wrong with values.
    """

    native: str
    type: pa.DataType | None
    nullable: bool = True
    low: int | None = None
    high: int | None = None
    chars: int = 0
    bytes: int = 0
    nul: bool = True
    strips: bool = False
    specials: bool = True
    pattern: str = ""
    shape: str = "json"
    check: Callable[[pa.Array], Iterator[Problem]] | None = field(default=None, compare=False)


DAYS: Final = (-719_162, 2_932_896)
"""From 0001-01-01 to 9999-12-31: the days whose text all databases read alike."""

STAMPS: Final = (DAYS[0] * 86_400_000_000, (DAYS[1] + 1) * 86_400_000_000 - 1)
"""The same in microseconds."""

UUID: Final = (
    r"^\{?[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}\}?$"
)
"""What the databases take as a UUID."""

NUMBER: Final = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?$"
"""A number of any length."""


Cast: TypeAlias = Callable[[pa.Array, Limit], pa.Array]
"""Returns values as `Limit.type`; raises `ArrowInvalid` or `ValueError` when one has none there,
`ArrowNotImplementedError` when no value of their type has."""


def fit(values: pa.Array, limit: Limit, cast: Cast) -> tuple[pa.Array, list[Problem]]:
    """Return values as the column takes them, and the rows for which there are none."""
    problems: list[Problem] = []
    missing = values.null_count
    values = plain(values)
    if limit.type is not None and values.type != limit.type:
        values, failed = cast_rows(values, lambda part: cast(part, limit))
        if failed is not None:
            why = f"is no value of the type {limit.native}"
            problems.append(Problem(failed, why, narrow=True))
    if missing and not limit.nullable:
        problems.append(Problem(pc.is_null(values), "is null, and the column takes none"))
    if pa.types.is_string(values.type):
        invalid = _invalid(values)
        if invalid is not None:
            problems.append(Problem(invalid, "is no valid UTF-8"))
            values = pc.if_else(invalid, None, values)
        if not limit.nul and limit.strips:
            values = _stripped(values)
    problems += _checked(values, limit)
    if limit.check is not None:
        problems += limit.check(values)
    return values, problems


def exact_cast(zone: str) -> Cast:
    """Return what casts exactly or not at all; wall clocks without a zone stand in `zone`."""
    return lambda values, limit: cast_exactly(values, limit.type, limit.shape, zone)


def _stripped(values: pa.Array) -> pa.Array:
    return pc.replace_substring(values, "\0", "") if b"\0" in data_of(values) else values


def _checked(values: pa.Array, limit: Limit) -> Iterator[Problem]:
    kind = values.type
    if pa.types.is_string(kind):
        yield from _checked_text(values, limit)
    elif pa.types.is_binary(kind):
        if limit.bytes:
            yield from _over(pc.binary_length(values), limit.bytes, "bytes", limit)
    elif pa.types.is_floating(kind):
        if not limit.specials:
            bad = pc.invert(pc.is_finite(values))
            if pc.any(bad).as_py():
                why = f"is infinite or no number, and {limit.native} has no such values"
                yield Problem(bad, why)
    elif limit.low is not None or limit.high is not None:
        yield from _out_of_range(values, limit)


def _out_of_range(values: pa.Array, limit: Limit) -> Iterator[Problem]:
    numbers = values
    if pa.types.is_temporal(values.type):
        numbers = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    ends = pc.min_max(numbers)
    why = f"is out of the range of {limit.native}"
    if limit.low is not None and (low := ends["min"].as_py()) is not None and low < limit.low:
        yield Problem(pc.less(numbers, limit.low), why, narrow=True)
    if limit.high is not None and (high := ends["max"].as_py()) is not None and high > limit.high:
        yield Problem(pc.greater(numbers, limit.high), why, narrow=True)


def _checked_text(values: pa.Array, limit: Limit) -> Iterator[Problem]:
    most = limit.chars or limit.bytes
    if most:
        size = pc.binary_length(values)  # a character has at least a byte: mostly this is enough
        if (pc.max(size).as_py() or 0) > most:
            if limit.chars:
                yield from _over(pc.utf8_length(values), limit.chars, "characters", limit)
            else:
                yield from _over(size, limit.bytes, "bytes", limit)
    if not limit.nul and b"\0" in data_of(values):
        why = f"has the character U+0000, {limit.native} not"
        yield Problem(pc.match_substring(values, "\0"), why, nul=True)
    if limit.pattern:
        bad = pc.invert(pc.match_substring_regex(values, limit.pattern))
        if pc.any(bad).as_py():
            yield Problem(bad, f"is no value of the type {limit.native}", narrow=True)


def _over(sizes: pa.Array, most: int, unit: str, limit: Limit) -> Iterator[Problem]:
    bad = pc.greater(sizes, most)
    if pc.any(bad).as_py():
        yield Problem(bad, f"has more {unit} than {limit.native} can hold", narrow=True)


def _invalid(values: pa.Array) -> pa.BooleanArray | None:
    """Return the texts that are no UTF-8: a server would refuse them all for one."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raw = values.cast(pa.binary())
        return pa.array([_is_broken(one.as_py()) for one in raw])
    return None


def _is_broken(raw: bytes | None) -> bool:
    try:
        (raw or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def data_of(values: pa.Array) -> bytes:
    """Return the bytes of all the texts of an array, in one piece."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return b""
    ends = memoryview(offsets).cast("q" if _is_large(values.type) else "i")
    start, end = ends[values.offset], ends[values.offset + len(values)]
    return bytes(memoryview(data)[start:end])


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))
