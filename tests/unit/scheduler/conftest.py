"""A scheduler with a real store and a real config service, and with fake workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from penstock.api.config.v1.config_service_pb2_grpc import add_ConfigServiceServicer_to_server
from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.scheduler.v1.scheduler_service_pb2_grpc import (
    add_SchedulerServiceServicer_to_server,
)
from penstock.client import ConfigClient, SchedulerClient
from penstock.config import ConfigService
from penstock.model import faults
from penstock.model.admin import PlannedConnector
from penstock.model.connector import (
    ApplyAction,
    Connector,
    Partition,
    TargetState,
    TaskPlan,
    TaskState,
    TaskStatus,
)
from penstock.model.errors import Diagnostic, PenstockError
from penstock.rpc.server import Server
from penstock.scheduler import (
    ClusterSettings,
    Leader,
    LeaderSettings,
    Scheduler,
    SchedulerService,
)
from penstock.scheduler.leader.connector_plans import ConnectorPlans
from penstock.scheduler.state.restarts import RESTARTS
from penstock.store.sqlite import SqliteStore
from penstock.wire.worker import TASK_STATUS
from support.leadership import StoreLeadership
from support.waiting import until

QUICK = LeaderSettings(
    ClusterSettings(restart_policy=replace(RESTARTS, first_delay_s=0.01, max_delay_s=0.1)),
    session_lease_s=0.2,
)

PATIENT = replace(QUICK, session_lease_s=30.0)
"""For tests that go on between two sessions, however busy the machine is."""


class FakePlans:
    """Splits a connector into `partitions`, one a task; or fails. `more` partitions were added."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.more = 0
        self.payload = b""
        self.asked: list[str] = []
        self.applied: list[ApplyAction] = []
        self.last: list[dict[str, str] | None] = []

    async def apply(
        self, address: str, connector: Connector, action: ApplyAction, last: Connector | None
    ) -> None:
        self.applied.append(action)
        self.last.append(dict(last.config) if last else None)

    async def plan(self, address: str, connector: Connector) -> PlannedConnector:
        self.asked.append(address)
        if self.error is not None:
            raise self.error
        partitions = int(connector.config.get("partitions", "1")) + self.more
        found = (Partition({"p": n}, payload=self.payload) for n in range(partitions))
        plan = TaskPlan("", tuple(found))
        return PlannedConnector((plan,), monitor=connector.config.get("monitor") == "true")


