"""Restarts in place: `restart.max` counts those in a row, a healthy run begins a new row."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.connector import Connector, TaskPlan, TaskState, TaskStatus
from penstock.model.errors import InternalError, PenstockError, RetriableError
from penstock.wire.worker import status_from_proto, status_to_proto
from penstock.worker.task.supervisor import Assigned, Life, RestartPolicy

AT_ONCE, NEVER = -1.0, 3600.0
"""Seconds after which a run counts as healthy: all that ran do, or none does."""


class Short(Life):
    """Lives so many times, each ends with an error; after these it stays well."""

    def __init__(self, policy: RestartPolicy, errors: list[PenstockError], *, runs: bool) -> None:
        assigned = Assigned(Connector("orders", {}, generation="g"), TaskPlan("g-0"), 7)
        super().__init__(assigned, policy, lambda: None)
        self.errors, self.runs = errors, runs

    def follow(self, wanted: Assigned) -> None:
        """Nothing may change."""

    async def _live(self) -> TaskState:
        if self.runs:
            self._running()
        if self.errors:
            raise self.errors.pop(0)
        return TaskState.COMPLETED


def lived(healthy: float, *errors: PenstockError, runs: bool = True, most: int = 2) -> TaskStatus:
    policy = RestartPolicy(first=0.001, longest=0.001, healthy=healthy, most=most)
    life = Short(policy, list(errors), runs=runs)
    asyncio.run(life.run())
    return life.status()


def away(times: int) -> list[PenstockError]:
    return [RetriableError("test.away", "away") for _ in range(times)]


def test_errors_in_a_row_end_at_restart_max():
    status = lived(NEVER, *away(3))
    assert (status.state, status.restarts, status.restarts_in_a_row) == (TaskState.FAILED, 2, 2)


def test_errors_that_each_end_a_healthy_run_are_no_row():
    status = lived(AT_ONCE, *away(5))
    assert (status.state, status.restarts, status.restarts_in_a_row) == (TaskState.COMPLETED, 5, 1)


def test_who_never_ran_was_not_healthy_however_long_it_took():
    assert lived(AT_ONCE, *away(3), runs=False).state is TaskState.FAILED


@pytest.mark.parametrize(("healthy", "row"), [(AT_ONCE, 0), (NEVER, 3)])
def test_an_error_that_ends_it_says_how_many_were_before_it_in_a_row(healthy, row):
    status = lived(healthy, *away(3), InternalError("test.defect", "defect"), most=-1)
    assert (status.state, status.restarts, status.restarts_in_a_row) == (TaskState.FAILED, 3, row)
    assert status_from_proto(status_to_proto(status)) == status
