"""Decimal numbers at the scale of a column: exact, or refused. Pure.

Python silently rounds most results of decimal arithmetic to 28 digits. Arrow (26) reads beyond the
end of its tables where a number has 38 more digits after its decimal point than its type: the
result is another number, or the process crashes. Arrow also converts to a scale without a check of
what 128 bits hold: 38 ones with two digits after the point become another number. So numbers from
outside are converted to the scale of their column here, before Arrow sees them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

MAX_DIGITS: Final = 76
"""Digits of the largest decimal type of a column, of 256 bits."""

_DIGITS_128: Final = 38
"""Digits that 128 bits hold."""

_EXACT: Final = Context(prec=MAX_DIGITS, traps=[Inexact, InvalidOperation])

_LONG: Final = tuple(
    re.compile(text)
    for text in (
        rb"e-0*(?:[2-9]\d|\d{3,10})(?![\w-])",  # no UUID has it
        rb"E-0*(?:[2-9]\d|\d{3,10})(?![\w-])",
        rb"\.\d{20}",
        rb"\\u00[2-7]",  # a JSON escape of a character of the above
    )
)

_SHORT: Final = 20
"""Characters of a text that, without an exponent, cannot have 20 digits after its point."""

_EXPONENTS: Final = (re.compile(rb"e"), re.compile(rb"E"))
_MAY_BE_LONG: Final = r"[eE]|\.\d{20}"
"""A single text with an exponent, or with 20 digits after its point."""

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def may_be_long(text: bytes) -> bool:
    """Whether CSV or JSON may contain a number that crashes Arrow's conversion to a decimal of
    scale 0 or more: one with 20 digits after its decimal point, or an exponent of that size.
    """
    return any(one.search(text) for one in _LONG)


def at_scale(number: Decimal, scale: int) -> Decimal:
    """Return a number with exactly `scale` digits after its decimal point.

    Raises:
        ValueError: it would be rounded, has more than 76 digits, or is not finite.
    """
    try:
        if number.is_finite():
            return number.quantize(Decimal((0, (1,), -scale)), context=_EXACT)
    except (Inexact, InvalidOperation):
        pass
    raise ValueError(f"{str(number)[:80]} is not a number of {scale} digits after its point")


def from_unscaled(whole: int, scale: int) -> Decimal:
    """Return the number of an unscaled value: 1.50 for 150 of scale 2.

    Raises:
        ValueError: the value has more than 76 digits.
    """
    if abs(whole) >= 10**MAX_DIGITS:
        raise ValueError(f"a decimal of more than {MAX_DIGITS} digits")
    return Decimal(whole).scaleb(-scale, context=_EXACT)


def make_column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Build a column from Python values; texts are parsed as numbers for a decimal type. Decimals
    inside of lists and structs are converted by Arrow.

    Raises:
        pa.ArrowException, TypeError, OverflowError: a value does not have the type.
    """
    if not pa.types.is_decimal(type_):
        return pa.array(values, type_)
    return pa.array([_value_at_scale(value, type_.scale) for value in values], type_)


def _value_at_scale(value: Any, scale: int) -> Any:
    try:
        return at_scale(Decimal(value), scale) if isinstance(value, str | Decimal) else value
    except (ValueError, ArithmeticError) as error:
        raise pa.ArrowInvalid(f"{str(value)[:80]!r} is not a valid decimal: {error}") from None


def from_texts(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert an array of strings to a decimal type. Only texts that Arrow would get wrong are
    parsed one by one.

    Raises:
        pa.ArrowInvalid: a text is not a number of the type.
    """
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if type_.scale < 0 or _any_may_be_long(texts, longest, type_.scale):
        return pa.array([_parse_number(text, type_.scale) for text in texts.to_pylist()], type_)
    if longest + type_.scale > _DIGITS_128:
        return texts.cast(pa.decimal256(MAX_DIGITS, type_.scale)).cast(type_)
    return texts.cast(type_)


def _any_may_be_long(texts: pa.Array, longest: int, scale: int) -> bool:
    """Search all texts as one first: that takes a tenth of the time."""
    _, offsets, data = texts.buffers()
    if data is None:
        return False
    if longest + scale > MAX_DIGITS:
        return True
    at = memoryview(offsets).cast("i")
    whole = memoryview(data)[at[texts.offset] : at[texts.offset + len(texts)]]
    if longest <= _SHORT and not any(sign.search(whole) for sign in _EXPONENTS):
        return False
    return bool(pc.any(pc.match_substring_regex(texts, _MAY_BE_LONG)).as_py())


def _parse_number(text: str | None, scale: int) -> Decimal | None:
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise pa.ArrowInvalid(f"{text[:80]!r} is not a valid decimal")
    try:
        return at_scale(Decimal(text), scale)
    except (InvalidOperation, ValueError) as error:
        raise pa.ArrowInvalid(f"{text[:80]!r} is not a valid decimal: {error}") from None