class FakeWorker:
    """Takes assignments in over a real session, and says that all of it runs."""

    def __init__(self, id_: str, name: str = "", **rest: object) -> None:
        self.id, self.name, self.rest = id_, name or id_, rest
        self.held: dict[str, TaskStatus] = {}
        self.bodies: dict[str, str] = {}
        self.kept: set[str] = set()
        self.paused: set[str] = set()
        self.seen = 0
        self.starts: list[str] = []
        self.error: PenstockError | None = None
        self.stubborn: set[str] = set()
        self.monitors: dict[str, int] = {}
        self._found: list[pb.MonitorReport] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def connect(self, address: str) -> None:
        """Open a session; an older one is closed first."""
        assert self._task is None
        self.error = None
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._session(address))

    async def disconnect(self) -> None:
        """End the session without a word."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def set(
        self,
        task_id: str,
        state: TaskState,
        diagnostic: Diagnostic | None = None,
        restarts: int = 0,
    ) -> None:
        """Let a task be in a state."""
        self.held[task_id] = replace(
            self.held[task_id], state=state, diagnostic=diagnostic, restarts=restarts
        )
        self._news.set()

    def find(self, generation: str) -> None:
        """Let the monitor of a connector find something."""
        self._found.append(pb.MonitorReport(generation=generation, replan="found"))
        self._news.set()

    def give_in(self) -> None:
        """Let go of everything that was held too long."""
        for id_ in self.stubborn & self.held.keys():
            del self.held[id_]
        self.stubborn.clear()
        self._news.set()

    async def _session(self, address: str) -> None:
        try:
            async with SchedulerClient(address) as client:
                frames: list[pb.SessionResponse] = []
                async for frame in client.open_session(self._reports()):
                    frames.append(frame)
                    if not frame.more:
                        self._take(frames)
                        frames = []
        except PenstockError as error:
            self.error = error

    async def _reports(self) -> AsyncIterator[pb.SessionRequest]:
        before: dict[str, TaskStatus] | None = None
        while True:
            found, self._found = self._found, []
            held, known = dict(self.held), before or {}
            yield pb.SessionRequest(
                monitors=found,
                worker_id=self.id,
                name=self.name,
                address=f"unix:/{self.id}",
                seen_revision=self.seen,
                tasks=[
                    TASK_STATUS.to_proto(status)
                    for id_, status in held.items()
                    if status != known.get(id_)
                ],
                partial=before is not None,
                released_tasks=known.keys() - held.keys(),
                **self.rest,
            )
            before = held
            await self._news.wait()
            self._news.clear()

    def _take(self, frames: list[pb.SessionResponse]) -> None:
        self.seen = frames[0].revision
        wanted = {t.plan.task_id: t.epoch for frame in frames for t in frame.tasks}
        names = {t.plan.task_id: t.connector.name for frame in frames for t in frame.tasks}
        self.kept = {kept.task_id for frame in frames for kept in frame.kept}
        self.bodies = {
            t.plan.task_id: t.connector.config["partitions"] for f in frames for t in f.tasks
        }
        self.paused = {
            kept.task_id
            for frame in frames
            for kept in frame.kept
            if kept.target_state == TargetState.PAUSED
        }
        wanted |= {kept.task_id: kept.epoch for frame in frames for kept in frame.kept}
        wanted |= {m.task_id: m.epoch for frame in frames for m in frame.monitors}
        self.monitors = {m.task_id: m.plan_epoch for frame in frames for m in frame.monitors}
        for id_ in self.held.keys() - wanted.keys() - self.stubborn:
            del self.held[id_]
        for id_, epoch in wanted.items():
            if id_ not in self.held or self.held[id_].epoch != epoch:
                self.held[id_] = TaskStatus(id_, names.get(id_, ""), epoch, TaskState.RUNNING)
                self.starts.append(id_)
        self._news.set()


@dataclass
class Instance:
    """One scheduler."""

    leadership: StoreLeadership
    scheduler: Scheduler
    client: SchedulerClient
    address: str
    leading: asyncio.Task[None] | None = None

    async def lead(self) -> Leader:
        """Take the lead."""
        await self.leadership.acquire()
        self.leading = asyncio.create_task(self.scheduler.lead())
        await until(lambda: self.scheduler._leader is not None, "it leads")
        return self.scheduler.leader()

    async def resign(self) -> None:
        """Stop leading."""
        if self.leading is not None:
            self.leading.cancel()
            with suppress(asyncio.CancelledError):
                await self.leading


@dataclass
class Mesh:
    """What a test works with."""

    store: SqliteStore
    config: ConfigClient
    plans: FakePlans
    first: Instance
    second: Instance
    workers: dict[str, FakeWorker] = field(default_factory=dict)

    def join(self, id_: str, instance: Instance | None = None, **rest: object) -> FakeWorker:
        """Let a worker come."""
        worker = self.workers[id_] = FakeWorker(id_, **rest)
        worker.connect((instance or self.first).address)
        return worker

    async def create(self, name: str, partitions: int, **config: str) -> Connector:
        """Store a connector."""
        texts = {"partitions": str(partitions), "tasks.max": str(partitions), **config}
        return (await self.config.put(Connector(name, texts)))[0]

    def loads(self) -> list[int]:
        """How many tasks each worker holds."""
        return sorted(len(worker.held) for worker in self.workers.values())


@pytest.fixture
def mesh(tmp_path: Path) -> Callable[[Callable[[Mesh], Awaitable[None]]], None]:
    """Runs a test against two instances of the scheduler, the first of which leads."""

    def run(test: Callable[[Mesh], Awaitable[None]], settings: LeaderSettings = QUICK) -> None:
        async def main() -> None:
            store = await SqliteStore.open(tmp_path / "state.db")
            server = Server(f"unix:{tmp_path}/config", grace_s=0.2)
            server.add(add_ConfigServiceServicer_to_server, ConfigService(store))
            async with asyncio.timeout(60), server, ConfigClient(server.address) as config:
                plans = FakePlans()

                @asynccontextmanager
                async def instance(name: str) -> AsyncIterator[Instance]:
                    address = f"unix:{tmp_path}/{name}"
                    leadership = StoreLeadership(store, address)
                    scheduler = Scheduler(
                        leadership,
                        lambda: Leader(leadership, store, ConnectorPlans(config, plans), settings),
                    )
                    serving = Server(address, grace_s=0.2)
                    serving.add(add_SchedulerServiceServicer_to_server, SchedulerService(scheduler))
                    async with serving, SchedulerClient(address) as client:
                        one = Instance(leadership, scheduler, client, address)
                        try:
                            yield one
                        finally:
                            await one.resign()

                async with instance("a") as first, instance("b") as second:
                    found = Mesh(store, config, plans, first, second)
                    await first.lead()
                    try:
                        await test(found)
                    finally:
                        for worker in found.workers.values():
                            await worker.disconnect()
            await store.close()

        asyncio.run(main())

    return run


@pytest.fixture
def patient() -> LeaderSettings:
    """Settings of leaders that wait for workers to come back."""
    return PATIENT


@pytest.fixture
def arm():
    """Arms fault points as a start with that environment would; disarms afterwards."""
    yield lambda text: faults.load({faults.VARIABLE: text})
    faults.load({})
