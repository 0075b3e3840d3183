"""The casts of `casts` computed by Arrow, for fused plans.

`cast_source` returns the kernel of a cast, or None where only Spark's text or digits are Java's:
fractions as text, decimals and bytes. Property tests show that each kernel equals its SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kind

from penstock.transform.column_kernel import ColumnSource, Convert, convert_column
from penstock.transform.java.casts import JAVA_SPACE, TARGETS, TIME, WHOLE
from penstock.transform.java.date_texts import divide_down
from penstock.transform.java.time_kernels import (
    cut_thousands,
    format_date,
    format_iso,
    new_nulls,
)


@dataclass(frozen=True, slots=True)
class ParsedNumber:
    """A column of texts as numbers of a type, as Java parses them."""

    of: ColumnSource
    type: pa.DataType

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the numbers, with nulls for texts that are none."""
        texts = self.of.array(batch)
        is_fraction = kind.is_floating(self.type)
        return _parse_fractions(texts, self.type) if is_fraction else _parse_whole(texts, self.type)

    def failed(self, batch: pa.RecordBatch, result: pa.Array) -> pa.Array | None:
        """Return on which rows there is a text and no number; None for no row."""
        return new_nulls(self.of.array(batch), result)


def cast_source(
    of: ColumnSource, type_: pa.DataType, semantic_type: str, target: str
) -> ColumnSource | None:
    """Return the kernel of a cast that `cast_expression` has an expression for."""
    if target == "string":
        as_text = _as_text(type_, semantic_type)
        return None if as_text is None else convert_column(of, as_text)
    if kind.is_timestamp(type_):
        if type_.unit != "us":
            return None
        of, type_ = convert_column(of, _to_milliseconds), pa.int64()
    elif kind.is_date32(type_):
        of, type_ = convert_column(of, _to_int32), pa.int32()
    elif semantic_type == TIME and kind.is_int64(type_):
        of = convert_column(of, cut_thousands)
    return _from_plain(of, type_, TARGETS[target])


def _from_plain(of: ColumnSource, type_: pa.DataType, target: pa.DataType) -> ColumnSource | None:
    if kind.is_string(type_):
        flag = kind.is_boolean(target)
        return convert_column(of, _is_true) if flag else ParsedNumber(of, target)
    if kind.is_float32(type_) or kind.is_float64(type_):
        return convert_column(of, partial(_from_fraction, target=target))
    if kind.is_signed_integer(type_) or kind.is_boolean(type_):
        if kind.is_boolean(target):
            return convert_column(of, _is_not_zero)
        return convert_column(of, partial(_wrap, target=target))
    return None


def _as_text(type_: pa.DataType, semantic_type: str) -> Convert | None:
    if kind.is_timestamp(type_):
        return partial(format_iso, time_only=False) if type_.unit == "us" else None
    if semantic_type == TIME and kind.is_int64(type_):
        return partial(format_iso, time_only=True)
    if kind.is_date32(type_):
        return format_date
    simple = kind.is_signed_integer(type_) or kind.is_boolean(type_) or kind.is_string(type_)
    return _to_text if simple else None


def _to_text(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _to_int32(days: pa.Array) -> pa.Array:
    return days.cast(pa.int32())


def _to_milliseconds(instants: pa.Array) -> pa.Array:
    return divide_down(instants.cast(pa.int64()), 1000)


def _is_true(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.ascii_lower(texts), "true")


def _is_not_zero(numbers: pa.Array) -> pa.Array:
    if kind.is_boolean(numbers.type):
        return numbers
    return pc.not_equal(numbers, pa.scalar(0, numbers.type))


def _wrap(numbers: pa.Array, target: pa.DataType) -> pa.Array:
    """Return whole numbers in another type: of a narrower one the lower bits."""
    return numbers.cast(target, safe=False)


def _from_fraction(numbers: pa.Array, target: pa.DataType) -> pa.Array:
    """Return fractions in another type: cut, and clamped to the limits of int or long, whose lower
    bits the narrower ones have.
    """
    if kind.is_floating(target):
        return numbers.cast(target, safe=False)
    wide = target if target in (pa.int32(), pa.int64()) else pa.int32()
    whole = _clamp(numbers.cast(pa.float64()), pa.int64() if kind.is_boolean(target) else wide)
    return _is_not_zero(whole) if kind.is_boolean(target) else _wrap(whole, target)


def _clamp(numbers: pa.Array, target: pa.DataType) -> pa.Array:
    limit = float(1 << (target.bit_width - 1))
    highest, lowest = (1 << (target.bit_width - 1)) - 1, -(1 << (target.bit_width - 1))
    over, under = pc.greater_equal(numbers, limit), pc.less_equal(numbers, -limit)
    outside = pc.or_(pc.or_(over, under), pc.is_nan(numbers))
    inside = pc.if_else(outside, 0.0, numbers)  # null where the number is null
    whole = pc.trunc(inside).cast(target)
    whole = pc.if_else(over, pa.scalar(highest, target), whole)
    return pc.if_else(under, pa.scalar(lowest, target), whole)


_FRACTION: Final = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
_JAVA_FRACTION: Final = re.compile(
    r"([+-]?)(?:(NaN)|(Infinity)|([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"[fFdD]?|(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)
"""What Java's `Double.parseDouble` reads behind its trim: `FloatingPointLiteral` of its manual."""


def _parse_whole(texts: pa.Array, target: pa.DataType) -> pa.Array:
    fits = pc.match_substring_regex(texts, WHOLE)
    digits = pc.if_else(fits, texts, pa.scalar(None, pa.string()))
    plain = pc.replace_substring_regex(digits, r"\A\+", "")  # which Arrow does not read
    try:
        return plain.cast(target)
    except pa.ArrowInvalid:  # one of them is too large
        limit = 1 << (target.bit_width - 1)
        texts_of = _significant(plain).to_pylist()  # Python refuses thousands of digits
        numbers = (None if text is None else int(text) for text in texts_of)
        return pa.array([n if n is not None and -limit <= n < limit else None for n in numbers],
                        target)  # fmt: skip


def _significant(digits: pa.Array) -> pa.Array:
    """Return the first digits behind leading zeros, enough to see that a number is too large."""
    return pc.utf8_slice_codeunits(
        pc.replace_substring_regex(digits, r"\A(-?)0+([0-9])", r"\1\2"), 0, 25
    )


def _parse_fractions(texts: pa.Array, target: pa.DataType) -> pa.Array:
    fits = pc.match_substring_regex(texts, _FRACTION)
    if pc.all(fits).as_py() is not False:
        return texts.cast(target)
    odd = pc.invert(fits)
    read = [
        None if text is None else _read_fraction(text) for text in texts.filter(odd).to_pylist()
    ]
    plain = pc.replace_with_mask(texts, odd, pa.array(read, pa.string()))
    return plain.cast(target)


def _read_fraction(text: str) -> str | None:
    """Return a number of Java in digits that Arrow reads; None for a text that is none."""
    found = _JAVA_FRACTION.fullmatch(text.strip(JAVA_SPACE))
    if found is None:
        return None
    sign, is_nan, is_infinite, digits, hexadecimal = found.groups()
    if is_nan:
        return "nan"
    if is_infinite:
        return f"{sign}inf"
    if digits:
        return f"{sign}{digits}"
    try:
        return f"{sign}{float.fromhex(hexadecimal)!r}"
    except OverflowError:
        return f"{sign}inf"
