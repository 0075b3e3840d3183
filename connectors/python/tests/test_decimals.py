"""Decimals are exact, or refused: Python rounds them to 28 digits, and some texts crash Arrow."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock_values.decimals import (
    at_scale,
    from_texts,
    from_unscaled,
    make_column,
    may_be_long,
)

NUMBER = pa.decimal128(38, 2)
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
    assert int("".join(map(str, number.as_tuple().digits))) == abs(whole)


def test_larger_numbers_are_refused():
    with pytest.raises(ValueError, match="76 digits"):
        from_unscaled(-(10**76), 2)


def test_python_values_become_a_column():
    values = [Decimal("1.5"), "2", None, 3]
    assert make_column(values, NUMBER).to_pylist() == [Decimal("1.5"), Decimal(2), None, Decimal(3)]
    assert make_column(["1e-77"], pa.string()).to_pylist() == ["1e-77"]
    for value in (Decimal("1e-77"), "1e-999999999", "x"):
        with pytest.raises(pa.ArrowInvalid):
            make_column([value], NUMBER)


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


def test_texts_are_decimals_of_a_type():
    texts = ["1.5", "-0", None, "1e2", "150e-2", "1.50000000000000000000000000000000000000000000"]
    wanted = ["1.50", "0.00", None, "100.00", "1.50", "1.50"]
    made = from_texts(pa.array(texts), NUMBER)
    assert [None if one is None else str(one) for one in made.to_pylist()] == wanted


def test_a_part_of_a_column_and_an_empty_one_are_taken_too():
    texts = pa.array(["1e-77", "1.5", "2", "1e-77"])
    assert from_texts(texts[1:3], NUMBER).to_pylist() == [Decimal("1.5"), Decimal(2)]
    assert from_texts(texts[:0], NUMBER).to_pylist() == []
    assert from_texts(pa.array([None], pa.string()), NUMBER).to_pylist() == [None]
    assert from_texts(pa.array([], pa.string()), NUMBER).to_pylist() == []


@pytest.mark.parametrize(
    "text",
    ["1e-77", "1e-999999999", "1.005", "NaN", "x", "", "1e99", "1e-3", "1_0e2", "\u0661e2", "e2"],
)
@pytest.mark.parametrize("scale", [2, -2])
def test_what_the_type_cannot_hold_is_refused(text, scale):
    with pytest.raises(pa.ArrowInvalid):
        from_texts(pa.array(["100", text]), pa.decimal128(38, scale))


def fits(number, digits, scale):
    try:
        return len(at_scale(number, scale).as_tuple().digits) <= digits
    except ValueError:
        return False


NUMBERS = st.from_regex(r"[+-]?[0-9]{1,40}(\.[0-9]{0,60})?(e-?[0-9]{1,3})?", fullmatch=True)


@example("56510e40", 76, 35)
@example("123456789012345678901234567890e9", 76, 38)
@example("1" * 60, 76, 38)
@example("1" * 30, 76, 60)
@example("1" * 38, 38, 2)
@example("8" * 60, 37, 0)
@example("-" + "7" * 37, 38, 2)
@example("658808125", 34, 30)
@example("9" * 36, 38, 2)
@given(NUMBERS, st.integers(1, 76), st.integers(0, 76))
def test_a_number_is_itself_or_refused(text, digits, scale):
    scale = min(scale, digits)
    kind = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    number = Decimal(text)
    try:
        (made,) = from_texts(pa.array([text]), kind).to_pylist()
    except pa.ArrowInvalid:
        assert not fits(number, digits, scale)
        return
    assert made == number
    assert at_scale(number, scale) == made


@given(st.from_regex(r"[0-9]{1,9}(\.[0-9]{0,60})?(e-[0-9]{1,4})?", fullmatch=True))
def test_what_has_many_digits_behind_its_point_is_told(text):
    exponent = Decimal(text).as_tuple().exponent
    assert may_be_long(text.encode()) or -exponent <= 38
