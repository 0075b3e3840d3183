"""Decimals of CSV that Arrow would make other numbers of. Pure.

Arrow (26) brings a number to the scale of its column without a look at what 128 bits hold: 41 as
decimal(37,37) becomes another number. Columns where that can be are read as texts first. A search
over all bytes at once tells whether it can: nothing is done per row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_DIGITS: Final = 38
"""Digits that 128 bits hold."""

_STEP: Final = 1 << 17
"""Bytes that are searched at once, which fit into the caches of a processor."""

_STRIDE: Final = 4
"""Bytes of which one is looked at first."""

_SHORTEST: Final = 2 * _STRIDE
"""Digits of a run that is searched for. Shorter ones are everywhere."""

_CANDIDATES_MOST: Final = 1 << 16
"""Exponents whose numbers are looked at."""

_TOO_LARGE: Final = 1_000
"""An exponent of a number that no column has."""

_ZERO, _PLUS, _MINUS, _DOT, _LETTER = (np.uint8(mark) for mark in b"0+-.e")

_DOT_TO_NINE: Final = 12
"""Marks from the point on to the last digit. The one between that is neither does no harm."""

_LOWER: Final = 0x20
"""What makes a small letter of a capital one."""

_IS_WORD: Final = np.isin(
    np.arange(256), list(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-+")
)
Marks: TypeAlias = NDArray[np.uint8]
Places: TypeAlias = NDArray[np.int64]


def may_overflow(data: bytes, kinds: Iterable[pa.DataType]) -> bool:
    """Return whether CSV may have a number that is too large for a decimal at its scale, and that
    Arrow does not refuse.
    """
    # It refuses numbers of more digits than the type has before it brings them to the scale.
    scales = [
        kind.scale
        for kind in kinds
        if pa.types.is_decimal(kind) and kind.precision + kind.scale > _DIGITS
    ]
    if not scales:
        return False
    run = _DIGITS - max(scales) + 1 - _largest_exponent(data)
    return run < _SHORTEST or _has_run(data, run)


def is_out_of_range(column: pa.ChunkedArray) -> bool:
    """Return whether a column has a decimal of more digits than its type, which Arrow lets pass."""
    if not pa.types.is_decimal(column.type):
        return False
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return False


def _has_run(data: bytes, run: int) -> bool:
    """Return whether so many digits stand in a row. Each run shows in every fourth byte, too."""
    whole = np.frombuffer(data, np.uint8)
    seen = (run - _STRIDE + 1) // _STRIDE
    return _have_run(whole[::_STRIDE], seen) and _have_run(whole, run)


def _have_run(marks: Marks, run: int) -> bool:
    digits = _are_digits(marks)
    while run > 1 and digits.size:
        half = run // 2
        digits = digits[:-half] & digits[half:]
        run -= half
    return bool(digits.any())


def _largest_exponent(data: bytes) -> int:
    """Return the largest exponent of a number, or of what may be one; 0 for none."""
    if b"e" not in data and b"E" not in data:
        return 0
    whole = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    letters = _find_letters(whole)
    places = letters + 1 + (whole[letters + 1] == _PLUS)
    exponents = np.zeros(letters.size, np.int64)
    going = np.arange(letters.size)
    for _ in range(2 * _DIGITS):
        going = going[_are_digits(whole[places[going]])]
        if not going.size:
            break
        longer = exponents[going] * 10 + whole[places[going]] - _ZERO
        exponents[going] = np.minimum(longer, _TOO_LARGE)
        places[going] += 1
    are_ends = ~_IS_WORD[whole[places]]
    letters, exponents = letters[are_ends], exponents[are_ends]
    if letters.size <= _CANDIDATES_MOST:
        exponents = exponents[_are_behind_numbers(whole, letters)]
    return int(exponents.max(initial=0))


def _find_letters(whole: Marks) -> Places:
    """Return where an `e` stands behind a digit or a point, and before a digit or a plus."""
    found = []
    for at in range(1, whole.size - 1, _STEP):
        end = min(at + _STEP, whole.size - 1)
        hits = (whole[at:end] | _LOWER) == _LETTER
        hits &= (whole[at - 1 : end - 1] - _DOT) < _DOT_TO_NINE
        found.append(np.flatnonzero(hits) + at)
    letters = np.concatenate(found) if found else np.zeros(0, np.int64)
    after = whole[letters + 1]
    begun: Places = letters[_are_digits(after) | (after == _PLUS)]
    return begun


def _are_behind_numbers(whole: Marks, letters: Places) -> NDArray[np.bool_]:
    """Tell which places are behind digits alone, back to what may stand before a number: a UUID and
    a hash have other letters there.
    """
    at = letters - 1
    for _ in range(2 * _DIGITS):
        marks = whole[at]
        within = _are_digits(marks) | (marks == _DOT)
        if not within.any():
            break
        at = at - within
    goes_on = _are_digits(whole[at])
    signed = (whole[at] == _MINUS) | (whole[at] == _PLUS)
    behind: NDArray[np.bool_] = goes_on | ~_IS_WORD[whole[at - signed]]
    return behind


def _are_digits(marks: Marks) -> NDArray[np.bool_]:
    digits: NDArray[np.bool_] = (marks - _ZERO) < 10
    return digits
