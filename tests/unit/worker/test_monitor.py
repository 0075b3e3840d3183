"""Monitors on a worker: replan requests go to the scheduler, new plans come back."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.connector_config.settings import TASK_RESTARTS
from penstock.model.connector import Connector, Partition, TargetState, TaskPlan, TaskState
from penstock.model.errors import ConfigError, RetriableError
from penstock.worker import task_plans as monitor
from penstock.worker.config.resolved_config import WatchSpec
from penstock.worker.runtime.scheduler_session import SchedulerSession, WorkerIdentity
from penstock.worker.runtime.task_registry import TaskRegistry
from penstock.worker.task import monitor as monitor_module
from penstock.worker.task.monitor import Monitor, MonitorSpec
from penstock.worker.task.supervisor import Assignment
from penstock.worker.task_plans import TopicWatch
from support.waiting import until

QUICK = replace(TASK_RESTARTS, first_delay_s=0.01, max_delay_s=0.02)


def assigned(epoch: int = 7, plan_epoch: int = 5, **connector: object) -> Assignment:
    made = Connector("orders", {}, generation="g1", **connector)
    return Assignment(made, TaskPlan("g1-monitor"), epoch, plan_epoch)


class FakeWatch:
    """Yields what a test puts into it."""

    def __init__(self) -> None:
        self.told: list[Sequence[TaskPlan]] = []
        self.says: asyncio.Queue[str | Exception] = asyncio.Queue()
        self.closed = 0

    async def open(self, plans: Sequence[TaskPlan]) -> None:
        self.told.append(plans)

    async def __aiter__(self):
        while True:
            said = await self.says.get()
            if isinstance(said, Exception):
                raise said
            yield said

    async def set_plans(self, plans: Sequence[TaskPlan]) -> None:
        self.told.append(plans)

    async def close(self) -> None:
        self.closed += 1


class Room:
    """A task registry with a monitor of a fake watch."""

    def __init__(self) -> None:
        self.watches: list[FakeWatch] = []
        self.plans = [TaskPlan("g1-0")]
        self.failures: list[Exception] = []
        self.task_registry = TaskRegistry(self._made)
        self.secret = asyncio.Event()

    @property
    def watch(self) -> FakeWatch:
        return self.watches[-1]

    @property
    def state(self) -> TaskState:
        status = self.task_registry.status("g1-monitor")
        return status.state

    async def running(self) -> None:
        await until(lambda: self.watches and self.state is TaskState.RUNNING, "it watches")

    def _made(self, one: Assignment) -> Monitor:
        spec = MonitorSpec(
            self._watch, self._plans, lambda why: self.task_registry.request_replan("g1", why)
        )
        return Monitor(one, spec, QUICK, self.task_registry.notify_changed)

    async def _watch(self) -> WatchSpec:
        self.watches.append(FakeWatch())
        return WatchSpec(self.watch, self)

    async def wait_for_change(self) -> None:
        """Return when a secret changes."""
        await self.secret.wait()

    async def _plans(self) -> list[TaskPlan]:
        if self.failures:
            raise self.failures.pop()
        return self.plans


@pytest.fixture
def room():
    """Runs a test in a registry that has one monitor."""

    def run(test) -> None:
        async def main() -> None:
            room = Room()
            room.task_registry.assign([assigned()], {})
            async with asyncio.timeout(60):
                await room.running()
                await test(room)
                await room.task_registry.release()
            assert all(watch.closed for watch in room.watches)

        asyncio.run(main())

    return run


def test_a_replan_request_is_kept_until_it_was_reported_once(room):
    async def test(room):
        room.watch.says.put_nowait("two files")
        wished = {}
        await until(
            lambda: wished.update(room.task_registry.take_replan_requests()) or wished, "a wish"
        )
        assert wished == {"g1": "two files"}
        assert room.task_registry.take_replan_requests() == {}

    room(test)


def test_replan_requests_are_not_sent_faster_than_they_are_served(room, monkeypatch):
    monkeypatch.setattr(monitor_module, "REPLAN_INTERVAL_S", 3600.0)

    async def test(room):
        for n in range(3):
            room.watch.says.put_nowait(str(n))
        await until(room.task_registry.take_replan_requests, "a wish")
        await asyncio.sleep(0.05)
        assert room.watch.says.qsize() == 2

    room(test)


def test_a_monitor_gets_the_plans_in_force_and_new_ones(room):
    async def test(room):
        assert room.watch.told == [room.plans]
        room.plans = [TaskPlan("g1-0"), TaskPlan("g1-1")]
        room.task_registry.assign([assigned()], {})
        room.task_registry.assign([assigned(plan_epoch=6)], {})
        await until(lambda: len(room.watch.told) == 2, "it was told")
        assert room.watch.told[-1] == room.plans
        assert len(room.watches) == 1  # news are no reason to begin anew

    room(test)


def test_a_change_of_the_leader_restarts_no_monitor_that_reads_plans(room):
    async def test(room):
        room.plans = [TaskPlan("g1-0"), TaskPlan("g1-1")]
        room.failures = [RetriableError("scheduler.not_leader", "nobody leads")]
        room.task_registry.assign([assigned(plan_epoch=6)], {})
        await until(lambda: len(room.watch.told) == 2, "it was told")
        assert not room.failures
        assert room.watch.told[-1] == room.plans
        status = room.task_registry.status("g1-monitor")
        assert (status.restarts, len(room.watches)) == (0, 1)

    room(test)


def test_plans_that_are_refused_fail_the_monitor(room):
    """The twin: what the test above waits for is only what passes."""

    async def test(room):
        room.failures = [ConfigError("rpc.denied", "this worker may not")]
        room.task_registry.assign([assigned(plan_epoch=6)], {})
        await until(lambda: room.state is TaskState.FAILED, "it failed")

    room(test)


def test_another_epoch_is_another_monitor(room):
    async def test(room):
        room.task_registry.assign([assigned(epoch=8)], {})
        await until(lambda: len(room.watches) == 2, "another one")
        await room.running()
        assert [watch.closed for watch in room.watches] == [1, 0]

    room(test)


def test_a_lost_watch_is_opened_again_after_a_delay(room):
    async def test(room):
        room.watch.says.put_nowait(RetriableError("plugin.crashed", "it is gone"))
        await until(lambda: len(room.watches) == 2, "another one")
        await room.running()
        status = room.task_registry.status("g1-monitor")
        assert (status.restarts, room.watches[0].closed) == (1, 1)

    room(test)


def test_a_permanent_error_fails_the_monitor_and_nothing_else(room):
    async def test(room):
        room.watch.says.put_nowait(ConfigError("shop.no_such", "there is no database"))
        await until(lambda: room.state is TaskState.FAILED, "it failed")
        status = room.task_registry.status("g1-monitor")
        assert status.diagnostic is not None
        assert status.diagnostic.code == "shop.no_such"
        assert len(room.task_registry) == 1  # held until it is let go

    room(test)


def test_a_paused_connector_is_still_watched(room):
    async def test(room):
        room.task_registry.assign([assigned(target_state=TargetState.PAUSED)], {})
        room.watch.says.put_nowait("found")
        await until(room.task_registry.take_replan_requests, "a wish")
        assert room.state is TaskState.RUNNING

    room(test)


def test_a_monitor_is_not_listed_as_a_task(room):
    async def test(room):
        assert room.task_registry.statuses() == []
        assert list(room.task_registry.fingerprints()) == ["g1-monitor"]

    room(test)


# ── the session ──


class FakeScheduler:
    """Answers a session with one assignment, and keeps the reports."""

    def __init__(self) -> None:
        self.reports: list[pb.SessionRequest] = []

    async def open_session(self, reports):
        pumping = asyncio.create_task(self._keep(reports))
        frame = pb.SessionResponse(revision=9)
        frame.monitors.add(task_id="g1-monitor", epoch=7, plan_epoch=5).connector.generation = "g1"
        try:
            yield frame
            await pumping
        finally:
            pumping.cancel()

    async def _keep(self, reports) -> None:
        async for report in reports:
            self.reports.append(report)


def test_a_session_assigns_monitors_and_reports_their_replan_requests():
    async def main() -> None:
        room, scheduler = Room(), FakeScheduler()
        session = SchedulerSession(
            scheduler, room.task_registry, WorkerIdentity("unix:/w"), interval_s=60
        )
        running = asyncio.create_task(session.run())
        async with asyncio.timeout(60):
            await room.running()
            room.watch.says.put_nowait("two files")
            await until(lambda: any(r.monitors for r in scheduler.reports), "the wish")
            await until(
                lambda: any(
                    task.state == TaskState.RUNNING for r in scheduler.reports for task in r.tasks
                ),
                "its state",
            )
            room.task_registry.notify_changed()
            count = len(scheduler.reports)
            await until(lambda: len(scheduler.reports) > count, "another report")
            running.cancel()
            await room.task_registry.release()
        wishes = [(w.generation, w.replan) for r in scheduler.reports for w in r.monitors]
        assert wishes == [("g1", "two files")]
        assert scheduler.reports[-1].seen_revision == 9

    asyncio.run(main())


# ── topics ──


def topic(partitions: int) -> list[Partition]:
    return [Partition({"topic": "t", "partition": n}) for n in range(partitions)]


def test_a_topic_with_more_partitions_than_planned_is_a_reason(monkeypatch):
    monkeypatch.setattr(monitor, "FIRST_POLL_S", 0.001)
    there = topic(1)

    async def list_partitions() -> list[Partition]:
        return there

    async def main() -> None:
        watch = TopicWatch(list_partitions)
        await watch.open([TaskPlan("g1-0", tuple(topic(1)))])
        wishes = aiter(watch)
        waiting = asyncio.ensure_future(anext(wishes))
        await asyncio.sleep(0.02)
        assert not waiting.done()  # nothing is different
        there[:] = topic(4)
        assert await waiting == "3 partitions of topics appeared, 0 disappeared"
        assert await anext(wishes)  # again, while it is not followed
        await watch.set_plans(
            [TaskPlan("g1-0", tuple(topic(2))), TaskPlan("g1-1", tuple(topic(4)[2:]))]
        )
        waiting = asyncio.ensure_future(anext(wishes))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        waiting.cancel()
        await watch.close()

    asyncio.run(main())


def test_a_monitor_whose_secrets_changed_restarts(room):
    async def test(room):
        first = room.watch
        room.secret.set()
        await until(lambda: room.watch is not first, "another watch")
        room.secret.clear()
        await room.running()
        assert first.closed

    room(test)
