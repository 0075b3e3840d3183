"""How many rejected rows are tolerated: by their positions, across micro-batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector_config.dead_letters import (
    MAX_TOLERANCE,
    TOLERATE_ALL,
    TOLERATE_NONE,
    Tolerance,
    read_tolerance,
)
from penstock.model.errors import ConfigError
from penstock.worker.dead_letters.rejected_rows import ToleranceWindow


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("none", TOLERATE_NONE),
        ("all", TOLERATE_ALL),
        ("ALL", TOLERATE_ALL),
        ("5/1000", Tolerance(5, 1000)),
        (" 1 / 2 ", Tolerance(1, 2)),
    ],
)
def test_valid_tolerances_are_parsed(text, meant):
    assert read_tolerance(text) == meant


@pytest.mark.parametrize(
    "text",
    ["", "some", "5", "5/", "0/10", "10/10", "11/10", "-1/10", f"{MAX_TOLERANCE + 1}/10000000"],
)
def test_invalid_tolerances_are_refused(text):
    with pytest.raises(ConfigError) as caught:
        read_tolerance(text)
    assert caught.value.diagnostic.config_path == "errors.tolerance"


def test_none_rejects_the_first_and_all_accepts_every_row():
    assert ToleranceWindow(TOLERATE_NONE).find_excess([7, 8]) == 0
    assert ToleranceWindow(TOLERATE_ALL).find_excess(range(1000)) is None


def test_a_window_slides_over_micro_batches():
    two_of_ten = ToleranceWindow(Tolerance(2, 10))
    assert two_of_ten.find_excess([0, 5]) is None
    assert two_of_ten.find_excess([10]) is None  # 0 is ten rows away
    assert two_of_ten.find_excess([14]) == 0  # 5, 10 and 14 are within ten


@given(
    st.lists(st.integers(0, 60), unique=True).map(sorted),
    st.integers(1, 4),
    st.integers(5, 20),
)
def test_the_tolerance_is_exceeded_exactly_when_a_window_has_too_many(places, most, among):
    """Against the definition: any `among` consecutive rows with more than `most` rejected ones."""
    first = next(
        (
            index
            for index, place in enumerate(places)
            if sum(place - among < other <= place for other in places) > most
        ),
        None,
    )
    assert ToleranceWindow(Tolerance(most, among)).find_excess(places) == first
