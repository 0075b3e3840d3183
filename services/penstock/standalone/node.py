"""The services of this process, on private unix sockets: started in order, stopped in reverse."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.api.config.v1.config_service_pb2_grpc import add_ConfigServiceServicer_to_server
from penstock.api.offset.v1.offset_service_pb2_grpc import add_OffsetServiceServicer_to_server
from penstock.api.worker.v1.worker_service_pb2_grpc import add_WorkerServiceServicer_to_server
from penstock.client import ConfigClient, OffsetClient, WorkerClient
from penstock.config.service import ConfigService
from penstock.offset.service import OffsetService
from penstock.plugin import PluginHost, Registry
from penstock.rpc import Server
from penstock.spark.engine import Engine
from penstock.standalone.scratch import scratch
from penstock.standalone.settings import NodeSettings, prepare_folder
from penstock.store import SqliteStore
from penstock.topic.embedded import EmbeddedTopics
from penstock.worker.service import WorkerService
from penstock.worker.worker import Worker

log = logging.getLogger(__name__)

PLUGIN_GRACE = 1.0
"""Seconds that plugins get to end when the node stops: their tasks have ended before. Longer lets a
plugin that hangs hold the end of the process up; it is killed 3 s after this."""

_S = TypeVar("_S")


class Node:
    """All services in this process. `async with Node(settings) as node`, then talk to its clients.

    The control plane answers as soon as the node is entered; Spark warms up in the background.
    `lost` ends when the JVM is gone: the process must then be started anew.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._engine: Engine
        self._starting: asyncio.Task[None]
        self.config: ConfigClient
        self.offset: OffsetClient
        self.worker: WorkerClient

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def lost(self) -> None:
        """Return when the engine's JVM is gone; raise when it could not be started."""
        gone = asyncio.create_task(self._engine.lost.wait())
        try:
            await asyncio.wait({gone, self._starting}, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                self._starting.result()
                await gone
        finally:
            gone.cancel()

    async def engine_ready(self) -> None:
        """Wait until Spark is warm; raise when it could not be started."""
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        settings = self._settings
        prepare_folder(settings.state_dir)
        runtime = self._stack.enter_context(scratch())
        store = await SqliteStore.open(settings.state_dir / "state.db")
        self._stack.push_async_callback(store.close)
        self._start_engine(runtime)

        config = await self._serve(
            runtime, "config", add_ConfigServiceServicer_to_server, ConfigService(store)
        )
        self.config = await self._stack.enter_async_context(ConfigClient(config))
        offset = await self._serve(
            runtime,
            "offset",
            add_OffsetServiceServicer_to_server,
            OffsetService(store, self.config),
        )
        self.offset = await self._stack.enter_async_context(OffsetClient(offset))
        worker = await self._worker(runtime)
        address = await self._serve(
            runtime, "worker", add_WorkerServiceServicer_to_server, WorkerService(worker)
        )
        self._stack.push_async_callback(worker.stop)
        self.worker = await self._stack.enter_async_context(WorkerClient(address))

    def _start_engine(self, runtime: Path) -> None:
        settings = self._settings.engine
        if settings.local_dir is None:
            settings = replace(settings, local_dir=runtime / "spark")
        self._engine = Engine(settings)
        self._stack.push_async_callback(self._engine.stop)
        self._starting = asyncio.create_task(self._engine.start())
        self._stack.push_async_callback(self._end_start)

    async def _end_start(self) -> None:
        # a session that is half started cannot be stopped, and nobody wants to wait for it
        while not self._starting.done():
            self._engine.abandon()
            await asyncio.wait({self._starting}, timeout=0.1)
        await asyncio.gather(self._starting, return_exceptions=True)

    async def _worker(self, runtime: Path) -> Worker:
        host = PluginHost(Registry.load(self._settings.plugin_path), runtime / "p")
        self._stack.push_async_callback(host.close, PLUGIN_GRACE)
        topics = await self._stack.enter_async_context(
            EmbeddedTopics(self._settings.topics_dir, self._settings.topics_retention)
        )
        return Worker(host, self._engine, topics, self.offset)

    async def _serve(
        self, runtime: Path, name: str, register: Callable[[_S, Any], None], servicer: _S
    ) -> str:
        server = Server(f"unix:{runtime / name}")
        server.add(register, servicer)
        await self._stack.enter_async_context(server)
        return server.address
