"""A worker as a member: it follows who leads until its drain is done, and fences itself."""

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
from penstock.cluster.worker_process import Taking, Way, taking_part
from penstock.etcd import Leader
from penstock.model.connector import TaskState, TaskStatus
from penstock.rpc import Server
from penstock.worker.runtime import scheduler_session as module
from penstock.worker.runtime.scheduler_session import Identity
from support.waiting import until

WHO = Identity("unix:/w", "one", "w-1")


class Scheduler(api.SchedulerServiceServicer):
    """One that leads: it takes everything from who asks to be emptied, unless it `hangs`."""

    def __init__(self, folder: Path, name: str, *, hangs: bool = False) -> None:
        self.hangs, self.heard = hangs, 0
        self.server = Server(f"unix:{folder}/{name}", grace=0.1)
        self.server.add(api.add_SchedulerServiceServicer_to_server, self)

    @property
    def address(self) -> str:
        return self.server.address

    async def Session(self, requests: Any, context: Any) -> AsyncIterator[pb.SessionResponse]:  # noqa: N802
        async for report in requests:
            self.heard += 1
            while report.draining and self.hangs:
                await asyncio.sleep(0.003)
            if report.draining and report.tasks:
                yield pb.SessionResponse(revision=report.seen_revision + 1)


class Election:
    """Tells what a test elects."""

    def __init__(self, leader: str) -> None:
        self.news: asyncio.Queue[Leader | None] = asyncio.Queue()
        self.elect(leader, 1)

    def elect(self, leader: str, revision: int) -> None:
        self.news.put_nowait(Leader(leader, revision))

    async def observe(self) -> AsyncIterator[Leader | None]:
        while True:
            yield await self.news.get()


class Holdings:
    """One task, until it is let go."""

    def __init__(self) -> None:
        self.held, self.cut, self.taken_after = ["a"], False, False
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self.held)

    def take(self, tasks: Any, kept: Any) -> None:
        self.taken_after = self.taken_after or self.cut
        self.held.clear()
        self._news.set()

    async def release(self, *, at_once: bool = False) -> None:
        self.cut = self.cut or (at_once and bool(self.held))
        for _ in range(100):  # it takes a moment, in which a session would bring something new
            await asyncio.sleep(0.001)
        self.held.clear()

    def wishes(self) -> dict[str, str]:
        return {}

    def statuses(self, *, monitors: bool = False) -> list[TaskStatus]:
        return [TaskStatus(id_, "orders", 5, TaskState.RUNNING) for id_ in self.held]

    async def watch(self, every: float) -> AsyncIterator[list[TaskStatus]]:
        while True:
            self._news.clear()
            yield self.statuses()
            await self._news.wait()


class Bench:
    """A worker's part in a cluster whose schedulers are `schedulers`; the first one leads."""

    def __init__(self, schedulers: list[Scheduler], drain: float) -> None:
        members = {s.address: SimpleNamespace(address=s.address) for s in schedulers}
        self.discovery: Any = SimpleNamespace(now=SimpleNamespace(members=members))
        self.way = Way(self.discovery)
        self.client, self.holdings = SchedulerClient(self.way), Holdings()
        self.election: Any = Election(schedulers[0].address)
        self.lost = asyncio.Event()

        async def registered() -> Any:
            return SimpleNamespace(lost=self.lost)

        instance: Any = SimpleNamespace(
            membership=SimpleNamespace(registered=registered, key="members/worker/w-1"),
            settings=SimpleNamespace(drain=drain),
        )
        holdings: Any = self.holdings
        self.taking = Taking(instance, self.client, holdings, WHO)

    async def run(self) -> None:
        await taking_part(self.way.follow(self.election, self.taking), self.taking.run())


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
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)


def test_sessions_go_to_who_is_elected_though_the_old_leader_hangs_and_is_listed(tmp_path):
    async def main():
        old, new = Scheduler(tmp_path, "old", hangs=True), Scheduler(tmp_path, "new")
        async with old.server, new.server, working(old, new, drain=20) as (bench, _):
            bench.election.elect(new.address, 2)
            await until(lambda: new.heard, "the new leader has a session")
            assert bench.client.address == new.address

    asyncio.run(main())


def test_a_drain_follows_the_next_leader(tmp_path):
    """The leader ends with the machine that drains, and takes nothing from anybody."""

    async def main():
        old, new = Scheduler(tmp_path, "old", hangs=True), Scheduler(tmp_path, "new")
        async with old.server, new.server, working(old, new, drain=20) as (bench, terminate):
            ended = terminate()
            await asyncio.sleep(0)
            bench.election.elect(new.address, 2)
            await ended
            assert not bench.holdings.held
            assert not bench.holdings.cut

    asyncio.run(main())


def test_a_leader_that_is_gone_before_the_news_of_it_is_not_the_only_one_to_be_asked(tmp_path):
    async def main():
        old, new = Scheduler(tmp_path, "old"), Scheduler(tmp_path, "new")
        async with old.server, new.server, working(old, new, drain=20) as (bench, _):
            assert bench.way() == [old.address, new.address]
            await old.server.stop()
            await until(lambda: new.heard, "another one is asked")

    asyncio.run(main())


def test_a_worker_that_is_no_member_any_more_cuts_its_tasks_off_while_it_is_drained(tmp_path):
    """Invariant 4: its lease ends, and others begin with them. Nothing new is taken in then."""

    async def main():
        old = Scheduler(tmp_path, "old", hangs=True)
        async with old.server, working(old, drain=300) as (bench, terminate):
            ended = terminate()
            await until(lambda: bench.taking._session._draining, "it drains")
            assert bench.holdings.held
            bench.lost.set()
            await until(lambda: bench.holdings.cut, "they are cut off")
            old.hangs = False
            await ended
            assert not bench.holdings.taken_after

    asyncio.run(main())


def test_what_a_drain_has_not_moved_in_time_is_cut_off_before_the_membership_ends(tmp_path):
    async def main():
        old = Scheduler(tmp_path, "old", hangs=True)
        async with old.server, working(old, drain=0.2) as (bench, terminate):
            await terminate()
            assert bench.holdings.cut

    asyncio.run(main())
