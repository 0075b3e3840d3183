"""The monitor of a connector that is a plugin: what it finds while the connector runs, as wishes
for another plan.

It is read slowly and remembered by its last word: one that floods fills its own memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, TypeAlias

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.error.v1 import diagnostic_pb2
from penstock.model.connector import Target, TaskPlan
from penstock.model.errors import (
    InternalError,
    PenstockError,
    Severity,
    error_of,
)
from penstock.plugin import errors
from penstock.plugin.errors import printable
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.streams.stream import ControlStream, missed, silence
from penstock.wire import connector as connector_wire
from penstock.wire import error as error_wire

_log = logging.getLogger(__name__)

_REST: Final = 0.1
"""Seconds between two frames. While it rests the stream is not read, and gRPC's flow control stops
a plugin that floods (invariant 12). Shorter costs CPU for a plugin that talks too much, longer
delays the wish that comes after a heartbeat."""
_MOST_REASON: Final = 200
_MOST_ID: Final = 200
_PART_BYTES: Final = 1 << 20
"""Bytes of plans after which a message is cut. gRPC takes 4 MiB unless it was told otherwise."""
_HARMLESS: Final = frozenset({Severity.WARNING, Severity.INFO})

_Control: TypeAlias = ControlStream[pb.MonitorRequest, pb.MonitorResponse]


class PluginMonitor:
    """Watches a connector. `open` it once, `close` it once; the process is shared.

    Iterate over it for the reasons why it wants another plan. Of several that were not taken yet
    the last one is left: a wish is about now.
    """

    def __init__(self, process: PluginProcess, target: Target, max_tasks: int) -> None:
        """`max_tasks` is what Plan is told."""
        self._process, self._target, self._max_tasks = process, target, max_tasks
        self._control: _Control | None = None
        self._pump: asyncio.Task[None] | None = None
        self._silence = 0.0
        self._wish = ""
        self._end: PenstockError | None = None
        self._news = asyncio.Event()

    async def open(self, plans: Sequence[TaskPlan]) -> None:
        """Begin to watch; `plans` are those in force.

        Raises:
            PenstockError: the connector's own diagnostic, or `plugin.*`.
        """
        link = self._process.link
        if death := link.death():
            raise death
        link.redact.learn(self._target.secrets.values())
        control = self._control = ControlStream(
            link, ConnectorServiceStub(link.channel).Monitor, "plugin.monitor"
        )
        target = connector_wire.target_to_proto(self._target)
        first = pb.MonitorRequest(target=target, max_tasks=self._max_tasks)
        seconds = self._process.deadlines.open
        try:
            for frame in _frames(plans, first):
                await control.send(frame, "plugin.monitor.open", seconds)
            await self._opened(control, seconds)
        except BaseException:
            control.end()
            raise
        self._pump = asyncio.create_task(self._run(control))

    async def __aiter__(self) -> AsyncIterator[str]:
        """Iterate over the wishes; raises when the stream is lost, and does not end before."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._wish:
                wish, self._wish = self._wish, ""
                yield wish
            if self._end is not None:
                raise self._end

    async def tell(self, plans: Sequence[TaskPlan]) -> None:
        """Say which plans are in force now."""
        if self._control is None:
            raise InternalError("plugin.not_open", "the stream was not opened")
        for frame in _frames(plans, pb.MonitorRequest()):
            await self._control.send(frame, "plugin.monitor.tell", self._process.deadlines.send)

    async def close(self) -> None:
        """Hang up, and let go of a monitor that does not end then. Idempotent."""
        control, pump = self._control, self._pump
        if control is None or pump is None:
            return
        self._pump = None
        if not control.failure:
            await control.finish()
            await asyncio.wait([pump], timeout=self._process.deadlines.end)
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
        control.end()

    async def _opened(self, control: _Control, seconds: float) -> None:
        try:
            frame = await control.receive("plugin.monitor.open", seconds)
        except TimeoutError:
            raise errors.deadline("plugin.monitor.open", seconds) from None
        if frame is None or frame.WhichOneof("kind") != "opened":
            raise errors.violation("not_opened", "the first frame of Monitor was not opened")
        self._silence = silence(frame.opened.heartbeat_every)

    async def _run(self, control: _Control) -> None:
        try:
            while (frame := await self._frame(control)) is not None:
                self._take(frame)
                await self._answer(control, frame.request_id)
                await asyncio.sleep(_REST)
            end: PenstockError = errors.stream_ended("Monitor ended")
        except PenstockError as error:
            end = error
        self._end = control.fail(end)
        self._news.set()

    async def _frame(self, control: _Control) -> pb.MonitorResponse | None:
        try:
            return await control.receive("plugin.monitor", self._silence)
        except TimeoutError:
            raise missed(self._process.who, self._silence) from None

    async def _answer(self, control: _Control, request_id: str) -> None:
        """Say that a request was taken. What comes of it is told as the plans in force."""
        if len(request_id) > _MOST_ID:
            raise errors.violation("request_id", f"a request has an id of {len(request_id)}")
        if request_id:
            answer = pb.MonitorRequest(answered_request_id=request_id)
            await control.send(answer, "plugin.monitor.answer", self._process.deadlines.send)

    def _take(self, frame: pb.MonitorResponse) -> None:
        match frame.WhichOneof("kind"):
            case "replan":
                self._want(frame.replan.reason)
            case "partition_change":
                change = frame.partition_change
                self._want(f"{len(change.added)} partitions found, {len(change.removed)} gone")
            case "diagnostic":
                self._told(frame.diagnostic)
            case "opened":
                raise errors.violation("second_opened", "MonitorOpened came twice")
            case "config_update":
                raise errors.violation(
                    "feature_not_agreed", "ConfigUpdate needs a feature that this host has not"
                )
            case _:
                pass  # R16: progress, and what a newer plugin may say

    def _want(self, reason: str) -> None:
        shown = printable(self._process.link.redact(reason), _MOST_REASON)
        self._wish = shown or "it gave no reason"
        self._news.set()

    def _told(self, message: diagnostic_pb2.Diagnostic) -> None:
        diagnostic = errors.clean(error_wire.from_proto(message), self._process.link.redact)
        if diagnostic.severity not in _HARMLESS:
            raise error_of(diagnostic)
        _log.warning("plugin %s: %s", self._process.who, diagnostic)


def _frames(plans: Sequence[TaskPlan], frame: pb.MonitorRequest) -> Iterator[pb.MonitorRequest]:
    """Yield messages with all plans, of which `frame` is the first."""
    size = 0
    for plan in plans:
        message = connector_wire.plan_to_proto(plan)
        if frame.tasks and size + message.ByteSize() > _PART_BYTES:
            frame.more_tasks = True
            yield frame
            frame, size = pb.MonitorRequest(), 0
        frame.tasks.append(message)
        size += message.ByteSize()
    yield frame
