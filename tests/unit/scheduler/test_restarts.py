"""What becomes of a task that failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import Diagnostic, ErrorClass
from penstock.scheduler.state.failures import DEFECTS, Fate, History, RestartPolicy, Verdict, judge

POLICY = RestartPolicy(first=1, longest=60, quiet=300, jitter=0.25)
WHY = Diagnostic("test.away", "away", ErrorClass.RETRIABLE)


@pytest.mark.parametrize("kind", ErrorClass)
def test_every_class_has_its_fate(kind):
    fate = {
        ErrorClass.UNSPECIFIED: Fate.RESTART,
        ErrorClass.RETRIABLE: Fate.RESTART,
        ErrorClass.INTERNAL: Fate.RESTART,
        ErrorClass.FENCED: Fate.REASSIGN,
    }.get(kind, Fate.WAIT)
    assert judge(POLICY, kind, 0, -1, 0).fate is fate


def test_delays_double_up_to_the_longest():
    delays = [judge(POLICY, ErrorClass.RETRIABLE, n, -1, 0).delay for n in range(8)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_chance_takes_at_most_its_part_of_a_delay(restarts, chance):
    full = POLICY.delay(restarts, 0)
    assert 0.75 * full <= POLICY.delay(restarts, chance) <= full <= 60


@pytest.mark.parametrize("most", [0, 1, 5])
def test_restart_max_bounds_restarts(most):
    fates = [judge(POLICY, ErrorClass.RETRIABLE, n, most, 0).fate for n in range(most + 2)]
    assert fates == [Fate.RESTART] * most + [Fate.WAIT] * 2


def test_a_defect_is_tried_a_few_times_only():
    assert judge(POLICY, ErrorClass.INTERNAL, DEFECTS, -1, 0) == Verdict(Fate.WAIT)
    assert judge(POLICY, ErrorClass.INTERNAL, 1, 1, 0) == Verdict(Fate.WAIT)


def test_a_quiet_time_forgets_restarts_and_a_failure_ends_it():
    history = History(restarts=4)
    history.runs(0, 300)
    history.runs(299, 300)
    assert history.restarts == 4
    history.failed(Verdict(Fate.RESTART, 1), WHY, 7, 299)
    assert history.due == 300
    history.assigned(history.next_restarts())
    assert (history.restarts, history.due, history.again) == (5, None, True)
    history.runs(301, 300)
    history.runs(601, 300)
    assert (history.restarts, history.again) == (0, False)


def test_a_person_begins_the_count_anew():
    history = History(restarts=4)
    history.failed(Verdict(Fate.WAIT), WHY, 7, 10)
    assert history.due is None
    history.ask(20)
    assert (history.due, history.next_restarts()) == (20, 0)
