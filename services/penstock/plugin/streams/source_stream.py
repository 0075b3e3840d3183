"""The source of a task that is a plugin: its Read stream, which the driver holds.

Rows do not pass through the stream. An executor fetches them with the dict that `ticket` returns:

    kind        "plugin"
    address     gRPC address of the process, `unix:/…` or `host:port`
    credential  value of the metadata key `penstock-credential`
    tls         PEM texts, only for a plugin behind TLS
    memory_file base64 of a MemoryFile; whoever can open it may fetch batches in memory files
    task_id, epoch, schema_id
    encoding    encoding of the rows, negotiated at the open
    seqs        the batches to fetch, in this order
    bytes       the size in bytes with which each batch was announced
    schema      base64 of the Arrow IPC schema message of all these batches
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeAlias

from penstock.aio import cancel_and_wait
from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.model.connector import Target, TaskPlan
from penstock.model.errors import InternalError, PenstockError
from penstock.model.stream import BadRow, EndOfStream, ReadEvent
from penstock.plugin import errors
from penstock.plugin.limits import StreamLimits
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.protocol_rules import MAX_READY_BATCHES, READ_ENCODINGS, ReadRules
from penstock.plugin.streams.control_stream import ControlStream, heartbeat_missed, silence_limit
from penstock.plugin.streams.source_events import PluginMetrics, SourceFrameReader
from penstock.wire.connector import PLAN, TARGET

_log = logging.getLogger(__name__)

_MAX_EVENTS: Final = 256
"""Events that wait for the task. While the queue is full the stream is not read, and the flow
control of gRPC stops the plugin."""
_LARGE_ROW_BYTES: Final = 64 * 1024

_End: TypeAlias = "PenstockError | None"
_Control: TypeAlias = ControlStream[pb.ReadRequest, pb.ReadResponse]


class PluginSourceStream:
    """Reads the partitions of one task from their offsets. `open` it once, `close` it once.

    Its task owns it; the process is shared. It uses no CPU while the source is silent.
    """

    def __init__(
        self,
        process: PluginProcess,
        target: Target,
        plan: TaskPlan,
        epoch: int,
        *,
        credit_bytes: int | None = None,
        until_caught_up: bool = False,
        limits: StreamLimits | None = None,
        metrics: PluginMetrics | None = None,
    ) -> None:
        self._process, self._target, self._plan, self._epoch = process, target, plan, epoch
        self._limits = limits or StreamLimits()
        self._until_caught_up = until_caught_up
        self._credit_bytes = credit_bytes or self._limits.credit_bytes
        self._deadlines = process.deadlines
        own = plan.own_partitions
        self._rules = ReadRules(self._credit_bytes, own, own.planned)
        self._reader = SourceFrameReader(
            self._rules, process.connection.redact, metrics or PluginMetrics()
        )
        self._events: asyncio.Queue[ReadEvent | _End] = asyncio.Queue(_MAX_EVENTS)
        self._silence_limit_s: float | None = None
        self._control: _Control | None = None
        self._receiver: asyncio.Task[None] | None = None
        self._schema_texts: dict[int, str] = {}
        self._committed = 0
        self._encoding: int = READ_ENCODINGS[0]
        self.needs_commit = False
        """Whether the source wants to be notified of commits; set by `open`."""
        self.confirms = False
        """Whether the source confirms these notifications; set by `open`."""

    async def open(self) -> None:
        """Start reading at the offsets of the plan.

        Raises:
            PenstockError: the diagnostic of the source, or `plugin.*`.
        """
        if exit_error := self._process.connection.exit_error():
            raise exit_error
        self._process.connection.redact.add_secrets(self._target.secrets.values())
        stub = SourceServiceStub(self._process.connection.channel)
        self._control = ControlStream(self._process.connection, stub.Read)
        timeout_s = self._deadlines.open_s
        try:
            # of a million partitions it takes seconds, in which the loop must go on
            frame = await asyncio.to_thread(self._open_frame)
            await self._control.send(frame, "plugin.read.open", timeout_s)
            await self._receive_opened(timeout_s)
        except BaseException:
            self._control.cancel()
            raise
        self._receiver = asyncio.create_task(self._receive_frames(self._control))

    def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Iterate over events until `EndOfStream`; raise when the stream is lost."""
        return self._iterate_events()

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Return what an executor needs to fetch exactly these batches, in this order."""
        missing = [seq for seq in seqs if not self._rules.is_fetchable(seq)]
        if missing:
            raise InternalError(
                "plugin.ticket", f"batches {missing[:10]} of {self._plan.task_id} cannot be fetched"
            )
        return {
            "kind": "plugin",
            **self._process.dial_info,
            "task_id": self._plan.task_id,
            "epoch": self._epoch,
            "schema_id": schema_id,
            "encoding": self._encoding,
            "seqs": list(seqs),
            "bytes": [self._rules.announced_bytes(seq) for seq in seqs],
            "schema": self._encode_schema(schema_id),
        }

    async def committed(self, checkpoint_id: int) -> None:
        """Notify the source that everything up to a checkpoint is durable. Cumulative (R2).

        Call it only after the offset service has stored the offsets (invariant 2). A notification
        is never dropped: when it cannot be sent, this raises.
        """
        if not self._committed <= checkpoint_id <= self._rules.last_checkpoint:
            raise InternalError(
                "plugin.committed_order",
                f"checkpoint {checkpoint_id} cannot follow {self._committed} of "
                f"{self._rules.last_checkpoint}",
            )
        self._rules.mark_committed(checkpoint_id)
        frame = pb.ReadRequest(committed=pb.ReadCommitted(checkpoint_id=checkpoint_id))
        await self._send(frame, "plugin.read.committed")
        self._committed = checkpoint_id

    async def release(self, seq: int) -> None:
        """Notify the source that batches up to `seq` will not be fetched again. Cumulative.

        Credit is a window over the ready batches, so a release returns credit.
        """
        if self._rules.release(seq):
            frame = pb.ReadRequest(release=pb.ReadRelease(seq=seq))
            await self._send(frame, "plugin.read.release")

    async def close(self) -> None:
        """End the stream; after `EndOfStream` the source first reads pending frames. Idempotent."""
        control, receiver = self._control, self._receiver
        if control is None or receiver is None:
            return
        if self._rules.drained and not control.failure:
            await control.finish_sending()
            await asyncio.wait([receiver], timeout=self._deadlines.end_s)
        await cancel_and_wait(receiver)
        control.cancel()

    def statistics(self) -> dict[str, int]:
        """Return the bytes that are ready and the number of events that wait for the task."""
        return {"held_bytes": self._rules.held_bytes, "waiting_events": self._events.qsize()}

    def _open_frame(self) -> pb.ReadRequest:
        return pb.ReadRequest(
            open=pb.ReadOpen(
                target=TARGET.to_proto(self._target),
                task=PLAN.to_proto(self._plan),
                epoch=self._epoch,
                encodings=READ_ENCODINGS,
                limits=self._limits.to_proto(),
                credit=types_pb2.Credit(bytes=self._credit_bytes, batches=MAX_READY_BATCHES),
                memory_files=self._process.shares_memory,
                until_caught_up=self._until_caught_up,
            )
        )

    async def _receive_opened(self, timeout_s: float) -> None:
        try:
            frame = await self._require_open().receive("plugin.read.open", timeout_s)
        except TimeoutError:
            raise errors.deadline_exceeded("plugin.read.open", timeout_s) from None
        if frame is None or frame.WhichOneof("kind") != "opened":
            raise errors.protocol_violation(
                "not_opened", "the first frame of Read was not ReadOpened"
            )
        opened = frame.opened
        if self._until_caught_up and not opened.ends_when_caught_up:
            raise errors.never_caught_up(self._target.connector)
        if opened.encoding not in READ_ENCODINGS:
            raise errors.protocol_violation(
                "encoding", f"encoding {opened.encoding} was not offered"
            )
        self._encoding = opened.encoding
        self._silence_limit_s = silence_limit(opened.heartbeat_every)
        self.needs_commit = opened.needs_commit
        self.confirms = opened.confirms_commits

    async def _receive_frames(self, control: _Control) -> None:
        """Put the events of all frames into the queue, and the end as its last entry."""
        end: _End = None
        try:
            while (frame := await self._receive_frame(control)) is not None:
                event = self._reader.to_event(frame)
                if event is not None:
                    await self._enqueue(event)
            if not self._rules.drained:
                end = errors.stream_ended("Read ended without Drained")
        except PenstockError as error:
            end = error
        if end is not None:
            control.fail(end)
        if not self._rules.drained:
            await self._events.put(end)

    async def _enqueue(self, event: ReadEvent) -> None:
        await self._events.put(event)
        if isinstance(event, BadRow) and len(event.raw) > _LARGE_ROW_BYTES:
            await self._events.join()  # only one large row waits at a time (invariant 12)

    async def _receive_frame(self, control: _Control) -> pb.ReadResponse | None:
        # After Drained no frame is due, not even a heartbeat.
        timeout_s = None if self._rules.drained else self._silence_limit_s
        try:
            return await control.receive("plugin.read", timeout_s)
        except TimeoutError:
            raise heartbeat_missed(self._process.name, timeout_s or 0.0) from None

    async def _iterate_events(self) -> AsyncIterator[ReadEvent]:
        while True:
            event = await self._events.get()
            self._events.task_done()
            if event is None:
                return
            if isinstance(event, PenstockError):
                raise event
            yield event
            if isinstance(event, EndOfStream):
                return

    async def _send(self, frame: pb.ReadRequest, stage: str) -> None:
        try:
            await self._require_open().send(frame, stage, self._deadlines.send_s)
        except PenstockError as error:
            # A source that needs no commits may end after Drained and the last release.
            has_left = error.code == "plugin.stream_ended" and self._rules.drained
            if self.needs_commit or not has_left:
                raise

    def _require_open(self) -> _Control:
        if self._control is None:
            raise InternalError("plugin.not_open", "the stream was not opened")
        return self._control

    def _encode_schema(self, schema_id: int) -> str:
        if schema_id not in self._schema_texts:
            arrow = self._rules.schemas[schema_id].arrow
            text = base64.b64encode(arrow.serialize().to_pybytes()).decode()
            self._schema_texts[schema_id] = text
        return self._schema_texts[schema_id]
