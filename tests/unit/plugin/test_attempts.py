"""Failed attempts of a plugin to connect, from the line of its log to the status of its task."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from penstock.model.backoff import RestartPolicy
from penstock.model.connector import Connector, TaskPlan, TaskState
from penstock.model.errors import Diagnostic, ErrorClass, RetriableError
from penstock.plugin.process.attempts import AttemptListeners, ConnectAttempt, parse_attempt
from penstock.plugin.process.logs import PluginLog, Redactor
from penstock.worker.task.supervisor import Assignment, TaskSupervisor

TOLD = {
    "task": "g-0", "epoch": 7, "code": "sql.unreachable", "message": "db:5432: refused",
    "fix": "Is it up?", "attempt": 2, "attempts": 9,
}  # fmt: skip
AWAY = Diagnostic(
    "sql.unreachable", "db:5432: refused (attempt 2 of 9)", ErrorClass.RETRIABLE, fix="Is it up?"
)


def line(**changes):
    """Return a line of a log with an attempt."""
    return json.dumps({"@level": "warn", "@message": "m", "@attempt": TOLD | changes})


def same(text):
    """Return the text: nothing is secret."""
    return text


def test_a_line_tells_an_attempt():
    assert parse_attempt(line(), same) == ConnectAttempt("g-0", 7, AWAY)
    endless = parse_attempt(line(attempts=0), same)
    assert endless is not None
    assert endless.diagnostic.message == "db:5432: refused (attempt 2)"


@pytest.mark.parametrize(
    "text",
    [
        "plain text", '{"@message": "m"}', '{"@attempt": 7}', '{"@attempt": null}',
        '{"@attempt": {}}', '{"@attempt": {"task": "g-0"}}', 'not json "@attempt"',
        '["@attempt"]', line(attempt="many"), line(epoch=None),
    ],
)  # fmt: skip
def test_any_other_line_tells_none(text):
    assert parse_attempt(text, same) is None


def test_what_is_shown_is_redacted_bounded_and_one_line():
    redact = Redactor()
    redact.add_secrets(["hunter42"])
    told = parse_attempt(line(message="hunter42\nforged", fix="f" * 99_999), redact)
    assert told is not None
    assert told.diagnostic.message == "***\\nforged (attempt 2 of 9)"
    assert len(told.diagnostic.fix) < 9_999


def test_a_log_passes_attempts_on_and_logs_the_line_without_them(caplog):
    told = []
    log = PluginLog("databases", "mysql-cdc", Redactor(), on_attempt=told.append)
    with caplog.at_level(logging.INFO):
        log.line(line().encode())
        log.line(b"plain")
    assert [one.diagnostic for one in told] == [AWAY]
    assert caplog.messages == ["databases/mysql-cdc: m", "databases/mysql-cdc: plain"]


def test_an_attempt_goes_to_the_epoch_that_makes_it_and_only_while_it_opens():
    listeners, heard = AttemptListeners(), []
    with listeners.watch("g-0", 7, heard.append):
        for task, epoch in (("g-0", 7), ("g-0", 6), ("g-1", 7)):
            listeners.report(ConnectAttempt(task, epoch, AWAY))
    listeners.report(ConnectAttempt("g-0", 7, AWAY))
    assert heard == [AWAY]


class Opening(TaskSupervisor):
    """A task whose source fails to connect, then opens."""

    def __init__(self) -> None:
        assigned = Assignment(Connector("orders", {}, generation="g"), TaskPlan("g-0"), 7)
        self.statuses = []
        policy = RestartPolicy(0.001, 0.001, 3600.0)
        super().__init__(assigned, policy, lambda: self.statuses.append(self.status()))

    def update(self, wanted: Assignment) -> None:
        """Do nothing."""

    async def _run_once(self) -> TaskState:
        self._record_attempt(AWAY)
        self._set_running()
        self._record_attempt(AWAY)  # a line that comes late
        return TaskState.COMPLETED


def test_a_task_shows_its_last_attempt_until_it_is_open():
    task = Opening()
    before = task.fingerprint()
    asyncio.run(task.run())
    shown = [(one.state, one.diagnostic, one.restarts) for one in task.statuses]
    assert shown == [
        (TaskState.STARTING, None, 0),
        (TaskState.STARTING, AWAY, 0),
        (TaskState.RUNNING, None, 0),
        (TaskState.COMPLETED, None, 0),
    ]
    assert before != task.fingerprint()


def test_the_scheduler_is_told_of_each_attempt():
    task = Opening()
    fingerprints = [task.fingerprint()]
    for number in (1, 2):
        task._record_attempt(Diagnostic("sql.unreachable", f"attempt {number}"))
        fingerprints.append(task.fingerprint())
    assert len(set(fingerprints)) == 3


class Failing(Opening):
    """A task whose attempts fail to the last."""

    async def _run_once(self) -> TaskState:
        self._record_attempt(AWAY)
        raise RetriableError("sql.unreachable", "db:5432: refused", fix="Is it up?")


def test_the_first_failure_of_a_run_is_logged_with_its_fix(caplog):
    """Attempts told it without."""
    task = Failing()
    task._on_change = lambda: task.stop() if task.status().restarts else None
    asyncio.run(task.run())
    assert "Is it up?" in caplog.text
