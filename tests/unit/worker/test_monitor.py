"""Monitors on a worker: what they hear goes up as a wish, what is planned comes down as news."""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.model.connector import Connector, Partition, TargetState, TaskPlan, TaskState
from penstock.model.errors import ConfigError, RetriableError
from penstock.worker.config.resolved_config import Watched
from penstock.worker.planning import monitor
from penstock.worker.planning import monitor as monitor_module
from penstock.worker.planning.monitor import Monitor, MonitorSpec, TopicWatch
from penstock.worker.runtime.scheduler_session import Identity, Session
from penstock.worker.runtime.task_registry import Holdings
from penstock.worker.task.supervisor import Assigned, RestartPolicy
from support.waiting import until

QUICK = RestartPolicy(first=0.01, longest=0.02)


def assigned(epoch: int = 7, plan_epoch: int = 5, **connector: object) -> Assigned:
    made = Connector("orders", {}, generation="g1", **connector)
    return Assigned(made, TaskPlan("g1-monitor"), epoch, plan_epoch)


class FakeWatch:
    """Says what a test wants."""

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

    async def tell(self, plans: Sequence[TaskPlan]) -> None:
        self.told.append(plans)

    async def close(self) -> None:
        self.closed += 1


class Room:
    """A worker's holdings with a monitor of a fake watch."""

    def __init__(self) -> None:
        self.watches: list[FakeWatch] = []
        self.plans = [TaskPlan("g1-0")]
        self.holdings = Holdings(self._made)
        self.secret = asyncio.Event()

    @property
    def watch(self) -> FakeWatch:
        return self.watches[-1]

    @property
    def state(self) -> TaskState:
        (status,) = self.holdings.statuses(monitors=True)
        return status.state

    async def running(self) -> None:
        await until(lambda: self.watches and self.state is TaskState.RUNNING, "it watches")

    def _made(self, one: Assigned) -> Monitor:
        spec = MonitorSpec(self._watch, self._plans, lambda why: self.holdings.wish("g1", why))
        return Monitor(one, spec, QUICK, self.holdings.changed)

    async def _watch(self) -> Watched:
        self.watches.append(FakeWatch())
        return Watched(self.watch, self)

    async def changed(self) -> None:
        """Return when a secret is another one."""
        await self.secret.wait()

    async def _plans(self) -> list[TaskPlan]:
        return self.plans


@pytest.fixture
def room():
    """Runs a test in a room that holds one monitor."""

    def run(test) -> None:
        async def main() -> None:
            room = Room()
            room.holdings.take([assigned()], {})
            async with asyncio.timeout(60):
                await room.running()
                await test(room)
                await room.holdings.release()
            assert all(watch.closed for watch in room.watches)

        asyncio.run(main())

    return run


def test_a_wish_is_kept_until_it_was_reported_once(room):
    async def test(room):
        room.watch.says.put_nowait("two files")
        wished = {}
        await until(lambda: wished.update(room.holdings.wishes()) or wished, "a wish")
        assert wished == {"g1": "two files"}
        assert room.holdings.wishes() == {}

    room(test)


def test_wishes_are_passed_on_no_faster_than_they_are_followed(room, monkeypatch):
    monkeypatch.setattr(monitor_module, "REST", 3600.0)

    async def test(room):
        for n in range(3):
            room.watch.says.put_nowait(str(n))
        await until(room.holdings.wishes, "a wish")
        await asyncio.sleep(0.05)
        assert room.watch.says.qsize() == 2

    room(test)


def test_it_is_told_the_plans_in_force_and_new_ones(room):
    async def test(room):
        assert room.watch.told == [room.plans]
        room.plans = [TaskPlan("g1-0"), TaskPlan("g1-1")]
        room.holdings.take([assigned()], {})
        room.holdings.take([assigned(plan_epoch=6)], {})
        await until(lambda: len(room.watch.told) == 2, "it was told")
        assert room.watch.told[-1] == room.plans
        assert len(room.watches) == 1  # news are no reason to begin anew

    room(test)


def test_another_epoch_is_another_monitor(room):
    async def test(room):
        room.holdings.take([assigned(epoch=8)], {})
        await until(lambda: len(room.watches) == 2, "another one")
        await room.running()
        assert [watch.closed for watch in room.watches] == [1, 0]

    room(test)


