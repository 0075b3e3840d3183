"""A log of a task says when its rows began to move, and when rows began to be rejected."""

import asyncio
import logging

import pytest

from penstock.model.backoff import RestartPolicy
from penstock.model.connector import Connector, TaskPlan, TaskState
from penstock.worker.task.commit_log import CommitLog
from penstock.worker.task.micro_batches import ExecutedBatch
from penstock.worker.task.supervisor import Assignment, TaskSupervisor


def test_the_first_commit_and_the_first_rejected_rows_have_a_line(caplog):
    caplog.set_level(logging.INFO)
    commits = CommitLog("g-0")
    for failed in (0, 0, 3, 5):
        commits.record(ExecutedBatch((), 10, 10 - failed, rows_failed=failed))
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("INFO", "task g-0 committed its first micro-batch, rows: 10"),
        ("WARNING", "rejected rows: 3; further ones are only counted"),
    ]


class Completes(TaskSupervisor):
    """Runs, and is completed."""

    def update(self, wanted):
        """Do nothing."""

    async def _run_once(self):
        self._set_running()
        return TaskState.COMPLETED


class Quiet(Completes):
    logs_states = False


@pytest.mark.parametrize(("kind", "count"), [(Completes, 2), (Quiet, 0)])
def test_states_that_no_error_explains_have_a_line(caplog, kind, count):
    caplog.set_level(logging.INFO)
    assignment = Assignment(Connector("orders", {}, generation="g"), TaskPlan("g-0"), 7)
    task = kind(assignment, RestartPolicy(0.01, 0.01, 1.0), lambda: None)
    asyncio.run(task.run())
    lines = [one.getMessage() for one in caplog.records if "g-0" in one.getMessage()]
    assert lines == ["task g-0 is RUNNING", "task g-0 is COMPLETED"][:count]
