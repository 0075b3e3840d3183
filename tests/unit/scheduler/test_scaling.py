"""How many tasks a connector should have, by its lag."""

import math

from hypothesis import given
from hypothesis import strategies as st

from penstock.scheduler.state.desired_state import ScalingRules
from penstock.scheduler.state.plans import Scale, estimate_lag_s, initial_scale, next_scale

RULES = ScalingRules(
    min_tasks=2, max_tasks=10, target_lag_s=30, scale_up_after_s=30, scale_down_after_s=300
)


def after(scale, lag, *times, rules=RULES):
    for now in times:
        scale = next_scale(rules, scale, lag, now)
    return scale


def test_without_a_target_the_number_is_the_most():
    off = ScalingRules(min_tasks=1, max_tasks=7)
    assert initial_scale(off) == Scale(7)
    assert next_scale(off, Scale(3), 1000, 0) == Scale(7)


def test_a_lag_that_stays_adds_half_as_many_tasks():
    assert after(Scale(4), 60, 0, 29).tasks == 4
    assert after(Scale(4), 60, 0, 30) == Scale(6)
    assert after(Scale(8), 60, 0, 30) == Scale(10)


def test_a_burst_changes_nothing():
    scale = after(Scale(4), 60, 0, 20)
    scale = after(scale, 20, 25)
    assert after(scale, 60, 30, 59).tasks == 4


def test_one_task_is_given_up_after_a_long_quiet_time():
    assert after(Scale(4), 1, 0, 299).tasks == 4
    assert after(Scale(4), 1, 0, 300) == Scale(3)
    assert after(Scale(2), 1, 0, 1000).tasks == 2


def test_between_the_bounds_nothing_happens():
    assert after(Scale(4), 15, 0, 10_000) == Scale(4)


def test_an_unknown_lag_changes_nothing():
    assert after(Scale(4, high_since=0), None, 100) == Scale(4)


def test_lag_is_rows_left_by_rows_a_second():
    assert estimate_lag_s(100, 10) == 10
    assert estimate_lag_s(0, 0) == 0
    assert estimate_lag_s(-1, 10) is None
    assert estimate_lag_s(5, 0) == math.inf


@given(
    st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.floats(0, 400))),
    st.integers(1, 5),
    st.integers(0, 20),
)
def test_the_number_stays_within_its_bounds(history, least, more):
    rules = ScalingRules(min_tasks=least, max_tasks=least + more, target_lag_s=30)
    scale, now = initial_scale(rules), 0.0
    for lag, seconds in history:
        now += seconds
        scale = next_scale(rules, scale, lag, now)
        assert least <= scale.tasks <= least + more