def test_a_monitor_that_is_lost_is_made_anew_after_a_pause(room):
    async def test(room):
        room.watch.says.put_nowait(RetriableError("plugin.crashed", "it is gone"))
        await until(lambda: len(room.watches) == 2, "another one")
        await room.running()
        (status,) = room.holdings.statuses(monitors=True)
        assert (status.restarts, room.watches[0].closed) == (1, 1)

    room(test)


def test_an_error_for_people_fails_it_and_touches_nothing_else(room):
    async def test(room):
        room.watch.says.put_nowait(ConfigError("shop.no_such", "there is no database"))
        await until(lambda: room.state is TaskState.FAILED, "it failed")
        (status,) = room.holdings.statuses(monitors=True)
        assert status.diagnostic is not None
        assert status.diagnostic.code == "shop.no_such"
        assert len(room.holdings) == 1  # held until it is let go

    room(test)


def test_a_connector_that_is_paused_is_watched_on(room):
    async def test(room):
        room.holdings.take([assigned(target_state=TargetState.PAUSED)], {})
        room.watch.says.put_nowait("found")
        await until(room.holdings.wishes, "a wish")
        assert room.state is TaskState.RUNNING

    room(test)


def test_a_monitor_is_none_of_the_tasks(room):
    async def test(room):
        assert room.holdings.statuses() == []
        assert [one.task_id for one in room.holdings.statuses(monitors=True)] == ["g1-monitor"]

    room(test)


# ── the session ──


class FakeScheduler:
    """Answers a session with one assignment, and keeps what is reported."""

    def __init__(self) -> None:
        self.reports: list[pb.SessionRequest] = []

    async def session(self, reports):
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


def test_a_session_brings_monitors_and_takes_their_wishes():
    async def main() -> None:
        room, scheduler = Room(), FakeScheduler()
        session = Session(scheduler, room.holdings, Identity("unix:/w"), every=60)
        running = asyncio.create_task(session.run())
        async with asyncio.timeout(60):
            await room.running()
            room.watch.says.put_nowait("two files")
            await until(lambda: any(r.monitors for r in scheduler.reports), "the wish")
            await until(
                lambda: scheduler.reports[-1].tasks[0].state == TaskState.RUNNING, "its state"
            )
            room.holdings.changed()
            count = len(scheduler.reports)
            await until(lambda: len(scheduler.reports) > count, "another report")
            running.cancel()
            await room.holdings.release()
        wishes = [(w.generation, w.replan) for r in scheduler.reports for w in r.monitors]
        assert wishes == [("g1", "two files")]
        assert scheduler.reports[-1].seen_revision == 9

    asyncio.run(main())


# ── topics ──


def topic(partitions: int) -> list[Partition]:
    return [Partition({"topic": "t", "partition": n}) for n in range(partitions)]


def test_a_topic_that_is_made_with_more_partitions_than_planned_is_a_reason(monkeypatch):
    monkeypatch.setattr(monitor, "FIRST_LOOK", 0.001)
    there = topic(1)

    async def look() -> list[Partition]:
        return there

    async def main() -> None:
        watch = TopicWatch(look)
        await watch.open([TaskPlan("g1-0", tuple(topic(1)))])
        wishes = aiter(watch)
        waiting = asyncio.ensure_future(anext(wishes))
        await asyncio.sleep(0.02)
        assert not waiting.done()  # nothing is different
        there[:] = topic(4)
        assert await waiting == "3 partitions of topics appeared, 0 are gone"
        assert await anext(wishes)  # again, while it is not followed
        await watch.tell([TaskPlan("g1-0", tuple(topic(2))), TaskPlan("g1-1", tuple(topic(4)[2:]))])
        waiting = asyncio.ensure_future(anext(wishes))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        waiting.cancel()
        await watch.close()

    asyncio.run(main())


def test_a_monitor_whose_secrets_changed_watches_anew(room):
    async def test(room):
        first = room.watch
        room.secret.set()
        await until(lambda: room.watch is not first, "another watch")
        room.secret.clear()
        await room.running()
        assert first.closed

    room(test)
