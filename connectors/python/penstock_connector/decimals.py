"""Decimal numbers as a column has them: exactly, or not at all. Pure.

Python rounds to 28 digits in most of what it does with decimals, without a word. And Arrow (26)
looks behind the end of its tables where a number has 38 digits more behind its point than its
type: another number comes of it, or the process dies. It also brings a number to a scale without a
look at what 128 bits hold: of 38 ones, with two digits behind the point, comes another number.
Sources bring what others wrote to the scale of its column before Arrow sees it. Rows with a schema
are brought there by the SDK.
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
_MAY_BE_LONG: Final = r"[eE]|\.\d{20}"
"""Of a text by itself: an exponent, or 20 digits behind the point."""

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_DIGITS: Final = (38, 76)
"""Digits that 128 and 256 bits hold."""


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
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if kind.scale < 0 or _any_may_be_long(texts, longest, kind.scale):
        return pa.array([_number(text, kind.scale) for text in texts.to_pylist()], kind)
    if _DIGITS[0] < longest + kind.scale:
        return texts.cast(pa.decimal256(_DIGITS[1], kind.scale)).cast(kind)
    return texts.cast(kind)


def _any_may_be_long(texts: pa.Array, longest: int, scale: int) -> bool:
    """Look at all texts as one first: that takes a tenth of the time."""
    _, offsets, data = texts.buffers()
    if data is None:
        return False
    if longest + scale > _DIGITS[1]:
        return True
    at = memoryview(offsets).cast("i")
    whole = memoryview(data)[at[texts.offset] : at[texts.offset + len(texts)]]
    if longest <= _SHORT and not any(sign.search(whole) for sign in _EXPONENTS):
        return False
    return bool(pc.any(pc.match_substring_regex(texts, _MAY_BE_LONG)).as_py())


def _number(text: str | None, scale: int) -> Decimal | None:
    if text is None:
        return None
    try:
        if _NUMBER.fullmatch(text):
            return at_scale(Decimal(text), scale)
    except (InvalidOperation, ValueError) as error:
        raise pa.ArrowInvalid(f"{text[:80]!r} is no such decimal: {error}") from None
    raise pa.ArrowInvalid(f"{text[:80]!r} is no decimal")
