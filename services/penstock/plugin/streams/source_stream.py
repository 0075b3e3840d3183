"""The read end of a task that is a plugin: its control stream, held by the driver.

Rows never pass here. An executor fetches them with the dict that `ticket` makes:

    kind        "plugin"
    address     gRPC address of the process, `unix:/…` or `host:port`
    credential  value of the metadata key `penstock-credential`
    tls         PEM texts, only for a plugin that is reached over TLS
    task_id, epoch, schema_id
    encoding    that of the rows, as agreed on
    seqs        the batches to fetch, in this order
    bytes       the bytes that each of them was announced with
    schema      base64 of the Arrow IPC schema message that all of them have
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeAlias

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.model.connector import Target, TaskPlan
from penstock.model.errors import InternalError, PenstockError
from penstock.model.stream import BadRow, Drained, ReadEvent
from penstock.plugin import errors
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.streams.read_rules import MOST_BATCHES, ReadRules
from penstock.plugin.streams.source_events import PluginNumbers, Reader
from penstock.plugin.streams.stream import ControlStream, missed, silence
from penstock.plugin.streams.write_rules import READ_ENCODINGS, StreamLimits, duration
from penstock.wire import connector as connector_wire

_log = logging.getLogger(__name__)

_MOST_EVENTS: Final = 256
"""Events that wait for the task. When it is full the stream is not read, and gRPC's flow control
stops the plugin."""
_LARGE_ROW: Final = 64 * 1024

_End: TypeAlias = "PenstockError | None"
_Control: TypeAlias = ControlStream[pb.ReadRequest, pb.ReadResponse]


class PluginReadStream:
    """Reads one task's partitions from where their offsets say. `open` it once, `close` it once.

    Owned by its task; the process is shared. Costs nothing while the source has nothing to tell.
    """

    def __init__(
        self,
        process: PluginProcess,
        target: Target,
        plan: TaskPlan,
        epoch: int,
        *,
        credit_bytes: int | None = None,
        limits: StreamLimits | None = None,
        numbers: PluginNumbers | None = None,
    ) -> None:
        self._process, self._target, self._plan, self._epoch = process, target, plan, epoch
        self._limits = limits or StreamLimits()
        self._credit_bytes = credit_bytes or self._limits.credit_bytes
        self._deadlines = process.deadlines
        planned = None if plan.finds_others else {partition.id for partition in plan.partitions}
        self._rules = ReadRules(self._credit_bytes, planned)
        self._reader = Reader(
            self._rules, process.link.redact, process.who, numbers or PluginNumbers()
        )
        self._events: asyncio.Queue[ReadEvent | _End] = asyncio.Queue(_MOST_EVENTS)
        self._silence: float | None = None
        self._control: _Control | None = None
        self._pump: asyncio.Task[None] | None = None
        self._schema_texts: dict[int, str] = {}
        self._committed = 0
        self._encoding: int = READ_ENCODINGS[0]
        self.needs_commit = False
        """Whether the source wants to be told of commits; set by `open`."""
        self.confirms = False
        """Whether the source says what it was told; set by `open`."""

    async def open(self) -> None:
        """Start reading at the offsets of the plan.

        Raises:
            PenstockError: the source's own diagnostic, or `plugin.*`.
        """
        if death := self._process.link.death():
            raise death
        self._process.link.redact.learn(self._target.secrets.values())
        stub = SourceServiceStub(self._process.link.channel)
        self._control = ControlStream(self._process.link, stub.Read, "plugin.read")
        seconds = self._deadlines.open
        try:
            await self._control.send(self._open_frame(), "plugin.read.open", seconds)
            await self._opened(seconds)
        except BaseException:
            self._control.end()
            raise
        self._pump = asyncio.create_task(self._run(self._control))

    def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Iterate over events; ends after `Drained`, raises when the stream is lost."""
        return self._iterate()

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Say what an executor needs to fetch exactly these batches, in this order."""
        gone = [seq for seq in seqs if not self._rules.fetchable(seq)]
        if gone:
            raise InternalError(
                "plugin.ticket", f"batches {gone[:10]} of {self._plan.task_id} cannot be fetched"
            )
        return {
            "kind": "plugin",
            **self._process.dial,
            "task_id": self._plan.task_id,
            "epoch": self._epoch,
            "schema_id": schema_id,
            "encoding": self._encoding,
            "seqs": list(seqs),
            "bytes": [self._rules.announced_bytes(seq) for seq in seqs],
            "schema": self._schema_text(schema_id),
        }

    async def committed(self, checkpoint_id: int) -> None:
        """Tell the source that everything up to a checkpoint is durable. Cumulative (R2).

        Call it only after the offset service's write (invariant 2). Raises when it could not be
        told: it is never dropped.
        """
        if not self._committed <= checkpoint_id <= self._rules.last_checkpoint:
            raise InternalError(
                "plugin.committed_order",
                f"checkpoint {checkpoint_id} cannot follow {self._committed} of "
                f"{self._rules.last_checkpoint}",
            )
        self._rules.tell(checkpoint_id)
        frame = pb.ReadRequest(committed=pb.ReadCommitted(checkpoint_id=checkpoint_id))
        await self._send(frame, "plugin.read.committed")
        self._committed = checkpoint_id

    async def release(self, seq: int) -> None:
        """Say that batches up to `seq` will not be fetched again. Cumulative.

        Credit is a window over what is ready, so a release is what gives it back.
        """
        if self._rules.release(seq):
            frame = pb.ReadRequest(release=pb.ReadRelease(seq=seq))
            await self._send(frame, "plugin.read.release")

    async def pause(self, paused: bool) -> None:
        """Stop or start reading all partitions; what is ready stays ready."""
        ids = [partition.id for partition in self._plan.partitions]
        frame = pb.ReadPause(
            all_partitions=True, pause=ids if paused else [], resume=[] if paused else ids
        )
        await self._send(pb.ReadRequest(pause=frame), "plugin.read.pause")

    async def drain(self, grace: float) -> None:
        """Ask for the end: what is in hand, a last checkpoint, then `Drained`."""
        if self._rules.drained:
            return
        self._reader.draining = True
        seconds = grace + self._deadlines.end
        self._live().fail_after("drain", seconds, errors.deadline("plugin.read.drain", seconds))
        frame = pb.ReadRequest(drain=pb.ReadDrain(grace=duration(grace)))
        await self._send(frame, "plugin.read.drain")

    async def close(self) -> None:
        """Let go. Idempotent. After `Drained` the source may first read what it was told last."""
        control, pump = self._control, self._pump
        if control is None or pump is None:
            return
        if self._rules.drained and not control.failure:
            await control.finish()
            await asyncio.wait([pump], timeout=self._deadlines.end)
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
        control.end()

    def statistics(self) -> dict[str, int]:
        """Return bytes that are ready, and events that wait for the task."""
        return {"held_bytes": self._rules.held, "waiting_events": self._events.qsize()}

    def _open_frame(self) -> pb.ReadRequest:
        return pb.ReadRequest(
            open=pb.ReadOpen(
                target=connector_wire.target_to_proto(self._target),
                task=connector_wire.plan_to_proto(self._plan),
                epoch=self._epoch,
                encodings=READ_ENCODINGS,
                limits=self._limits.to_proto(),
                credit=types_pb2.Credit(bytes=self._credit_bytes, batches=MOST_BATCHES),
            )
        )

    async def _opened(self, seconds: float) -> None:
        try:
            frame = await self._live().receive("plugin.read.open", seconds)
        except TimeoutError:
            raise errors.deadline("plugin.read.open", seconds) from None
        if frame is None or frame.WhichOneof("kind") != "opened":
            raise errors.violation("not_opened", "the first frame of Read was not ReadOpened")
        opened = frame.opened
        if opened.encoding not in READ_ENCODINGS:
            raise errors.violation("encoding", f"encoding {opened.encoding} was not offered")
        self._encoding = opened.encoding
        self._silence = silence(opened.heartbeat_every)
        self.needs_commit = opened.needs_commit
        self.confirms = opened.confirms_commits

    async def _run(self, control: _Control) -> None:
        """Take frames until the end, which is the last thing put into the queue."""
        end: _End = None
        try:
            while (frame := await self._frame(control)) is not None:
                event = self._reader.event(frame)
                if event is not None:
                    await self._put(event)
                if isinstance(event, Drained):
                    control.forget("drain")
            if not self._rules.drained:
                end = errors.stream_ended("Read ended without Drained")
        except PenstockError as error:
            end = error
        if end is not None:
            control.fail(end)
        if not self._rules.drained:
            await self._events.put(end)

    async def _put(self, event: ReadEvent) -> None:
        await self._events.put(event)
        if isinstance(event, BadRow) and len(event.raw) > _LARGE_ROW:
            await self._events.join()  # one large row waits at a time (invariant 12)

    async def _frame(self, control: _Control) -> pb.ReadResponse | None:
        # After Drained nothing is due, not even a heartbeat.
        seconds = None if self._rules.drained else self._silence
        try:
            return await control.receive("plugin.read", seconds)
        except TimeoutError:
            raise missed(self._process.who, seconds or 0.0) from None

    async def _iterate(self) -> AsyncIterator[ReadEvent]:
        while True:
            event = await self._events.get()
            self._events.task_done()
            if event is None:
                return
            if isinstance(event, PenstockError):
                raise event
            yield event
            if isinstance(event, Drained):
                return

    async def _send(self, frame: pb.ReadRequest, stage: str) -> None:
        try:
            await self._live().send(frame, stage, self._deadlines.send)
        except PenstockError as error:
            # A source that asked for no commits may leave once it is drained and all is released.
            left = error.code == "plugin.stream_ended" and self._rules.drained
            if self.needs_commit or not left:
                raise

    def _live(self) -> _Control:
        if self._control is None:
            raise InternalError("plugin.not_open", "the stream was not opened")
        return self._control

    def _schema_text(self, schema_id: int) -> str:
        if schema_id not in self._schema_texts:
            arrow = self._rules.schemas[schema_id].arrow
            text = base64.b64encode(arrow.serialize().to_pybytes()).decode()
            self._schema_texts[schema_id] = text
        return self._schema_texts[schema_id]
