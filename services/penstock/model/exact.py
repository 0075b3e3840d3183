"""Decimal numbers as a column has them: exactly, or not at all. Pure.

Python rounds to 28 digits in most of what it does with decimals, without a word. And Arrow (26)
looks behind the end of its tables where a number has 38 digits more behind its point than its
type: another number comes of it, or the process dies. So a number from outside is brought to the
scale of its column here, before Arrow sees it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

import pyarrow as pa

DIGITS: Final = 76
"""Digits of the largest decimals that columns have."""

_EXACT: Final = Context(prec=DIGITS, traps=[Inexact, InvalidOperation])

_LONG: Final = tuple(
    re.compile(text)
    for text in (
        rb"e-0*(?:[2-9]\d|\d{3,10})(?![\w-])",  # no UUID has it
        rb"E-0*(?:[2-9]\d|\d{3,10})(?![\w-])",
        rb"\.\d{20}",
        rb"\\u00[2-7]",  # JSON for a letter of those above
    )
)


def may_be_long(text: bytes) -> bool:
    """Tell whether CSV or JSON may have a number that Arrow cannot stand for a decimal of scale 0
    or more: with 20 digits behind its point, or an exponent that makes as many.
    """
    return any(one.search(text) for one in _LONG)


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


def unscaled(number: Decimal, scale: int) -> int:
    """Return a number without its point: 1.50 of scale 2 is 150.

    Raises:
        ValueError: as `at_scale` has it.
    """
    return int(at_scale(number, scale).scaleb(scale, context=_EXACT))


def scaled(whole: int, scale: int) -> Decimal:
    """Return the number that a whole one is with a point `scale` digits from its right.

    Raises:
        ValueError: it has more than 76 digits.
    """
    if abs(whole) >= 10**DIGITS:
        raise ValueError(f"a decimal of more than {DIGITS} digits")
    return Decimal(whole).scaleb(-scale, context=_EXACT)


def column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return values of Python as a column; texts are numbers where it has decimals. Decimals inside
    of lists and structs are left to Arrow.

    Raises:
        pa.ArrowException, TypeError, OverflowError: a value is none of the type.
    """
    if not pa.types.is_decimal(type_):
        return pa.array(values, type_)
    return pa.array([_number(value, type_.scale) for value in values], type_)


def _number(value: Any, scale: int) -> Any:
    try:
        return at_scale(Decimal(value), scale) if isinstance(value, str | Decimal) else value
    except (ValueError, ArithmeticError) as error:
        raise pa.ArrowInvalid(f"{str(value)[:80]!r} is no such decimal: {error}") from None
