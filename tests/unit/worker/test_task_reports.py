"""What a worker reports of its tasks: all of them first, then only what changed."""

from __future__ import annotations

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.model.connector import TaskState, TaskStatus
from penstock.worker.runtime.task_reports import REFRESH_S, TaskReports
from penstock.worker.task.metrics import TaskCounters


class Tasks:
    """A task registry whose tasks have a number of rows."""

    def __init__(self, **rows: int) -> None:
        self.rows = rows

    def fingerprints(self):
        return {id_: (rows,) for id_, rows in self.rows.items()}

    def status(self, id_):
        return TaskStatus(id_, "c", 1, TaskState.RUNNING, rows_read=self.rows[id_])


class Session:
    """The reports of a session, and a clock."""

    def __init__(self, tasks: Tasks) -> None:
        self.now = 100.0
        self._reports = TaskReports(tasks, lambda: self.now)

    def next(self, partial=True):
        """Return the next report: its tasks with their rows, what is released, whether partial."""
        request = pb.SessionRequest()
        self._reports.add_to(request, partial=partial)
        tasks = {task.task_id: task.rows_read for task in request.tasks}
        return tasks, list(request.released_tasks), request.partial


def test_the_first_report_has_all_tasks_and_later_ones_those_that_changed():
    tasks = Tasks(a=1, b=2)
    session = Session(tasks)
    assert session.next() == ({"a": 1, "b": 2}, [], False)
    assert session.next() == ({}, [], True)
    tasks.rows["b"] = 3
    assert session.next() == ({"b": 3}, [], True)


def test_a_task_that_is_gone_is_released_once():
    tasks = Tasks(a=1, b=2)
    session = Session(tasks)
    session.next()
    del tasks.rows["a"]
    assert session.next() == ({}, ["a"], True)
    tasks.rows["a"] = 1
    assert session.next() == ({"a": 1}, [], True), "it came back as it was"


def test_what_depends_on_the_time_alone_is_refreshed():
    session = Session(Tasks(a=1))
    session.next()
    session.now += REFRESH_S - 1
    assert session.next() == ({}, [], True)
    session.now += 1
    assert session.next() == ({"a": 1}, [], True)
    assert session.next() == ({}, [], True)


def test_another_session_begins_with_all_tasks():
    tasks = Tasks(a=1)
    Session(tasks).next()
    assert Session(tasks).next() == ({"a": 1}, [], False)


def test_a_scheduler_that_takes_no_partial_requests_gets_all_tasks_each_time():
    session = Session(Tasks(a=1, b=2))
    for _ in range(2):
        assert session.next(partial=False) == ({"a": 1, "b": 2}, [], False)
    assert session.next() == ({}, [], True)


def test_each_event_of_a_task_changes_its_fingerprint():
    counters = TaskCounters()
    seen = {counters.fingerprint()}
    counters.record_announced(3, 30)
    seen.add(counters.fingerprint())
    counters.rows_left = 5
    seen.add(counters.fingerprint())
    counters.record_retry()
    seen.add(counters.fingerprint())
    counters.plugin_metrics = lambda: ("lag",)
    seen.add(counters.fingerprint())
    assert len(seen) == 5
