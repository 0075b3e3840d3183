"""Restarts in place: `restart.max` counts those in a row, a healthy run starts a new row."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.backoff import RestartPolicy
from penstock.model.connector import Connector, TaskPlan, TaskState, TaskStatus
from penstock.model.errors import InternalError, PenstockError, RetriableError
from penstock.wire.worker import TASK_STATUS
from penstock.worker.task.supervisor import Assignment, TaskSupervisor

AT_ONCE, NEVER = -1.0, 3600.0
"""Seconds after which a run counts as healthy: all that ran do, or none does."""


class Short(TaskSupervisor):
    """Fails with each of the errors, then completes."""

    def __init__(self, policy: RestartPolicy, errors: list[PenstockError], *, runs: bool) -> None:
        assigned = Assignment(Connector("orders", {}, generation="g"), TaskPlan("g-0"), 7)
        super().__init__(assigned, policy, lambda: None)
        self.errors, self.runs = errors, runs

    def update(self, wanted: Assignment) -> None:
        """Do nothing."""

    async def _run_once(self) -> TaskState:
        if self.runs:
            self._set_running()
        if self.errors:
            raise self.errors.pop(0)
        return TaskState.COMPLETED


def lived(healthy: float, *errors: PenstockError, runs: bool = True, most: int = 2) -> TaskStatus:
    policy = RestartPolicy(
        first_delay_s=0.001, max_delay_s=0.001, healthy_after_s=healthy, max_restarts=most
    )
    life = Short(policy, list(errors), runs=runs)
    asyncio.run(life.run())
    return life.status()


def away(times: int) -> list[PenstockError]:
    return [RetriableError("test.away", "away") for _ in range(times)]


def test_errors_in_a_row_end_at_restart_max():
    status = lived(NEVER, *away(3))
    assert (status.state, status.restarts, status.restarts_in_a_row) == (TaskState.FAILED, 2, 2)


def test_errors_after_healthy_runs_are_not_in_a_row():
    status = lived(AT_ONCE, *away(5))
    assert (status.state, status.restarts, status.restarts_in_a_row) == (TaskState.COMPLETED, 5, 1)


def test_a_task_that_never_ran_was_not_healthy_however_long_it_took():
    assert lived(AT_ONCE, *away(3), runs=False).state is TaskState.FAILED


@pytest.mark.parametrize(("healthy", "row"), [(AT_ONCE, 0), (NEVER, 3)])
def test_a_final_error_reports_the_restarts_in_a_row_before_it(healthy, row):
    status = lived(healthy, *away(3), InternalError("test.defect", "defect"), most=-1)
    assert (status.state, status.restarts, status.restarts_in_a_row) == (TaskState.FAILED, 3, row)
    assert TASK_STATUS.from_proto(TASK_STATUS.to_proto(status)) == status


def test_the_fix_of_an_error_that_repeats_is_told_once(caplog):
    away = [RetriableError("test.away", "away", fix="Start it.") for _ in range(2)]
    lived(NEVER, *away, RetriableError("test.busy", "busy", fix="Wait."), most=5, runs=False)
    told = [record.getMessage().split(": ", 1)[1] for record in caplog.records]
    assert told == [
        "[test.away] away Fix: Start it.",
        "[test.away] away",
        "[test.busy] busy Fix: Wait.",
    ]
