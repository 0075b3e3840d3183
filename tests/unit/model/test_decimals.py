"""Decimals are exact, or refused, whatever their exponent: Python rounds them to 28 digits."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.decimals import at_scale, from_unscaled, make_column, may_be_long, to_unscaled

LONG = "12345678901234567890123456789012345678901234567890123456789012345678901234.56"


@pytest.mark.parametrize(
    ("number", "scale", "text"),
    [
        ("1.5", 2, "1.50"),
        ("1.500", 1, "1.5"),
        ("-0.00", 2, "-0.00"),
        ("1200", -2, "1.2E+3"),
        (LONG, 2, LONG),
        ("0e-999999999", 2, "0.00"),
        ("0e999999999999999999", 2, "0.00"),
    ],
)
def test_a_number_is_converted_to_a_scale(number, scale, text):
    assert str(at_scale(Decimal(number), scale)) == text


@pytest.mark.parametrize(
    ("number", "scale"),
    [
        ("1.505", 2),
        ("1250", -2),
        ("1e-77", 2),
        ("1e-999999999999999999", 2),
        ("1e999999999999999999", 2),
        (LONG, 3),
        ("NaN", 0),
        ("-Infinity", 0),
    ],
)
def test_a_number_that_would_be_rounded_is_refused(number, scale):
    with pytest.raises(ValueError, match="digits after its point"):
        at_scale(Decimal(number), scale)


@given(st.integers(1 - 10**76, 10**76 - 1), st.integers(-76, 76))
def test_every_number_of_76_digits_survives_a_round_trip(whole, scale):
    number = from_unscaled(whole, scale)
    assert number.as_tuple().exponent == -scale
    assert to_unscaled(number, scale) == whole


def test_larger_numbers_are_refused():
    with pytest.raises(ValueError, match="76 digits"):
        from_unscaled(-(10**76), 2)


def test_python_values_become_a_column():
    kind = pa.decimal128(38, 2)
    values = [Decimal("1.5"), "2", None, 3]
    assert make_column(values, kind).to_pylist() == [Decimal("1.5"), Decimal(2), None, Decimal(3)]
    assert make_column(["1e-77"], pa.string()).to_pylist() == ["1e-77"]
    for value in (Decimal("1e-77"), "1e-999999999", "x"):
        with pytest.raises(pa.ArrowInvalid):
            make_column([value], kind)


@example("41", 37, 37)
@example("1" * 38, 38, 2)
@example("56510e40", 38, 35)
@given(
    st.from_regex(r"-?[0-9]{1,40}(\.[0-9]{0,40})?(e-?[0-9]{1,2})?", fullmatch=True),
    st.integers(1, 38),
    st.integers(0, 38),
)
def test_a_text_becomes_exactly_its_number_or_is_refused(text, digits, scale):
    kind = pa.decimal128(digits, min(scale, digits))
    try:
        (made,) = make_column([text], kind).to_pylist()
    except pa.ArrowInvalid:
        return
    assert made == Decimal(text)


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        (b"1e-20", True),
        (b'{"a": 1.5E-000099}', True),
        (b"0." + b"0" * 19 + b"1", True),
        (rb'{"a": "1e-\u0039\u0039"}', True),
        (b"1e-9,1e20,1.5", False),
        (b"41fe4e2e-4567-4e-99a-9e2e-321697019928", False),
        (rb'{"a": "\u00e9"}', False),
    ],
)
def test_long_numbers_in_texts_are_detected(text, is_told):
    assert may_be_long(text) is is_told
