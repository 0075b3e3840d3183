"""The write end of a task that is a plugin: its control stream, held by the driver.

Rows never pass here. An executor puts them with the dict that `ticket` makes:

    kind               "plugin"
    address            gRPC address of the process, `unix:/…` or `host:port`
    credential         value of the metadata key `penstock-credential`
    tls                PEM texts, only for a plugin that is reached over TLS
    task_id, epoch, txn_id, schema_id
    max_message_bytes  largest PutRequest that the plugin takes

The slot is the executor's, the attempt Spark's; the `detail` of its report is empty.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock.model.connector import CommitMode, Target, TaskPlan
from penstock.model.errors import InternalError, PenstockError, SchemaError
from penstock.model.stream import (
    Offsets,
    PreparedTxn,
    PutSlot,
    StreamSchema,
    TxnCommitted,
    WriteOpened,
)
from penstock.plugin import errors
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.streams import schemas, write_rules
from penstock.plugin.streams.source_events import PluginNumbers
from penstock.plugin.streams.stream import ControlStream
from penstock.plugin.streams.write_rules import (
    GRPC_DEFAULT_BYTES,
    WRITE_ENCODINGS,
    StreamLimits,
    duration,
)
from penstock.rpc.tracing import PARENT, carried
from penstock.wire import connector as connector_wire
from penstock.wire import error as error_wire
from penstock.wire import record as record_wire

_log = logging.getLogger(__name__)

_Control: TypeAlias = ControlStream[pb.WriteRequest, pb.WriteResponse]
_Ask: TypeAlias = tuple[str, int]
"""Kind and number of an answer that is awaited: ("prepared", txn_id), ("closed", 0)."""


class PluginWriteStream:
    """Writes one task's transactions. `open` it once, `close` it once; owned by its task."""

    def __init__(
        self,
        process: PluginProcess,
        target: Target,
        plan: TaskPlan,
        *,
        limits: StreamLimits | None = None,
        numbers: PluginNumbers | None = None,
    ) -> None:
        self._numbers = numbers or PluginNumbers()
        self._process, self._target, self._plan = process, target, plan
        self._limits = limits or StreamLimits()
        self._deadlines = process.deadlines
        self._epoch = 0
        self._looks = False
        self._looked = 0
        self._max_message_bytes = GRPC_DEFAULT_BYTES
        self._asked: dict[_Ask, asyncio.Future[Any]] = {}
        self._control: _Control | None = None
        self._pump: asyncio.Task[None] | None = None

    async def open(
        self,
        epoch: int,
        commit_mode: CommitMode,
        last_prepared: PreparedTxn | None,
        recover: bool,
    ) -> WriteOpened:
        """Fence older epochs, apply `last_prepared` again when `recover`; say how commits work.

        `commit_mode` UNSPECIFIED asks for the strongest that the sink has.

        Raises:
            PenstockError: the sink's own diagnostic, `plugin.weaker_commit_mode`, or `plugin.*`.
        """
        if death := self._process.link.death():
            raise death
        self._epoch = epoch
        self._process.link.redact.learn(self._target.secrets.values())
        stub = SinkServiceStub(self._process.link.channel)
        self._control = ControlStream(self._process.link, stub.Write, "plugin.write")
        seconds = self._deadlines.open
        try:
            frame = self._open_frame(commit_mode, last_prepared, recover)
            await self._control.send(frame, "plugin.write.open", seconds)
            answer = await self._opened(self._control, seconds)
            result = write_rules.opened(answer, commit_mode, epoch)
        except BaseException:
            self._control.end()
            raise
        theirs = answer.limits.max_message_bytes or GRPC_DEFAULT_BYTES
        self._max_message_bytes = min(theirs, self._limits.max_message_bytes)
        self._looks = answer.looks
        self._pump = asyncio.create_task(self._run(self._control))
        return result

    async def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the place of a dataset; None when there is none yet, or when the
        plugin does not tell (R16: it is not asked then).
        """
        if not self._looks:
            return None
        self._looked += 1
        look = pb.WriteLook(dataset=dataset, request_id=self._looked)
        ask = ("looked", self._looked)
        frame = pb.WriteRequest(look=look)
        answer = await self._ask(frame, ask, "plugin.write.look", self._deadlines.schema)
        if not answer.arrow_schema:
            return None
        place = record_pb.Schema(dataset=dataset, arrow_schema=answer.arrow_schema)
        return schemas.from_proto(place).arrow

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Make the sink ready for rows of a schema.

        Raises:
            SchemaError: `plugin.schema_refused`, with the sink's reason.
        """
        applied = await self._ask(
            pb.WriteRequest(schema=schemas.to_proto(schema)),
            ("schema_applied", schema.schema_id),
            "plugin.write.schema",
            self._deadlines.schema,
        )
        if applied.refused:
            raise self._refused(schema, applied)

    def ticket(self, txn_id: int, slot: int, schema_id: int) -> dict[str, Any]:  # noqa: ARG002 - the port's; a slot is the executor's
        """Say what an executor needs to put rows into a slot of a transaction."""
        return {
            "kind": "plugin",
            **self._process.dial,
            "task_id": self._plan.task_id,
            "epoch": self._epoch,
            "txn_id": txn_id,
            "schema_id": schema_id,
            "max_message_bytes": self._max_message_bytes,
        }

    async def prepare(
        self, txn_id: int, slots: Sequence[PutSlot], token: bytes, offsets: Offsets
    ) -> PreparedTxn:
        """Make the rows of these attempts durable, and only these."""
        frame = pb.WritePrepare(
            txn_id=txn_id,
            token=token,
            slots=[pb.PutSlot(slot=s.slot, attempt=s.attempt, rows=s.rows) for s in slots],
            rows=sum(s.rows for s in slots),
            offsets={id_: record_wire.offset_to_proto(offset) for id_, offset in offsets.items()},
            traceparent=carried().get(PARENT, ""),
        )
        answer = await self._ask(
            pb.WriteRequest(prepare=frame),
            ("prepared", txn_id),
            "plugin.write.prepare",
            self._deadlines.prepare,
        )
        try:
            return write_rules.prepared(answer, txn_id, self._epoch, token)
        except PenstockError as error:
            raise self._live().fail(error) from None

    async def commit(self, txn_id: int) -> TxnCommitted:
        """Make a prepared transaction visible. Idempotent at the sink.

        Call it only after the offset service stored what `prepare` returned (invariant 1).
        """
        answer = await self._ask(
            pb.WriteRequest(commit=pb.WriteCommit(txn_id=txn_id)),
            ("txn_committed", txn_id),
            "plugin.write.commit",
            self._deadlines.commit,
        )
        return TxnCommitted(answer.txn_id, answer.rows, dict(answer.info))

    async def abort(self, txn_id: int) -> None:
        """Throw a transaction away."""
        frame = pb.WriteRequest(abort=pb.WriteAbort(txn_id=txn_id))
        await self._live().send(frame, "plugin.write.abort", self._deadlines.send)

    async def close(self, grace: float) -> None:
        """Finish and let go. Idempotent; a sink that does not answer in time is let go all the
        same.
        """
        control, pump = self._control, self._pump
        if control is None or pump is None:
            return
        self._pump = None
        if not control.failure:
            frame = pb.WriteRequest(close=pb.WriteClose(grace=duration(grace)))
            seconds = grace + self._deadlines.end
            try:
                await self._ask(frame, ("closed", 0), "plugin.write.close", seconds)
                await control.finish()
            except PenstockError as error:
                _log.warning("plugin %s: %s", self._process.who, error)
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
        control.end()

    def _open_frame(
        self, commit_mode: CommitMode, last_prepared: PreparedTxn | None, recover: bool
    ) -> pb.WriteRequest:
        last = connector_wire.prepared_to_proto(last_prepared) if last_prepared else None
        return pb.WriteRequest(
            open=pb.WriteOpen(
                target=connector_wire.target_to_proto(self._target),
                task=connector_wire.plan_to_proto(self._plan),
                epoch=self._epoch,
                commit_mode=int(commit_mode),  # type: ignore[arg-type] # enums share numbers
                encodings=WRITE_ENCODINGS,
                limits=self._limits.to_proto(),
                last_prepared=last,
                recover=recover,
            )
        )

    async def _opened(self, control: _Control, seconds: float) -> pb.WriteOpened:
        try:
            frame = await control.receive("plugin.write.open", seconds)
        except TimeoutError:
            raise errors.deadline("plugin.write.open", seconds) from None
        if frame is None or frame.WhichOneof("kind") != "opened":
            raise errors.violation("not_opened", "the first frame of Write was not WriteOpened")
        return frame.opened

    async def _ask(self, frame: pb.WriteRequest, ask: _Ask, stage: str, seconds: float) -> Any:
        """Send a frame and wait for the one answer that belongs to it."""
        control = self._live()
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        answer: asyncio.Future[Any] = loop.create_future()
        self._asked[ask] = answer
        slow = loop.call_later(self._deadlines.slow, self._warn, stage, seconds)
        try:
            await control.send(frame, stage, seconds)
            async with asyncio.timeout_at(until):
                return await answer
        except TimeoutError:
            raise control.fail(errors.deadline(stage, seconds)) from None
        finally:
            slow.cancel()
            del self._asked[ask]

    def _warn(self, stage: str, seconds: float) -> None:
        _log.warning(
            "plugin %s has not answered stage %s for %g s; after %g s the task fails",
            self._process.who,
            stage,
            self._deadlines.slow,
            seconds,
        )

    async def _run(self, control: _Control) -> None:
        """Give each answer to who waits for it, and the reason of the end to all of them."""
        try:
            while (frame := await control.receive("plugin.write")) is not None:
                self._take(frame)
            end: PenstockError = errors.stream_ended("Write ended")
        except PenstockError as error:
            end = error
        end = control.fail(end)
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(end)

    def _take(self, frame: pb.WriteResponse) -> None:
        kind = frame.WhichOneof("kind")
        match kind:
            case "schema_applied":
                self._answer((kind, frame.schema_applied.schema_id), frame.schema_applied)
            case "looked":
                self._answer((kind, frame.looked.request_id), frame.looked)
            case "prepared":
                self._answer((kind, frame.prepared.txn.txn_id), frame.prepared)
            case "txn_committed":
                self._answer((kind, frame.txn_committed.txn_id), frame.txn_committed)
            case "closed":
                self._answer((kind, 0), frame.closed)
            case "opened":
                raise errors.violation("second_opened", "WriteOpened came twice")
            case "ask" if frame.ask.rewind:
                # Rows sent again: to ignore it would leave rows out that the sink counts on.
                raise errors.violation(
                    "feature_not_agreed", "SinkAsk.rewind needs a feature that this host has not"
                )
            case "progress":
                self._numbers.take(frame.progress)
            case "diagnostic":
                warning = error_wire.from_proto(frame.diagnostic)
                shown = errors.clean(warning, self._process.link.redact)
                _log.warning("plugin %s: %s", self._process.who, shown)
            case _:
                pass  # R16: what a newer plugin may say

    def _answer(self, ask: _Ask, message: Any) -> None:
        answer = self._asked.get(ask)
        if answer is None or answer.done():
            kind, number = ask
            raise errors.violation("unasked", f"{kind} {number} answers nothing that was asked")
        answer.set_result(message)

    def _refused(self, schema: StreamSchema, applied: pb.SchemaApplied) -> SchemaError:
        link = self._process.link
        why = [errors.clean(error_wire.from_proto(d), link.redact) for d in applied.diagnostics]
        text = "; ".join(d.message for d in why) or "it gave no reason"
        name = errors.printable(schema.dataset, 200)
        return SchemaError(
            "plugin.schema_refused",
            f"plugin {link.who} cannot take a schema of {name!r}: {text}",
            dataset=schema.dataset,
            fix=next((d.fix for d in why if d.fix), ""),
        )

    def _live(self) -> _Control:
        if self._control is None:
            raise InternalError("plugin.not_open", "the stream was not opened")
        return self._control
