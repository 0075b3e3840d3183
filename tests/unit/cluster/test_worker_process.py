"""A worker as a member: it follows the leader until its drain is done, and fences itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.scheduler.v1 import scheduler_service_pb2_grpc as api
from penstock.client import SchedulerClient
from penstock.cluster.worker_process import ClusterMembership, SchedulerRoute, run_with_leader
from penstock.etcd import Leader
from penstock.model.connector import TaskState, TaskStatus
from penstock.rpc.server import Server
from penstock.worker.runtime import scheduler_session as module
from penstock.worker.runtime.scheduler_session import WorkerIdentity
from support.waiting import until

WHO = WorkerIdentity("unix:/w", "one", "w-1")


class Scheduler(api.SchedulerServiceServicer):
    """A leading scheduler: it takes all tasks from a worker that drains, unless it `hangs`."""

    def __init__(self, folder: Path, name: str, *, hangs: bool = False) -> None:
        self.hangs, self.heard = hangs, 0
        self.server = Server(f"unix:{folder}/{name}", grace_s=0.1)
        self.server.add(api.add_SchedulerServiceServicer_to_server, self)

    @property
    def address(self) -> str:
        return self.server.address

    async def Session(  # noqa: N802
        self, requests: Any, context: Any
    ) -> AsyncIterator[pb.SessionResponse]:
        async for report in requests:
            self.heard += 1
            while report.draining and self.hangs:
                await asyncio.sleep(0.003)
            if report.draining and report.tasks:
                yield pb.SessionResponse(revision=report.seen_revision + 1)


class Election:
    """Yields the leaders that a test elects."""

    def __init__(self, leader: str) -> None:
        self.news: asyncio.Queue[Leader | None] = asyncio.Queue()
        self.elect(leader, 1)

    def elect(self, leader: str, revision: int) -> None:
        self.news.put_nowait(Leader(leader, revision))

    async def observe(self) -> AsyncIterator[Leader | None]:
        while True:
            yield await self.news.get()


class TaskRegistry:
    """One task, until it is released."""

    def __init__(self) -> None:
        self.held, self.cut, self.taken_after = ["a"], False, False
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self.held)

    def assign(self, tasks: Any, kept: Any) -> None:
        self.taken_after = self.taken_after or self.cut
        self.held.clear()
        self._news.set()

    async def release(self, *, immediately: bool = False) -> None:
        self.cut = self.cut or (immediately and bool(self.held))
        for _ in range(100):  # it takes a moment, in which a session would bring something new
            await asyncio.sleep(0.001)
        self.held.clear()

    def take_replan_requests(self) -> dict[str, str]:
        return {}

    def fingerprints(self) -> dict[str, tuple[object, ...]]:
        return dict.fromkeys(self.held, (5,))

    def status(self, id_: str) -> TaskStatus:
        return TaskStatus(id_, "orders", 5, TaskState.RUNNING)

    async def changes(self) -> AsyncIterator[None]:
        while True:
            await self._news.wait()
            self._news.clear()
            yield


class Bench:
    """A worker's part in a cluster whose schedulers are `schedulers`; the first one leads."""

    def __init__(self, schedulers: list[Scheduler], drain: float) -> None:
        members = {s.address: SimpleNamespace(address=s.address) for s in schedulers}
        self.discovery: Any = SimpleNamespace(current=SimpleNamespace(members=members))
        self.way = SchedulerRoute(self.discovery)
        self.client, self.task_registry = SchedulerClient(self.way), TaskRegistry()
        self.election: Any = Election(schedulers[0].address)
        self.lost = asyncio.Event()

        async def registered() -> Any:
            return SimpleNamespace(lost=self.lost)

        instance: Any = SimpleNamespace(
            membership=SimpleNamespace(wait_until_registered=registered, key="members/worker/w-1"),
            settings=SimpleNamespace(drain=drain),
        )
        task_registry: Any = self.task_registry
        self.taking = ClusterMembership(instance, self.client, task_registry, WHO)

    async def run(self) -> None:
        await run_with_leader(self.way.follow(self.election, self.taking), self.taking.run())


@asynccontextmanager
async def working(*schedulers: Scheduler, drain: float) -> AsyncIterator[tuple[Bench, Callable]]:
    """Yield the bench, and what ends it as SIGTERM does."""
    bench = Bench(list(schedulers), drain)
    async with asyncio.timeout(120), bench.client:
        running = asyncio.create_task(bench.run())

        async def ended() -> None:
            with pytest.raises(asyncio.CancelledError):
                await running

        await until(lambda: schedulers[0].heard, "the leader has a session")
        yield bench, lambda: (running.cancel(), asyncio.create_task(ended()))[1]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "MAX_PAUSE_S", 0.05)


def test_sessions_go_to_the_elected_leader_while_the_old_one_hangs_and_is_listed(tmp_path):
    async def main():
        old, new = Scheduler(tmp_path, "old", hangs=True), Scheduler(tmp_path, "new")
        async with old.server, new.server, working(old, new, drain=20) as (bench, _):
            bench.election.elect(new.address, 2)
            await until(lambda: new.heard, "the new leader has a session")
            assert bench.client.address == new.address

    asyncio.run(main())


def test_a_drain_follows_the_next_leader(tmp_path):
    """The leader ends together with the machine that drains, and takes no task."""

    async def main():
        old, new = Scheduler(tmp_path, "old", hangs=True), Scheduler(tmp_path, "new")
        async with old.server, new.server, working(old, new, drain=20) as (bench, terminate):
            ended = terminate()
            await asyncio.sleep(0)
            bench.election.elect(new.address, 2)
            await ended
            assert not bench.task_registry.held
            assert not bench.task_registry.cut

    asyncio.run(main())


def test_other_schedulers_are_tried_when_the_known_leader_is_gone(tmp_path):
    async def main():
        old, new = Scheduler(tmp_path, "old"), Scheduler(tmp_path, "new")
        async with old.server, new.server, working(old, new, drain=20) as (bench, _):
            assert bench.way() == [old.address, new.address]
            await old.server.stop()
            await until(lambda: new.heard, "another one is asked")

    asyncio.run(main())


def test_a_worker_that_loses_its_membership_during_a_drain_cancels_its_tasks(tmp_path):
    """Invariant 4: its lease ends, and other workers start its tasks. Nothing new is
    assigned then.
    """

    async def main():
        old = Scheduler(tmp_path, "old", hangs=True)
        async with old.server, working(old, drain=300) as (bench, terminate):
            ended = terminate()
            await until(lambda: bench.taking._session._draining, "it drains")
            assert bench.task_registry.held
            bench.lost.set()
            await until(lambda: bench.task_registry.cut, "they are cut off")
            old.hangs = False
            await ended
            assert not bench.task_registry.taken_after

    asyncio.run(main())


def test_tasks_that_a_drain_has_not_moved_in_time_are_cancelled_before_the_membership_ends(
    tmp_path,
):
    async def main():
        old = Scheduler(tmp_path, "old", hangs=True)
        async with old.server, working(old, drain=0.2) as (bench, terminate):
            await terminate()
            assert bench.task_registry.cut

    asyncio.run(main())
