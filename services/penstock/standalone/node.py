"""The services of a cluster in one process, on private unix sockets: one worker, a scheduler that
always leads, and SQLite instead of etcd. They start in order and stop in reverse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from penstock.aio import cancel_and_wait, run_together, wait_for_first
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
    apply_log_levels,
)
from penstock.config.log_levels import SERVICES
from penstock.config.service import ConfigService
from penstock.connector_config.validation import store_connector
from penstock.model.connector import Connector, TargetState
from penstock.model.metrics import ProcessMetric, ReadMetrics, metrics_from_statistics
from penstock.offset.service import OffsetService
from penstock.rpc.server import Server, add_process_service
from penstock.scheduler import (
    ClusterSettings,
    Leader,
    LeaderSettings,
    Scheduler,
    SchedulerService,
    SoleLeadership,
)
from penstock.scheduler.leader.connector_plans import ConnectorPlans
from penstock.scheduler.leader.stored_state import delete_all_completions, delete_plan_records
from penstock.scheduler.leader.worker_logs import WorkerLogSource
from penstock.standalone.settings import (
    STATE_FILE,
    NodeSettings,
    prepare_folder,
    scratch_folder,
)
from penstock.store.sqlite import SqliteStore
from penstock.worker.runtime.scheduler_session import SchedulerSession, WorkerIdentity
from penstock.worker.runtime.service import WorkerService
from penstock.worker.runtime.worker import WorkerHost

_S = TypeVar("_S")

_NAME: Final = "standalone"
"""Name of every instance: there is one of each service."""

_SERVICES: Final = ("config", "offset", "scheduler", "worker")


class Node:
    """All services in this process. `async with Node(settings) as node`, then use its clients.

    The control plane answers as soon as the node is entered; Spark starts in the background.
    `start_connectors` runs the stored connectors. When `wait_until_lost` returns, the JVM is lost
    and the process must start anew.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._running: list[asyncio.Task[None]] = []
        self._runtime: Path
        self._store: SqliteStore
        self._host: WorkerHost
        self._scheduler: Scheduler
        self._session: SchedulerSession
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

    async def start_connectors(self) -> None:
        """Plan and run the stored connectors from now on. Call it once, after storing them."""
        # plans are made again: a source may split differently today
        await delete_plan_records(SoleLeadership(self._store, ""), self._store)
        self._running = [
            asyncio.create_task(self._scheduler.lead(), name="scheduler"),
            asyncio.create_task(self._session.run(), name="session"),
        ]

    async def forget_completed(self) -> None:
        """Let tasks that have completed start again. Call it before `start_connectors`."""
        await delete_all_completions(SoleLeadership(self._store, ""), self._store)

    async def wait_until_lost(self) -> None:
        """Return when the JVM is lost; raise when a part of the node failed."""
        async with run_together(self._host.wait_until_lost()) as (gone,):
            while not gone.done():
                await wait_for_first(gone, *(task for task in self._running if not task.done()))
                for task in (gone, *self._running):
                    if task.done():
                        task.result()

    async def wait_until_ready(self) -> None:
        """Wait until Spark has started; raise when it could not start."""
        await self._host.wait_until_ready()

    def addresses(self) -> Mapping[str, Sequence[str]]:
        """Return the addresses of each service."""
        return {service: [self._address(service)] for service in _SERVICES}

    async def _start(self) -> None:
        settings, enter = self._settings, self._stack.enter_async_context
        prepare_folder(settings.state_dir)
        self._runtime = self._stack.enter_context(scratch_folder())
        self._store = await SqliteStore.open(settings.state_dir / STATE_FILE)
        self._stack.push_async_callback(self._store.close)

        # services call each other: clients exist before the services
        self.worker = await enter(WorkerClient(self._address("worker")))
        self.scheduler = await enter(SchedulerClient(self._address("scheduler")))
        self.config = await enter(ConfigClient(self._address("config")))
        self.offset = await enter(OffsetClient(self._address("offset")))
        config = ConfigService(self._store, self.worker)
        self._stack.push_async_callback(config.close)
        await self._serve(
            "config", add_ConfigServiceServicer_to_server, config, self._store_metrics
        )
        offset = OffsetService(self._store, self.config, self.scheduler)
        self._stack.push_async_callback(offset.close)
        await self._serve("offset", add_OffsetServiceServicer_to_server, offset)
        self._apply_log_levels()
        await config.start()
        await offset.start()
        self._host = await enter(
            WorkerHost(settings.worker, self.offset, self.config, self.scheduler, self._runtime)
        )
        worker = WorkerService(self._host.worker)
        metrics = self._host.metrics
        await self._serve("worker", add_WorkerServiceServicer_to_server, worker, metrics)
        await self._start_scheduler()

    def _apply_log_levels(self) -> None:
        """Apply the log levels of all services: all of them run here."""
        applying = asyncio.create_task(apply_log_levels(self.config.watch_log_levels, SERVICES))
        self._stack.push_async_callback(cancel_and_wait, applying)

    async def _start_scheduler(self) -> None:
        plans = ConnectorPlans(self.config)
        leadership = SoleLeadership(self._store, self._address("scheduler"))
        # no lease: a worker of this process cannot be lost alone
        settings = LeaderSettings(ClusterSettings(), session_lease_s=0.0)
        self._scheduler = Scheduler(
            leadership,
            lambda: Leader(leadership, self._store, plans, settings, WorkerLogSource()),
        )
        service = SchedulerService(self._scheduler)
        metrics = self._scheduler.metrics
        await self._serve("scheduler", add_SchedulerServiceServicer_to_server, service, metrics)
        identity = WorkerIdentity(self._address("worker"), name=_NAME)
        registry = self._host.worker.task_registry
        self._session = SchedulerSession(self.scheduler, registry, identity)
        self._stack.push_async_callback(self._cancel_tasks)

    async def _cancel_tasks(self) -> None:
        await cancel_and_wait(*self._running)

    def _store_metrics(self) -> Iterable[ProcessMetric]:
        """Return the metrics of the store. All services share it, so only one of them
        returns them.
        """
        return metrics_from_statistics("store", self._store.statistics())

    async def _serve(
        self,
        name: str,
        register: Callable[[_S, Any], None],
        servicer: _S,
        *metrics: ReadMetrics,
    ) -> None:
        server = Server(self._address(name))
        add_process_service(server, _NAME, _NAME, metrics)
        server.add(register, servicer)
        await self._stack.enter_async_context(server)

    def _address(self, service: str) -> str:
        return f"unix:{self._runtime / service}"


async def run_connectors(node: Node, connectors: Sequence[Connector]) -> None:
    """Run these validated connectors, in their target states, and stop all others that are stored.
    Stopped connectors keep their offsets.

    A start after a crash does the same: an equal configuration keeps its generation and its
    offsets, and its tasks get new epochs, which fence what the crash left behind.
    """
    names = {connector.name for connector in connectors}
    for known in (await node.config.list()).connectors:
        if known.name not in names and known.target_state is not TargetState.STOPPED:
            await node.config.set_target_state(known.name, TargetState.STOPPED)
    for connector in connectors:
        await store_connector(node.config, connector)
    await node.start_connectors()
