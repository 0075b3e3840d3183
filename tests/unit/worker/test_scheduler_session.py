"""The worker's side of a session: whole reports and whole assignments, one after the other."""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.scheduler.v1 import scheduler_service_pb2_grpc as api
from penstock.api.worker.v1 import worker_service_pb2 as worker_pb
from penstock.client import SchedulerClient
from penstock.model.connector import (
    Connector,
    Partition,
    TargetState,
    TaskPlan,
    TaskState,
    TaskStatus,
)
from penstock.model.errors import Diagnostic, RetriableError
from penstock.rpc.server import Server
from penstock.scheduler.leader.leadership import not_leader
from penstock.wire.config import CONNECTOR
from penstock.wire.connector import PLAN
from penstock.worker.runtime import scheduler_session as module
from penstock.worker.runtime.scheduler_session import SchedulerSession, WorkerIdentity
from support.waiting import until

WHO = WorkerIdentity("unix:/w", "one", "w-1", {"zone": "a"}, capacity=2.0)


class TaskRegistry:
    """Has the tasks of the last assignment; a `stubborn` one keeps all earlier ones."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.target: dict[str, TargetState] = {}
        self.takes = 0
        self.stubborn = False
        self.said: Diagnostic | None = None
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self.held)

    def assign(self, tasks: Iterable[Any], kept: dict[str, Any]) -> None:
        self.takes += 1
        wanted = {one.plan.task_id: one.epoch for one in tasks}
        wanted |= {id_: keep.epoch for id_, keep in kept.items()}
        self.target = {id_: keep.target_state for id_, keep in kept.items()}
        self.held = {**self.held, **wanted} if self.stubborn else wanted
        self._news.set()

    def let_go(self) -> None:
        self.held.clear()
        self._news.set()

    def take_replan_requests(self) -> dict[str, str]:
        return {}

    def fingerprints(self) -> dict[str, tuple[object, ...]]:
        return {id_: (epoch, self.said) for id_, epoch in self.held.items()}

    def status(self, id_: str) -> TaskStatus:
        return TaskStatus(id_, "orders", self.held[id_], TaskState.RUNNING, self.said)

    async def changes(self) -> AsyncIterator[None]:
        while True:
            await self._news.wait()
            self._news.clear()
            yield


class Scheduler(api.SchedulerServiceServicer):
    """Keeps the reports, and sends what a test puts into `say`. `refuse` ends sessions."""

    def __init__(self) -> None:
        self.reports: list[pb.SessionRequest] = []
        self._held: dict[str, int] = {}
        self.sessions = self.open = 0
        self.say: asyncio.Queue[pb.SessionResponse | None] = asyncio.Queue()
        self.refuse: Exception | None = None

    async def Session(self, requests: Any, context: Any) -> AsyncIterator[pb.SessionResponse]:
        self.sessions += 1
        if self.refuse is not None:
            raise self.refuse
        self.open += 1
        listening = asyncio.ensure_future(self._listen(requests))
        try:
            while (frame := await self.say.get()) is not None:
                yield frame
        finally:
            self.open -= 1
            listening.cancel()

    async def _listen(self, requests: Any) -> None:
        async for report in requests:
            self.reports.append(report)
            if not report.partial:
                self._held.clear()
            for id_ in report.released_tasks:
                del self._held[id_]
            self._held |= {task.task_id: task.epoch for task in report.tasks}

    @property
    def last(self) -> pb.SessionRequest:
        return self.reports[-1] if self.reports else pb.SessionRequest()

    def held(self) -> dict[str, int]:
        """Return the tasks that the worker holds, as of the last report."""
        return dict(self._held)


class Bench:
    """A session, its scheduler, and its task registry."""

    def __init__(self, folder: Path, scheduler: Scheduler, interval_s: float) -> None:
        self.folder, self.scheduler, self.task_registry = folder, scheduler, TaskRegistry()
        self.places = [f"unix:{folder}/s"]
        self.client = SchedulerClient(lambda: self.places)
        self.session = SchedulerSession(self.client, self.task_registry, WHO, interval_s)


def assignment(revision: int, more: bool = False, **tasks: int) -> pb.SessionResponse:
    messages = [
        worker_pb.StartTaskRequest(
            connector=CONNECTOR.to_proto(Connector("orders", {}, generation="g")),
            plan=PLAN.to_proto(TaskPlan(id_, (Partition({"n": id_}),))),
            epoch=epoch,
        )
        for id_, epoch in tasks.items()
    ]
    return pb.SessionResponse(
        revision=revision, tasks=messages, more=more, takes_partial_requests=True
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "MAX_PAUSE_S", 0.05)


@pytest.fixture
def talking(tmp_path: Path) -> Callable[..., None]:
    """Runs a test with a session that runs."""

    def run(test: Callable[[Bench], Awaitable[None]], interval_s: float = 60.0) -> None:
        async def main() -> None:
            scheduler, server = Scheduler(), Server(f"unix:{tmp_path}/s", grace_s=0.1)
            server.add(api.add_SchedulerServiceServicer_to_server, scheduler)
            bench = Bench(tmp_path, scheduler, interval_s)
            async with asyncio.timeout(60), server, bench.client:
                running = asyncio.create_task(bench.session.run())
                try:
                    await test(bench)
                finally:
                    running.cancel()
                    with suppress(asyncio.CancelledError):
                        await running

        asyncio.run(main())

    return run


def test_the_worker_sends_the_first_report_with_its_identity(talking):
    async def test(bench):
        await until(lambda: bench.scheduler.reports, "it speaks")
        first = bench.scheduler.reports[0]
        assert (first.worker_id, first.name, first.address) == ("w-1", "one", "unix:/w")
        assert (dict(first.labels), first.capacity, first.draining) == ({"zone": "a"}, 2.0, False)
        assert (first.seen_revision, list(first.tasks)) == (0, [])

    talking(test)


def test_an_assignment_is_applied_before_it_is_reported_as_seen(talking):
    """A report that has seen an assignment and does not name one of its tasks would mean that the
    task is lost.
    """

    async def test(bench):
        bench.scheduler.say.put_nowait(assignment(7, a=5, b=6))
        await until(lambda: bench.scheduler.last.seen_revision == 7, "it is seen")
        assert bench.scheduler.held() == {"a": 5, "b": 6}
        for report in bench.scheduler.reports:
            assert report.seen_revision == 0 or len(report.tasks) == 2

    talking(test)


def test_an_assignment_of_several_frames_is_applied_with_its_last_one(talking):
    async def test(bench):
        say = bench.scheduler.say
        say.put_nowait(assignment(7, more=True, a=5))
        say.put_nowait(assignment(7, more=True, b=6))
        kept = pb.KeptTask(task_id="k", epoch=2, target_state=int(TargetState.PAUSED))
        say.put_nowait(pb.SessionResponse(revision=7, kept=[kept]))
        await until(lambda: bench.scheduler.last.seen_revision == 7, "it is seen")
        assert bench.task_registry.takes == 1
        assert bench.scheduler.held() == {"a": 5, "b": 6, "k": 2}
        assert bench.task_registry.target == {"k": TargetState.PAUSED}

    talking(test)


def test_a_report_stays_one_message_however_long_the_error_messages_are(talking):
    async def test(bench):
        bench.task_registry.said = RetriableError("sink.away", "x" * (6 << 20)).diagnostic
        bench.scheduler.say.put_nowait(assignment(7, a=5, b=6, c=6))
        await until(lambda: bench.scheduler.last.seen_revision == 7, "it is seen")
        assert {task.diagnostic.code for task in bench.scheduler.last.tasks} == {"sink.away"}
        assert bench.scheduler.last.ByteSize() < 10_000

    talking(test)


def test_reports_that_are_costly_come_more_seldom_but_at_the_interval_at_least():
    assert module.report_pause_s(0.02, 2.0) == pytest.approx(0.02 * module.REPORT_PACE)
    assert module.report_pause_s(30.0, 2.0) == 2.0


def test_each_report_is_followed_by_its_pause(talking, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "report_pause_s", lambda *of: asked.append(of) or 0.0)

    async def test(bench):
        await until(lambda: len(asked) == len(bench.scheduler.reports) > 0, "a report")
        assert all(spent >= 0 and interval > 0 for spent, interval in asked)

    talking(test)


def test_requests_are_whole_until_the_scheduler_says_that_it_takes_partial_ones(talking):
    async def test(bench):
        older = assignment(7, a=5)
        older.takes_partial_requests = False  # a scheduler of an earlier version
        bench.scheduler.say.put_nowait(older)
        await until(lambda: bench.scheduler.last.seen_revision == 7, "it is seen")
        assert not any(report.partial for report in bench.scheduler.reports)
        bench.scheduler.say.put_nowait(assignment(8, a=5, b=6))
        await until(lambda: bench.scheduler.last.seen_revision == 8, "it is seen")
        assert bench.scheduler.last.partial

    talking(test)


def test_frames_of_a_superseded_assignment_are_discarded(talking):
    async def test(bench):
        bench.scheduler.say.put_nowait(assignment(7, more=True, a=5))
        bench.scheduler.say.put_nowait(assignment(8, b=6))
        await until(lambda: bench.scheduler.last.seen_revision == 8, "it is seen")
        assert bench.scheduler.held() == {"b": 6}

    talking(test)


def test_an_older_assignment_is_ignored(talking):
    """Invariant 4: a late assignment of an earlier leader changes nothing."""

    async def test(bench):
        bench.scheduler.say.put_nowait(assignment(9, a=5))
        await until(lambda: bench.scheduler.last.seen_revision == 9, "it is seen")
        bench.scheduler.say.put_nowait(assignment(8, b=4))
        bench.scheduler.say.put_nowait(assignment(10, c=10))
        await until(lambda: bench.scheduler.last.seen_revision == 10, "the newer one is seen")
        assert bench.task_registry.takes == 2
        assert all("b" not in {t.task_id for t in r.tasks} for r in bench.scheduler.reports)

    talking(test)


def test_the_next_session_starts_with_a_report_of_all_tasks(talking):
    """Another leader restarts nothing, because the first report names all tasks."""

    async def test(bench):
        bench.scheduler.say.put_nowait(assignment(7, a=5))
        await until(lambda: bench.scheduler.last.seen_revision == 7, "it is seen")
        told = len(bench.scheduler.reports)
        bench.session.restart()
        await until(lambda: len(bench.scheduler.reports) > told, "it speaks again")
        first = bench.scheduler.reports[told]
        assert (first.seen_revision, [t.task_id for t in first.tasks]) == (7, ["a"])
        assert (bench.scheduler.sessions, bench.task_registry.held) == (2, {"a": 5})
        await until(lambda: bench.scheduler.open == 1, "the old session has ended")

    talking(test)


@pytest.mark.parametrize("refused", [True, False])
def test_a_session_that_ends_is_followed_by_another(talking, refused):
    async def test(bench):
        await until(lambda: bench.scheduler.reports, "it speaks")
        bench.scheduler.refuse = RetriableError("scheduler.away", "a moment") if refused else None
        bench.scheduler.say.put_nowait(None)
        await until(lambda: bench.scheduler.sessions >= 3 or not refused, "it tries again")
        bench.scheduler.refuse = None
        told = len(bench.scheduler.reports)
        await until(lambda: len(bench.scheduler.reports) > told, "it speaks again")

    talking(test)


def test_the_named_leader_is_called(talking):
    async def test(bench):
        other, server = Scheduler(), Server(f"unix:{bench.folder}/other", grace_s=0.1)
        server.add(api.add_SchedulerServiceServicer_to_server, other)
        async with server:
            bench.scheduler.refuse = not_leader(server.address)
            bench.session.restart()
            await until(lambda: bench.scheduler.sessions, "the first one was asked")
            await until(lambda: other.reports, "the leader was found")
            assert bench.places == [f"unix:{bench.folder}/s"]

    talking(test)


def test_metrics_are_reported_at_an_interval(talking):
    talking(lambda b: until(lambda: len(b.scheduler.reports) >= 4, "four reports"), interval_s=0.02)


def test_a_drain_ends_when_the_scheduler_knows_that_no_task_is_left(talking):
    async def test(bench):
        bench.scheduler.say.put_nowait(assignment(7, a=5))
        await until(lambda: bench.scheduler.last.seen_revision == 7, "it is seen")
        draining = asyncio.create_task(bench.session.drain())
        await until(lambda: bench.scheduler.last.draining, "it asks to be emptied")
        assert bench.scheduler.held() == {"a": 5}
        bench.task_registry.stubborn = True  # it takes its time
        bench.scheduler.say.put_nowait(assignment(8))
        await until(lambda: bench.scheduler.last.seen_revision == 8, "it is seen")
        assert not draining.done()
        bench.task_registry.let_go()
        await draining
        await until(lambda: not bench.scheduler.held(), "the scheduler knows")

    talking(test)
