"""The reaction to a failed task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.backoff import RestartPolicy
from penstock.model.errors import Diagnostic, ErrorClass
from penstock.scheduler.state.restarts import (
    MAX_INTERNAL_RESTARTS,
    FailureAction,
    FailureDecision,
    RestartHistory,
    decide_action,
)

POLICY = RestartPolicy(first_delay_s=1, max_delay_s=60, healthy_after_s=300, jitter=0.25)
WHY = Diagnostic("test.away", "away", ErrorClass.RETRIABLE)


@pytest.mark.parametrize("kind", ErrorClass)
def test_every_class_has_its_action(kind):
    fate = {
        ErrorClass.UNSPECIFIED: FailureAction.RESTART,
        ErrorClass.RETRIABLE: FailureAction.RESTART,
        ErrorClass.INTERNAL: FailureAction.RESTART,
        ErrorClass.FENCED: FailureAction.REASSIGN,
    }.get(kind, FailureAction.WAIT)
    assert decide_action(POLICY, kind, 0, -1, 0).action is fate


def test_delays_double_up_to_the_longest():
    delays = [decide_action(POLICY, ErrorClass.RETRIABLE, n, -1, 0).delay_s for n in range(8)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_jitter_is_at_most_its_fraction_of_a_delay(restarts, chance):
    full = POLICY.delay_s(restarts, 0)
    assert 0.75 * full <= POLICY.delay_s(restarts, chance) <= full <= 60


@pytest.mark.parametrize("most", [0, 1, 5])
def test_restart_max_bounds_restarts(most):
    fates = [
        decide_action(POLICY, ErrorClass.RETRIABLE, n, most, 0).action for n in range(most + 2)
    ]
    assert fates == [FailureAction.RESTART] * most + [FailureAction.WAIT] * 2


def test_a_defect_is_tried_a_few_times_only():
    assert decide_action(
        POLICY, ErrorClass.INTERNAL, MAX_INTERNAL_RESTARTS, -1, 0
    ) == FailureDecision(FailureAction.WAIT)
    assert decide_action(POLICY, ErrorClass.INTERNAL, 1, 1, 0) == FailureDecision(
        FailureAction.WAIT
    )


def test_a_quiet_period_resets_restarts_and_a_failure_ends_it():
    history = RestartHistory(restarts=4)
    history.record_running(0, 300)
    history.record_running(299, 300)
    assert history.restarts == 4
    history.record_failure(FailureDecision(FailureAction.RESTART, 1), WHY, 7, 299)
    assert history.due_at == 300
    history.record_assignment(history.next_restarts())
    assert (history.restarts, history.due_at, history.is_restarting) == (5, None, True)
    history.record_running(301, 300)
    history.record_running(601, 300)
    assert (history.restarts, history.is_restarting) == (0, False)


def test_a_requested_restart_resets_the_count():
    history = RestartHistory(restarts=4)
    history.record_failure(FailureDecision(FailureAction.WAIT), WHY, 7, 10)
    assert history.due_at is None
    history.request_restart(20)
    assert (history.due_at, history.next_restarts()) == (20, 0)
