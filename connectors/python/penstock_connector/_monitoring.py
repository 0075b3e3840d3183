"""ConnectorService.Monitor: runs what an author wrote to watch, in a thread of its own.

Not in the pool of the other calls: a monitor lives as long as its connector.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from datetime import timedelta
from typing import Any, Final

import grpc.aio

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2 as types_pb
from penstock_connector._calls import fail
from penstock_connector._connectors import Connectors, configure
from penstock_connector._encoder import HEARTBEAT
from penstock_connector._errors import ConnectorError, as_connector_error
from penstock_connector._monitor import Monitor
from penstock_connector._outbox import Outbox
from penstock_connector._source import Source
from penstock_connector._values import Partition, partition_from_proto

_OPEN_WITHIN: Final = 30.0
"""Seconds for the first message. Only stops a caller that opens a stream and says nothing."""

_END_WITHIN: Final = 5.0
"""Seconds that a monitor gets to return. The call ends then; its thread is a daemon's, and holds
up nothing but itself."""

_log = logging.getLogger(__name__)


class Monitoring:
    """Serves the monitors of a plugin's sources."""

    def __init__(self, connectors: Connectors) -> None:
        self._connectors = connectors
        self._running: set[_Watching] = set()

    async def monitor(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Run a monitor from its first message until the host hangs up."""
        try:
            watching = await self._open(context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the host is told
            await fail(context, as_connector_error(error, "monitor"))
        self._running.add(watching)
        telling = asyncio.create_task(watching.hear(context))
        try:
            await watching.speak(context)
        finally:
            telling.cancel()
            watching.monitor.stop()
            self._running.discard(watching)
            await watching.ended()
        if isinstance(watching.outbox.error, ConnectorError):
            await fail(context, watching.outbox.error)

    def stop(self) -> None:
        """Ask all monitors for their end."""
        for watching in self._running:
            watching.outbox.finish()

    async def _open(self, context: grpc.aio.ServicerContext[Any, Any]) -> _Watching:
        try:
            async with asyncio.timeout(_OPEN_WITHIN):
                first = await context.read()
        except TimeoutError:
            first = None
        if not isinstance(first, pb.MonitorRequest) or not first.HasField("target"):
            raise ConnectorError(
                "monitor.not_opened", "the first message of Monitor must have a target"
            )
        kind = self._connectors.find(first.target.connector, Source)
        watching = _Watching(kind, first.max_tasks or 1)
        watching.take(first)
        watching.start(configure(kind, first.target))
        return watching


class _Watching:
    """One monitor: its thread, and what goes to and fro."""

    def __init__(self, kind: type[Source[Any]], max_tasks: int) -> None:
        self.outbox: Outbox[pb.MonitorResponse] = Outbox(asyncio.get_running_loop())
        self.monitor = Monitor(max_tasks, self.outbox.put)
        self._kind = kind
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._coming: list[Partition] = []

    def start(self, config: Any) -> None:
        """Begin to watch."""
        opened = pb.MonitorOpened()
        opened.heartbeat_every.FromTimedelta(timedelta(seconds=HEARTBEAT))
        self.outbox.put(pb.MonitorResponse(opened=opened))
        name = f"monitor {self._kind.name}"
        threading.Thread(target=self._run, args=(config,), name=name, daemon=True).start()

    def take(self, request: pb.MonitorRequest) -> None:
        """Take a message of the host; plans count when the last part of them is there."""
        self._coming += [partition_from_proto(p) for task in request.tasks for p in task.partitions]
        if request.more_tasks or not request.tasks:
            return
        self.monitor.take(self._coming)
        self._coming = []

    async def hear(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Take what the host says. It hangs up to end the monitor."""
        while isinstance(request := await context.read(), pb.MonitorRequest):
            self.take(request)
        self.outbox.finish()

    async def speak(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Write what the monitor says, and beside it a heartbeat (rule R19)."""
        beat = HEARTBEAT / 2  # as often as a stream of rows
        due = time.monotonic() + beat
        while True:
            try:
                async with asyncio.timeout(max(due - time.monotonic(), 0)):
                    said = await self.outbox.get()
            except TimeoutError:
                due = time.monotonic() + beat
                await context.write(pb.MonitorResponse(progress=types_pb.Progress()))
                continue
            if said is None:
                return
            for frame in said:
                await context.write(frame)

    async def ended(self) -> None:
        """Wait for the end of the thread."""
        self.outbox.cancel()
        try:
            async with asyncio.timeout(_END_WITHIN):
                await self._ended.wait()
        except TimeoutError:
            _log.warning("the monitor of %s did not end in time", self._kind.name)

    def _run(self, config: Any) -> None:
        try:
            self._kind.monitor(config, self.monitor)
        except Exception as error:  # noqa: BLE001 - it is the answer
            if not self.monitor.stopping.is_set():
                self.outbox.finish(as_connector_error(error, "monitor"))
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
                self._loop.call_soon_threadsafe(self._ended.set)
