"""The sink of a task that is a plugin: its Write stream, which the driver holds.

Rows do not pass through the stream. An executor puts them with the dict that `ticket` returns:

    kind               "plugin"
    address            gRPC address of the process, `unix:/…` or `host:port`
    credential         value of the metadata key `penstock-credential`
    tls                PEM texts, only for a plugin behind TLS
    memory_file        base64 of a MemoryFile; whoever can open it may put batches in memory files
    task_id, epoch, txn_id, schema_id
    max_message_bytes  largest PutRequest that the plugin takes

The executor chooses the slot, Spark the attempt; the `detail` of the report is empty.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock.aio import cancel_and_wait
from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock.model.connector import CommitMode, Target, TaskPlan
from penstock.model.errors import InternalError, PenstockError, SchemaError
from penstock.model.stream import (
    FailedRow,
    FailedRowsError,
    PreparedTxn,
    PutSlot,
    StreamSchema,
    WriteOpened,
)
from penstock.plugin import errors, protocol_rules
from penstock.plugin.limits import GRPC_DEFAULT_BYTES, StreamLimits
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.streams.control_stream import ControlStream
from penstock.plugin.streams.source_events import PluginMetrics
from penstock.rpc.traces import TRACEPARENT, trace_headers
from penstock.wire.connector import PLAN, PREPARED, TARGET
from penstock.wire.error import DIAGNOSTIC

_log = logging.getLogger(__name__)

_MAX_ACTIONS: Final = 100
_MAX_ACTION_CHARS: Final = 500
"""Limits of the actions that a sink took for a schema: each is logged as a line."""

_Control: TypeAlias = ControlStream[pb.WriteRequest, pb.WriteResponse]
_ResponseKey: TypeAlias = tuple[str, int]
"""Kind and number of an expected response: ("prepared", txn_id), ("closed", 0)."""


class PluginSinkStream:
    """Writes the transactions of one task. `open` it once, `close` it once; its task owns it."""

    def __init__(
        self,
        process: PluginProcess,
        target: Target,
        plan: TaskPlan,
        *,
        limits: StreamLimits | None = None,
        metrics: PluginMetrics | None = None,
        tolerates_failed_rows: bool = False,
    ) -> None:
        """`tolerates_failed_rows`: `prepare` may raise `FailedRowsError`."""
        self._tolerates_failed_rows = tolerates_failed_rows
        self._metrics = metrics or PluginMetrics()
        self._process, self._target, self._plan = process, target, plan
        self._limits = limits or StreamLimits()
        self._deadlines = process.deadlines
        self._epoch = 0
        self._reports_columns = False
        self._last_request_id = 0
        self._max_message_bytes = GRPC_DEFAULT_BYTES
        self._expected: dict[_ResponseKey, asyncio.Future[Any]] = {}
        self._control: _Control | None = None
        self._receiver: asyncio.Task[None] | None = None

    async def open(
        self,
        epoch: int,
        commit_mode: CommitMode,
        last_prepared: PreparedTxn | None,
        recover: bool,
    ) -> WriteOpened:
        """Fence older epochs and return how the sink commits.

        With `recover` the sink applies `last_prepared` again. `commit_mode` UNSPECIFIED requests
        the strongest mode that the sink has.

        Raises:
            PenstockError: the diagnostic of the sink, `plugin.weaker_commit_mode`, or `plugin.*`.
        """
        if exit_error := self._process.connection.exit_error():
            raise exit_error
        self._epoch = epoch
        self._process.connection.redact.add_secrets(self._target.secrets.values())
        stub = SinkServiceStub(self._process.connection.channel)
        self._control = ControlStream(self._process.connection, stub.Write)
        timeout_s = self._deadlines.open_s
        try:
            frame = self._open_frame(commit_mode, last_prepared, recover)
            await self._control.send(frame, "plugin.write.open", timeout_s)
            opened = await self._receive_opened(self._control, timeout_s)
            result = protocol_rules.check_opened(opened, commit_mode, epoch)
        except BaseException:
            self._control.cancel()
            raise
        max_sink_bytes = opened.limits.max_message_bytes or GRPC_DEFAULT_BYTES
        self._max_message_bytes = min(max_sink_bytes, self._limits.max_message_bytes)
        self._reports_columns = opened.describes_datasets
        self._receiver = asyncio.create_task(self._receive_frames(self._control))
        return result

    async def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the table or file to which a dataset is written.

        None: it does not exist yet, or the plugin does not report columns; then no request is sent
        (R16).
        """
        if not self._reports_columns:
            return None
        self._last_request_id += 1
        request = pb.DescribeDataset(dataset=dataset, request_id=self._last_request_id)
        described = await self._request(
            pb.WriteRequest(describe=request),
            ("described", self._last_request_id),
            "plugin.write.look",
            self._deadlines.schema_s,
        )
        if not described.arrow_schema:
            return None
        schema = record_pb.Schema(dataset=dataset, arrow_schema=described.arrow_schema)
        return protocol_rules.schema_from_proto(schema).arrow

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Prepare the sink for rows of a schema.

        Raises:
            SchemaError: `plugin.schema_refused`, with the reason of the sink.
        """
        applied = await self._request(
            pb.WriteRequest(schema=protocol_rules.schema_to_proto(schema)),
            ("schema_applied", schema.schema_id),
            "plugin.write.schema",
            self._deadlines.schema_s,
        )
        if applied.refused:
            raise self._schema_refused(schema, applied)
        for action in applied.actions[:_MAX_ACTIONS]:
            text = errors.escape_text(self._process.connection.redact(action), _MAX_ACTION_CHARS)
            _log.info("plugin %s: %s", self._process.name, text)

    def ticket(self, txn_id: int, slot: int, schema_id: int) -> dict[str, Any]:
        """Return what an executor, which chooses the slot, needs to put rows of a transaction."""
        return {
            "kind": "plugin",
            **self._process.dial_info,
            "task_id": self._plan.task_id,
            "epoch": self._epoch,
            "txn_id": txn_id,
            "schema_id": schema_id,
            "max_message_bytes": self._max_message_bytes,
        }

    async def prepare(self, txn_id: int, slots: Sequence[PutSlot], token: bytes) -> PreparedTxn:
        """Make the rows of exactly these attempts durable.

        Raises:
            FailedRowsError: some can never be written.
        """
        frame = pb.WritePrepare(
            txn_id=txn_id,
            token=token,
            slots=[pb.PutSlot(slot=s.slot, attempt=s.attempt, rows=s.rows) for s in slots],
            traceparent=trace_headers().get(TRACEPARENT, ""),
            left_out=[pb.SlotRows(slot=s.slot, rows=s.left_out) for s in slots if s.left_out],
        )
        prepared = await self._request(
            pb.WriteRequest(prepare=frame),
            ("prepared", txn_id),
            "plugin.write.prepare",
            self._deadlines.prepare_s,
        )
        failed = [self._failed_row(row) for row in prepared.failed]
        try:
            if not failed:
                return protocol_rules.check_prepared(prepared, txn_id, self._epoch, token)
            is_tolerant = self._tolerates_failed_rows
            protocol_rules.check_failed_rows(failed, slots, is_tolerant=is_tolerant)
        except PenstockError as error:
            raise self._require_open().fail(error) from None
        raise FailedRowsError(failed)

    def _failed_row(self, row: pb.FailedRow) -> FailedRow:
        reason = DIAGNOSTIC.from_proto(row.reason)
        redact = self._process.connection.redact
        return FailedRow(row.slot, row.row, errors.clean_diagnostic(reason, redact))

    async def commit(self, txn_id: int) -> None:
        """Make a prepared transaction visible. Idempotent at the sink.

        Call it only after the offset service has stored what `prepare` returned (invariant 1).
        """
        await self._request(
            pb.WriteRequest(commit=pb.WriteCommit(txn_id=txn_id)),
            ("txn_committed", txn_id),
            "plugin.write.commit",
            self._deadlines.commit_s,
        )

    async def close(self, grace_s: float) -> None:
        """End the stream: the sink may finish within `grace_s`, then the call ends. Idempotent."""
        control, receiver = self._control, self._receiver
        if control is None or receiver is None:
            return
        self._receiver = None
        if not control.failure:
            frame = pb.WriteRequest(close=pb.WriteClose())
            timeout_s = grace_s + self._deadlines.end_s
            try:
                await self._request(frame, ("closed", 0), "plugin.write.close", timeout_s)
                await control.finish_sending()
            except PenstockError as error:
                _log.warning("plugin %s: %s", self._process.name, error)
        await cancel_and_wait(receiver)
        control.cancel()

    def _open_frame(
        self, commit_mode: CommitMode, last_prepared: PreparedTxn | None, recover: bool
    ) -> pb.WriteRequest:
        last = PREPARED.to_proto(last_prepared) if last_prepared else None
        return pb.WriteRequest(
            open=pb.WriteOpen(
                target=TARGET.to_proto(self._target),
                task=PLAN.to_proto(self._plan),
                epoch=self._epoch,
                commit_mode=int(commit_mode),  # type: ignore[arg-type] # enums share numbers
                last_prepared=last,
                recover=recover,
                tolerates_failed_rows=self._tolerates_failed_rows,
            )
        )

    async def _receive_opened(self, control: _Control, timeout_s: float) -> pb.WriteOpened:
        try:
            frame = await control.receive("plugin.write.open", timeout_s)
        except TimeoutError:
            raise errors.deadline_exceeded("plugin.write.open", timeout_s) from None
        if frame is None or frame.WhichOneof("kind") != "opened":
            raise errors.protocol_violation(
                "not_opened", "the first frame of Write was not WriteOpened"
            )
        return frame.opened

    async def _request(
        self, frame: pb.WriteRequest, key: _ResponseKey, stage: str, timeout_s: float
    ) -> Any:
        """Send a frame and return the response that belongs to it."""
        control = self._require_open()
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        response: asyncio.Future[Any] = loop.create_future()
        self._expected[key] = response
        slow = loop.call_later(self._deadlines.slow_s, self._warn_slow, stage, timeout_s)
        try:
            await control.send(frame, stage, timeout_s)
            async with asyncio.timeout_at(until):
                return await response
        except TimeoutError:
            raise control.fail(errors.deadline_exceeded(stage, timeout_s)) from None
        finally:
            slow.cancel()
            del self._expected[key]

    def _warn_slow(self, stage: str, timeout_s: float) -> None:
        _log.warning(
            "plugin %s has not answered stage %s for %g s; the task fails after %g s",
            self._process.name,
            stage,
            self._deadlines.slow_s,
            timeout_s,
        )

    async def _receive_frames(self, control: _Control) -> None:
        """Deliver each response to its request, and the error of the end to all open requests."""
        try:
            while (frame := await control.receive("plugin.write")) is not None:
                self._handle_frame(frame)
            end: PenstockError = errors.stream_ended("Write ended")
        except PenstockError as error:
            end = error
        end = control.fail(end)
        for response in self._expected.values():
            if not response.done():
                response.set_exception(end)

    def _handle_frame(self, frame: pb.WriteResponse) -> None:
        kind = frame.WhichOneof("kind")
        match kind:
            case "schema_applied":
                self._deliver((kind, frame.schema_applied.schema_id), frame.schema_applied)
            case "described":
                self._deliver((kind, frame.described.request_id), frame.described)
            case "prepared":
                self._deliver((kind, frame.prepared.txn.txn_id), frame.prepared)
            case "txn_committed":
                self._deliver((kind, frame.txn_committed.txn_id), frame.txn_committed)
            case "closed":
                self._deliver((kind, 0), frame.closed)
            case "opened":
                raise errors.protocol_violation("second_opened", "WriteOpened came twice")
            case "progress":
                self._metrics.update(frame.progress)
            case _:
                pass  # R16: a frame of a newer protocol version

    def _deliver(self, key: _ResponseKey, message: Any) -> None:
        response = self._expected.get(key)
        if response is None or response.done():
            kind, number = key
            raise errors.protocol_violation("unasked", f"{kind} {number} answers no open request")
        response.set_result(message)

    def _schema_refused(self, schema: StreamSchema, applied: pb.SchemaApplied) -> SchemaError:
        connection = self._process.connection
        why = [
            errors.clean_diagnostic(DIAGNOSTIC.from_proto(d), connection.redact)
            for d in applied.diagnostics
        ]
        text = "; ".join(d.message for d in why) or "the sink gave no reason"
        name = errors.escape_text(schema.dataset, 200)
        return SchemaError(
            "plugin.schema_refused",
            f"plugin {connection.name} refuses a schema of {name!r}: {text}",
            dataset=schema.dataset,
            fix=next((d.fix for d in why if d.fix), ""),
        )

    def _require_open(self) -> _Control:
        if self._control is None:
            raise InternalError("plugin.not_open", "the stream was not opened")
        return self._control
