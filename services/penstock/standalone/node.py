"""The services of this process, on private unix sockets: started in order, stopped in reverse.

They are the services of a cluster, with one worker, a scheduler that leads because it is alone, and
SQLite instead of etcd.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from penstock.api.config.v1.config_service_pb2_grpc import add_ConfigServiceServicer_to_server
from penstock.api.offset.v1.offset_service_pb2_grpc import add_OffsetServiceServicer_to_server
from penstock.api.scheduler.v1.scheduler_service_pb2_grpc import (
    add_SchedulerServiceServicer_to_server,
)
from penstock.api.worker.v1.worker_service_pb2_grpc import add_WorkerServiceServicer_to_server
from penstock.client import (
    ConfigClient,
    OffsetClient,
    SchedulerClient,
    WorkerClient,
    keep_levels,
)
from penstock.config.log_levels import SERVICES
from penstock.config.service import ConfigService
from penstock.model.metrics import Number, ReadNumbers, numbers_of
from penstock.offset.service import OffsetService
from penstock.rpc import Server
from penstock.rpc.process import tell_numbers
from penstock.scheduler import (
    ClusterSettings,
    Leader,
    LeaderSettings,
    Scheduler,
    SchedulerService,
    SoleLeader,
)
from penstock.scheduler.leading.plans import Plans
from penstock.scheduler.leading.stored import forget_plans
from penstock.standalone.scratch import scratch
from penstock.standalone.settings import NodeSettings, prepare_folder
from penstock.store import SqliteStore
from penstock.worker.runtime.host import Hosting
from penstock.worker.runtime.scheduler_session import Identity, Session
from penstock.worker.runtime.service import WorkerService

_S = TypeVar("_S")

_NAME: Final = "standalone"
"""Of every instance: there is one of each service."""

_SERVICES: Final = ("config", "offset", "scheduler", "worker")


class Node:
    """All services in this process. `async with Node(settings) as node`, then talk to its clients.

    The control plane answers as soon as the node is entered; Spark warms up in the background.
    `begin` lets the connectors run that should. `lost` ends when the JVM is gone: the process must
    then be started anew.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._running: list[asyncio.Task[None]] = []
        self._runtime: Path
        self._store: SqliteStore
        self._hosting: Hosting
        self._scheduler: Scheduler
        self._session: Session
        self.config: ConfigClient
        self.offset: OffsetClient
        self.scheduler: SchedulerClient
        self.worker: WorkerClient

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def begin(self) -> None:
        """Plan and run what should run, from now on. Once, and after what should run was said."""
        # what a source would split differently today is planned again
        await forget_plans(SoleLeader(self._store, ""), self._store)
        self._running = [
            asyncio.create_task(self._scheduler.lead(), name="scheduler"),
            asyncio.create_task(self._session.run(), name="session"),
        ]

    async def lost(self) -> None:
        """Return when the engine's JVM is gone; raise when anything here cannot go on."""
        gone = asyncio.create_task(self._hosting.lost())
        watched: set[asyncio.Task[None]] = {gone, *self._running}
        try:
            while not gone.done():
                done, watched = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            gone.cancel()

    async def engine_ready(self) -> None:
        """Wait until Spark is warm; raise when it could not be started."""
        await self._hosting.ready()

    def addresses(self) -> Mapping[str, Sequence[str]]:
        """Tell where each service is."""
        return {service: [self._address(service)] for service in _SERVICES}

    async def _start(self) -> None:
        settings, enter = self._settings, self._stack.enter_async_context
        prepare_folder(settings.state_dir)
        self._runtime = self._stack.enter_context(scratch())
        self._store = await SqliteStore.open(settings.state_dir / "state.db")
        self._stack.push_async_callback(self._store.close)

        # services ask each other: each client is there before its service is
        self.worker = await enter(WorkerClient(self._address("worker")))
        self.scheduler = await enter(SchedulerClient(self._address("scheduler")))
        self.config = await enter(ConfigClient(self._address("config")))
        self.offset = await enter(OffsetClient(self._address("offset")))
        config = ConfigService(self._store, self.worker)
        self._stack.push_async_callback(config.close)
        await self._serve("config", add_ConfigServiceServicer_to_server, config, self._stored)
        offset = OffsetService(self._store, self.config, self.scheduler)
        self._stack.push_async_callback(offset.close)
        await self._serve("offset", add_OffsetServiceServicer_to_server, offset)
        self._keep_levels()
        await config.start()
        await offset.start()
        self._hosting = await enter(
            Hosting(settings.machine, self.offset, self.config, self._runtime)
        )
        worker = WorkerService(self._hosting.worker)
        numbers = self._hosting.numbers
        await self._serve("worker", add_WorkerServiceServicer_to_server, worker, numbers)
        await self._start_scheduler()

    def _keep_levels(self) -> None:
        """Let levels take effect here that are set of any service: all of them are here."""
        keeping = asyncio.create_task(keep_levels(self.config.watch_log_levels, SERVICES))

        async def end() -> None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

        self._stack.push_async_callback(end)

    async def _start_scheduler(self) -> None:
        plans = Plans(self.config)
        leadership = SoleLeader(self._store, self._address("scheduler"))
        # no lease: a worker of this process that is gone is gone
        settings = LeaderSettings(ClusterSettings(), session_lease=0.0)
        self._scheduler = Scheduler(
            leadership, lambda: Leader(leadership, self._store, plans, settings)
        )
        service = SchedulerService(self._scheduler)
        numbers = self._scheduler.numbers
        await self._serve("scheduler", add_SchedulerServiceServicer_to_server, service, numbers)
        who = Identity(self._address("worker"), name=_NAME)
        self._session = Session(self.scheduler, self._hosting.worker.holdings, who)
        self._stack.push_async_callback(self._end)

    async def _end(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _stored(self) -> Iterable[Number]:
        """Tell the numbers of the store. It is one for all services: one of them tells."""
        return numbers_of("store", self._store.statistics())

    async def _serve(
        self,
        name: str,
        register: Callable[[_S, Any], None],
        servicer: _S,
        *numbers: ReadNumbers,
    ) -> None:
        server = Server(self._address(name))
        tell_numbers(server, _NAME, _NAME, numbers)
        server.add(register, servicer)
        await self._stack.enter_async_context(server)

    def _address(self, service: str) -> str:
        return f"unix:{self._runtime / service}"
