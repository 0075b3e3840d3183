"""The monitor of a connector that is a plugin: it requests another plan while the connector runs.

The stream is read slowly and only the last request is kept, so a monitor that floods fills its own
memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, TypeAlias

from penstock.aio import cancel_and_wait
from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.error.v1 import diagnostic_pb2
from penstock.model.connector import Target, TaskPlan
from penstock.model.errors import InternalError, PenstockError, Severity, error_from_diagnostic
from penstock.plugin import errors
from penstock.plugin.errors import escape_text
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.streams.control_stream import ControlStream, heartbeat_missed, silence_limit
from penstock.wire.connector import PLAN, TARGET
from penstock.wire.error import DIAGNOSTIC

_log = logging.getLogger(__name__)

_READ_PAUSE_S: Final = 0.1
"""Pause between two frames. Meanwhile the stream is not read, and the flow control of gRPC stops a
plugin that floods (invariant 12). A shorter pause costs CPU when a plugin sends too much; a longer
one delays a request that follows a heartbeat."""
_MAX_REASON_CHARACTERS: Final = 200
_PART_BYTES: Final = 1 << 20
"""Bytes of plans in one message. By default gRPC takes messages of 4 MiB."""
_LOGGED_SEVERITIES: Final = frozenset({Severity.WARNING, Severity.INFO})

_Control: TypeAlias = ControlStream[pb.MonitorRequest, pb.MonitorResponse]


class PluginMonitor:
    """Watches a connector. `open` it once, `close` it once; the process is shared.

    Iterate over it for the reasons of its replan requests. Of several requests that were not taken
    yet only the last one is kept, because a request is about the present state.
    """

    def __init__(self, process: PluginProcess, target: Target, max_tasks: int) -> None:
        """`max_tasks`: the number of tasks that Plan may return."""
        self._process, self._target, self._max_tasks = process, target, max_tasks
        self._control: _Control | None = None
        self._receiver: asyncio.Task[None] | None = None
        self._silence_limit_s = 0.0
        self._replan_reason = ""
        self._end: PenstockError | None = None
        self._changed = asyncio.Event()

    async def open(self, plans: Sequence[TaskPlan]) -> None:
        """Start watching; `plans` are the current ones.

        Raises:
            PenstockError: the diagnostic of the connector, or `plugin.*`.
        """
        connection = self._process.connection
        if exit_error := connection.exit_error():
            raise exit_error
        connection.redact.add_secrets(self._target.secrets.values())
        control = self._control = ControlStream(
            connection, ConnectorServiceStub(connection.channel).Monitor
        )
        target = TARGET.to_proto(self._target)
        first = pb.MonitorRequest(target=target, max_tasks=self._max_tasks)
        timeout_s = self._process.deadlines.open_s
        try:
            for frame in _plan_frames(plans, first):
                await control.send(frame, "plugin.monitor.open", timeout_s)
            await self._receive_opened(control, timeout_s)
        except BaseException:
            control.cancel()
            raise
        self._receiver = asyncio.create_task(self._receive_frames(control))

    async def __aiter__(self) -> AsyncIterator[str]:
        """Iterate over the reasons of replan requests until the stream is lost, then raise."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._replan_reason:
                reason, self._replan_reason = self._replan_reason, ""
                yield reason
            if self._end is not None:
                raise self._end

    async def set_plans(self, plans: Sequence[TaskPlan]) -> None:
        """Send the current plans."""
        if self._control is None:
            raise InternalError("plugin.not_open", "the stream was not opened")
        for frame in _plan_frames(plans, pb.MonitorRequest()):
            await self._control.send(frame, "plugin.monitor.plans", self._process.deadlines.send_s)

    async def close(self) -> None:
        """End the stream; cancel the call when the monitor does not end in time. Idempotent."""
        control, receiver = self._control, self._receiver
        if control is None or receiver is None:
            return
        self._receiver = None
        if not control.failure:
            await control.finish_sending()
            await asyncio.wait([receiver], timeout=self._process.deadlines.end_s)
        await cancel_and_wait(receiver)
        control.cancel()

    async def _receive_opened(self, control: _Control, timeout_s: float) -> None:
        try:
            frame = await control.receive("plugin.monitor.open", timeout_s)
        except TimeoutError:
            raise errors.deadline_exceeded("plugin.monitor.open", timeout_s) from None
        if frame is None or frame.WhichOneof("kind") != "opened":
            raise errors.protocol_violation(
                "not_opened", "the first frame of Monitor was not MonitorOpened"
            )
        self._silence_limit_s = silence_limit(frame.opened.heartbeat_every)

    async def _receive_frames(self, control: _Control) -> None:
        try:
            while (frame := await self._receive_frame(control)) is not None:
                self._handle_frame(frame)
                await asyncio.sleep(_READ_PAUSE_S)
            end: PenstockError = errors.stream_ended("Monitor ended")
        except PenstockError as error:
            end = error
        self._end = control.fail(end)
        self._changed.set()

    async def _receive_frame(self, control: _Control) -> pb.MonitorResponse | None:
        try:
            return await control.receive("plugin.monitor", self._silence_limit_s)
        except TimeoutError:
            raise heartbeat_missed(self._process.name, self._silence_limit_s) from None

    def _handle_frame(self, frame: pb.MonitorResponse) -> None:
        match frame.WhichOneof("kind"):
            case "replan":
                self._request_replan(frame.replan.reason)
            case "diagnostic":
                self._handle_diagnostic(frame.diagnostic)
            case "opened":
                raise errors.protocol_violation("second_opened", "MonitorOpened came twice")
            case _:
                pass  # R16: progress, or a frame of a newer protocol version

    def _request_replan(self, reason: str) -> None:
        text = escape_text(self._process.connection.redact(reason), _MAX_REASON_CHARACTERS)
        self._replan_reason = text or "the connector gave no reason"
        self._changed.set()

    def _handle_diagnostic(self, message: diagnostic_pb2.Diagnostic) -> None:
        diagnostic = errors.clean_diagnostic(
            DIAGNOSTIC.from_proto(message), self._process.connection.redact
        )
        if diagnostic.severity not in _LOGGED_SEVERITIES:
            raise error_from_diagnostic(diagnostic)
        _log.warning("plugin %s: %s", self._process.name, diagnostic)


def _plan_frames(
    plans: Sequence[TaskPlan], frame: pb.MonitorRequest
) -> Iterator[pb.MonitorRequest]:
    """Yield messages with all plans; the first message is `frame`."""
    size = 0
    for plan in plans:
        message = PLAN.to_proto(plan)
        if frame.tasks and size + message.ByteSize() > _PART_BYTES:
            frame.more_tasks = True
            yield frame
            frame, size = pb.MonitorRequest(), 0
        frame.tasks.append(message)
        size += message.ByteSize()
    yield frame
