"""How many bad rows are tolerated: by their places, over micro-batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import ConfigError
from penstock.worker.dead_letters.rejected_rows import (
    ALL,
    MAX_TOLERATED,
    NONE,
    Tolerance,
    Tolerated,
    read_tolerance,
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("none", NONE),
        ("all", ALL),
        ("ALL", ALL),
        ("5/1000", Tolerance(5, 1000)),
        (" 1 / 2 ", Tolerance(1, 2)),
    ],
)
def test_what_it_says(text, meant):
    assert read_tolerance(text) == meant


@pytest.mark.parametrize(
    "text",
    ["", "some", "5", "5/", "0/10", "10/10", "11/10", "-1/10", f"{MAX_TOLERATED + 1}/10000000"],
)
def test_what_it_cannot_be(text):
    with pytest.raises(ConfigError) as caught:
        read_tolerance(text)
    assert caught.value.diagnostic.config_path == "errors.tolerance"


def test_none_refuses_the_first_and_all_none():
    assert Tolerated(NONE).refused([7, 8]) == 0
    assert Tolerated(ALL).refused(range(1000)) is None


def test_a_window_slides_over_micro_batches():
    two_of_ten = Tolerated(Tolerance(2, 10))
    assert two_of_ten.refused([0, 5]) is None
    assert two_of_ten.refused([10]) is None  # 0 is ten rows away
    assert two_of_ten.refused([14]) == 0  # 5, 10 and 14 are within ten


@given(
    st.lists(st.integers(0, 60), unique=True).map(sorted),
    st.integers(1, 4),
    st.integers(5, 20),
)
def test_it_refuses_exactly_when_a_window_has_too_many(places, most, among):
    """Against the definition: any `among` rows in a row with more than `most` bad ones."""
    first = next(
        (
            index
            for index, place in enumerate(places)
            if sum(place - among < other <= place for other in places) > most
        ),
        None,
    )
    assert Tolerated(Tolerance(most, among)).refused(places) == first
