"""Texts of others as decimals: Arrow takes some of them for others, and dies of some."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock_connector.decimals import at_scale, from_texts, may_be_long

NUMBER = pa.decimal128(38, 2)


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
