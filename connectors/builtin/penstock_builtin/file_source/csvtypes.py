"""Which type a CSV column has whose type is not declared. Pure.

Arrow proposes a type from the texts. A number is accepted only when it says all that its text says:
`007`, `+1` and `0x1F` stay text, and so do whole numbers with more digits than their type can hold.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

NULLS: Final = ("", "NULL", "null", "NA", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A")
"""Texts that stand for no value in columns that are no texts, unless `csv.null` says otherwise."""

TRUE: Final = ("true", "True", "TRUE")
FALSE: Final = ("false", "False", "FALSE")
"""Words for truth values. `1` and `0` are numbers, unless the column is declared as `bool`."""

EXACT_MOST: Final = 1 << 53
"""Up to here a double holds every whole number."""

_CODE: Final = r"^[ \t]*(?:\+|-?0[0-9xX])"
_LONG_WHOLE: Final = r"^[ \t]*-?[0-9]{16,}[ \t]*$"
_FRACTION: Final = r"[0-9]\.|\.[0-9]|[0-9][eE]|(?i:^[ \t]*-?(?:nan|inf))"
_INFINITE: Final = r"(?i)^[ \t]*[+-]?inf(?:inity)?[ \t]*$"

Marks: TypeAlias = NDArray[np.uint8]
Places: TypeAlias = NDArray[np.int64]

_ZERO, _NINE, _PLUS, _MINUS, _COMMA, _DOT, _LF = b"09+-,.\n"
_STEP: Final = 1 << 17
"""Bytes that are searched at once, which fit into the caches of a processor."""
_LETTERS: Final = tuple(b"xXeE")
_DIGITS_MOST: Final = 400
"""Digits of a number that no double has."""


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is one of the numbers that Arrow proposes."""
    return bool(pa.types.is_int64(kind) or pa.types.is_float64(kind))


def settle_type(column: pa.ChunkedArray) -> pa.DataType:
    """Return the type for a column that Arrow proposed a type for. Without any value it is a text,
    as every later value is one, too; a time is one when a microsecond is fine enough for it.
    """
    kind = column.type
    if pa.types.is_null(kind) or pa.types.is_time(kind):
        return pa.string()
    if not pa.types.is_timestamp(kind):
        return kind
    micros = pa.timestamp("us", kind.tz)
    try:
        column.cast(micros)
    except pa.ArrowInvalid:
        return pa.string()
    return micros


def find_suspects(table: pa.Table, names: list[str], data: bytes, marks: bytes) -> list[str]:
    """Return those columns of numbers among `names` whose texts must be looked at."""
    numbers = [name for name in names if is_number(table.schema.field(name).type)]
    if numbers and may_have_codes(data, marks):
        return numbers
    return [name for name in numbers if _may_be_rounded(table.column(name))]


