"""Sets of ranges behave as sets of numbers do."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_kit.testing.ledger import Spans, count_numbers, format_spans

spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=12,
)


def numbers(ranges) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}


@given(spans, spans)
def test_spans_are_sets_of_numbers(one, other):
    a, b = Spans(one), Spans(other)
    assert numbers(a) == numbers(one)
    assert numbers(a.minus(b)) == numbers(one) - numbers(other)
    assert numbers(a.common(b)) == numbers(one) & numbers(other)
    assert numbers(a.union(b)) == numbers(one) | numbers(other)
    assert len(a) == len(numbers(one))
    assert all((n in a) == (n in numbers(one)) for n in range(80))


@given(spans)
def test_ranges_never_touch_so_equal_sets_are_equal(one):
    ranges = list(Spans(one))
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))
    assert Spans(one) == Spans.of(numbers(one))


@given(spans, st.integers(0, 60), st.integers(0, 12))
def test_adding_tells_what_was_there_already(one, first, length):
    here = Spans(one)
    again = here.add(first, first + length)
    assert numbers(again) == numbers(one) & set(range(first, first + length + 1))
    assert count_numbers(again) == len(numbers(again))


def test_a_range_that_holds_nothing_is_refused():
    with pytest.raises(ValueError, match="from 5 to 4"):
        Spans([(5, 4)])


def test_people_see_the_first_ranges_and_how_many_more():
    assert format_spans([(0, 4), (7, 7)]) == "0-4, 7"
    assert format_spans([(n, n) for n in range(0, 20, 2)], limit=2) == "0, 2, … 8 more"
    assert repr(Spans([(1, 2)])) == "Spans(1-2)"
    assert Spans().highest is None
