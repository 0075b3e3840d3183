"""Decimal numbers as a column has them: exactly, or not at all. Pure.

Python rounds to 28 digits in most of what it does with decimals, without a word. And Arrow (26)
looks behind the end of its tables where a number has 38 digits more behind its point than its
type: another number comes of it, or the process dies. Sources bring what others wrote to the scale
of its column before Arrow sees it. Rows with a schema are brought there by the SDK.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_EXACT: Final = Context(prec=76, traps=[Inexact, InvalidOperation])
_LONG: Final = tuple(
    re.compile(text)
    for text in (
        rb"e-0*(?:[2-9]\d|\d{3,10})(?![\w-])",  # no UUID has it
        rb"E-0*(?:[2-9]\d|\d{3,10})(?![\w-])",
        rb"\.\d{20}",
        rb"\\u00[2-7]",  # JSON for a letter of those above
    )
)

_SHORT: Final = 20
"""Characters of a text without an exponent that has no room for 20 digits behind its point."""
_EXPONENTS: Final = (re.compile(rb"e"), re.compile(rb"E"))
_MAY_BE_LONG: Final = r"[eE]|\.\d{20}|\d{39}"
"""Of a text by itself: an exponent, 20 digits behind the point, or as many digits that those of the
scale make more than 76. Arrow brings 56510e40 to a scale of 35 as another number, without a word.
"""


def at_scale(number: Decimal, scale: int) -> Decimal:
    """Return a number with `scale` digits behind its point.

    Raises:
        ValueError: it has others than zeros behind those, more than 76 in all, or is none.
    """
    try:
        if number.is_finite():
            return number.quantize(Decimal((0, (1,), -scale)), context=_EXACT)
    except (Inexact, InvalidOperation):
        pass
    raise ValueError(f"{str(number)[:80]} has not just {scale} digits behind its point")


def may_be_long(text: bytes) -> bool:
    """Tell whether CSV or JSON may have a number that Arrow cannot stand for a decimal of scale 0
    or more: with 20 digits behind its point, or an exponent that makes as many.
    """
    return any(one.search(text) for one in _LONG)


def from_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return texts as decimals of a type.

    Args:
        texts: An array of strings.
        kind: A type of decimals.

    Raises:
        pa.ArrowInvalid: one is none of the type.
    """
    if kind.scale >= 0 and not _any_may_be_long(texts):
        return texts.cast(kind)
    plain = [_plain(text, kind.scale) for text in texts.to_pylist()]
    return pa.array(plain, pa.string()).cast(kind)


def _any_may_be_long(texts: pa.Array) -> bool:
    """Look at all texts as one first: that takes a tenth of the time."""
    _, offsets, data = texts.buffers()
    if data is None:
        return False
    at = memoryview(offsets).cast("i")
    whole = memoryview(data)[at[texts.offset] : at[texts.offset + len(texts)]]
    are_short = (pc.max(pc.binary_length(texts)).as_py() or 0) <= _SHORT
    if are_short and not any(sign.search(whole) for sign in _EXPONENTS):
        return False
    return bool(pc.any(pc.match_substring_regex(texts, _MAY_BE_LONG)).as_py())


def _plain(text: str | None, scale: int) -> str | None:
    """Return a text in which Arrow finds no more digits than the scale has."""
    if text is None or (scale >= 0 and not re.search(_MAY_BE_LONG, text)):
        return text
    try:
        return format(at_scale(Decimal(text), scale), "f")
    except (InvalidOperation, ValueError) as error:
        raise pa.ArrowInvalid(f"{text[:80]!r} is no decimal: {error}") from None