def _may_be_rounded(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(column.type):
        return False
    most = pc.min_max(column).as_py()
    return any(value is not None and abs(value) >= EXACT_MOST for value in most.values())


def find_lost_text(
    texts: pa.ChunkedArray, numbers: pa.ChunkedArray, *, is_proposed: bool
) -> str | None:
    """Return a text of a column that says more than the number that became of it.

    Args:
        texts: The column as it was written.
        numbers: The same as numbers.
        is_proposed: The type is not settled yet: a column of whole numbers then is no double.
    """
    lost = texts.filter(pc.match_substring_regex(texts, _CODE))
    if len(lost):
        return str(lost[0].as_py())
    if not pa.types.is_floating(numbers.type):
        return None
    if pc.any(pc.is_inf(numbers)).as_py():
        overflown = next((text for text in texts.to_pylist() if _overflows(text)), None)
        if overflown is not None:
            return str(overflown)
    long = texts.filter(pc.match_substring_regex(texts, _LONG_WHOLE)).to_pylist()
    large = [text for text in long if len(text) > _DIGITS_MOST or abs(int(text)) > EXACT_MOST]
    if large and is_proposed and not pc.any(pc.match_substring_regex(texts, _FRACTION)).as_py():
        return str(large[0])
    return next((text for text in large if int(text) != int(float(text))), None)


def _overflows(text: str | None) -> bool:
    try:
        return text is not None and math.isinf(float(text)) and "n" not in text.lower()
    except ValueError:
        return False


def overflown_mask(texts: pa.ChunkedArray, numbers: pa.ChunkedArray) -> Any:
    """Return which numbers are infinite though their texts are finite numbers."""
    infinite = pc.fill_null(pc.is_inf(numbers), False)
    return pc.and_(infinite, pc.invert(pc.match_substring_regex(texts, _INFINITE)))


def largest_whole(column: pa.ChunkedArray) -> int:
    """Return the largest absolute value of a column of whole numbers; 0 when it has none."""
    bounds = pc.min_max(column).as_py()
    return max((abs(value) for value in bounds.values() if value is not None), default=0)


def may_have_codes(data: bytes, marks: bytes) -> bool:
    """Return whether a block may have numbers with a leading zero or plus, or hexadecimal ones,
    which Arrow reads without a word. A search over all bytes at once, which text columns with such
    values may trigger, too.

    Args:
        data: The block.
        marks: The characters of the dialect, which may stand before or behind a number.
    """
    if data[:1] in {b"0", b"+", b"-"}:
        return True  # rare, and so the search always has a character before
    whole = np.frombuffer(data, np.uint8)
    zeros = _begin_fields(whole, _find_behind(whole, _ZERO, marks), marks)
    following = _marks_at(whole, zeros + 1)
    if np.any(np.isin(following, _LETTERS[:2])):
        return True
    if _end_as_numbers(whole, zeros[_are_digits(following)] + 1, marks):
        return True
    if b"+" not in data:
        return False
    signs = _begin_fields(whole, _find_behind(whole, _PLUS, marks), marks)
    following = _marks_at(whole, signs + 1)
    return bool(np.any(_are_digits(following) | (following == _DOT)))


def _find_behind(whole: Marks, wanted: int, marks: bytes) -> Places:
    """Return where a character stands behind one that may end a field or be a sign. It goes in
    steps, because memory for a whole block at once would cost more than the search.
    """
    size = min(_STEP, whole.size)
    hits, others = np.empty(size, np.bool_), np.empty(size, np.bool_)
    found = []
    for at in range(1, whole.size, _STEP):
        here = whole[at : at + _STEP]
        before = whole[at - 1 : at - 1 + here.size]
        hit, other = hits[: here.size], others[: here.size]
        np.less_equal(before, _MINUS, out=hit)
        for mark in marks:
            if mark > _MINUS:
                hit |= np.equal(before, mark, out=other)
        hit &= np.equal(here, wanted, out=other)
        found.append(np.flatnonzero(hit) + at)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _begin_fields(whole: Marks, places: Places, marks: bytes) -> Places:
    """Return those places that may begin a number: a minus may stand before them, and what ends a
    field, a quote or a space before that.
    """
    before = whole[places - 1]
    first = np.where(before == _MINUS, whole[places - 2], before)
    begun: Places = places[_are_marks(first, marks) | (before == marks[0])]
    return begun


def _end_as_numbers(whole: Marks, places: Places, marks: bytes) -> bool:
    """Return whether one of some runs of digits ends as a number does; times and UUIDs do not."""
    for _ in range(_DIGITS_MOST):
        if not places.size:
            return False
        ends = _marks_at(whole, places)
        are_ends = _are_marks(ends, marks) | (ends == _DOT)
        if np.any(are_ends | np.isin(ends, _LETTERS[2:])):
            return True
        places = places[_are_digits(ends)] + 1
    return True


def _are_marks(characters: Marks, marks: bytes) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = characters <= _COMMA
    for mark in marks:
        found |= characters == mark
    return found


def _marks_at(whole: Marks, places: Places) -> Marks:
    """Return characters; behind the last one stands a line end."""
    marks: Marks = whole[np.minimum(places, whole.size - 1)]
    return np.where(places < whole.size, marks, np.uint8(_LF))


def _are_digits(marks: Marks) -> NDArray[np.bool_]:
    digits: NDArray[np.bool_] = (marks >= _ZERO) & (marks <= _NINE)
    return digits
