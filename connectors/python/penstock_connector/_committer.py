"""One task of a sink: its transactions, from Open to Close.

Control calls of the author run in one thread of the task, puts in the plugin's shared threads; the
event loop never runs an author's code.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock_connector import _frames
from penstock_connector._errors import (
    ConnectorError,
    FencedError,
    RetriableError,
    SchemaError,
    as_connector_error,
)
from penstock_connector._logs import set_task
from penstock_connector._sink import FailedRowsError, Refused, Staging, TransactionalSink
from penstock_connector._staging import Stage, StagedSchema, Stages, check_rows
from penstock_connector._tracing import within
from penstock_connector._values import (
    CommitMode,
    PreparedTxn,
    prepared_from_proto,
    prepared_to_proto,
)

T = TypeVar("T")

_PUTS_END_WITHIN: Final = 30.0
"""Seconds that Prepare waits for a named put to end. The host names a slot only when its put was
answered, so this covers the closing of staged files; longer would hide a hung staging."""

_STATE_MOST: Final = 64 << 10
"""Bytes of prepared state (rule R12): it is stored in one write with the offsets."""


_FAILED_MOST: Final = 1_000
_FAILED_BYTES_MOST: Final = 2 << 20
"""Failed rows of an answer, and bytes of it: it is one message."""


class _Prepared(NamedTuple):
    """A transaction that waits for its commit, which is a part of the same trace."""

    state: bytes
    traceparent: str


class Committer:
    """Runs a sink. All methods are called from the event loop."""

    def __init__(
        self, sink: TransactionalSink[Any], puts: Executor, *, name: str, task_id: str, epoch: int
    ) -> None:
        self.task_id = task_id
        self.metrics = sink.metrics
        self.epoch = epoch
        self.error: ConnectorError | None = None
        self.ended = asyncio.Event()
        self.stopped = asyncio.Event()
        self._closed = False
        self._sink = sink
        self._name = name
        self._puts = puts
        self._control = ThreadPoolExecutor(1, thread_name_prefix=f"write-{task_id}")
        self._schemas: dict[int, StagedSchema] = {}
        self._stages = Stages()
        self._prepared: dict[int, _Prepared] = {}
        self._failed: dict[int, deque[pb.FailedRow]] = {}

    async def open(self, config: Any, order: pb.WriteOpen) -> PreparedTxn | None:
        """Open the sink. A transaction that may not have been applied is applied again, before any
        new row comes (rule R12). Returns the last transaction of a SINK mode sink.
        """
        set_task(self.task_id, self.epoch)
        last = prepared_from_proto(order.last_prepared) if order.HasField("last_prepared") else None
        self._sink.tolerates_failed_rows = order.tolerates_failed_rows
        await self._run("init", lambda: self._sink.init(config))
        await self._run("connect", lambda: self._sink.connect(self.task_id, self.epoch))
        if last is not None and order.recover:
            await self._run("recover", lambda: self._sink.recover(last))
        done = last.txn_id if last else 0
        committed = None
        if CommitMode.SINK in self._sink.commit_modes:
            committed = _txn(await self._run("committed", self._sink.committed))
            done = max(done, committed.txn_id if committed else 0)
        await self._run("sweep", lambda: self._sink.sweep(done))
        self._stages = Stages(done)
        return committed

    async def describe(self, request: pb.DescribeDataset) -> pb.DatasetDescribed:
        """Tell which columns the place of a dataset has."""
        place = await self._run("columns", lambda: self._sink.columns(request.dataset))
        schema = b"" if place is None else _frames.encode_schema(place)
        return pb.DatasetDescribed(request_id=request.request_id, arrow_schema=schema)

    async def apply_schema(self, schema: record_pb.Schema) -> pb.SchemaApplied:
        """Get ready for rows of a schema; a refusal is an answer, not the end of the task."""
        arrow = _frames.decode_schema(schema.arrow_schema)
        keys = tuple(schema.key_columns)
        try:
            actions = await self._run(
                "apply_schema", lambda: self._sink.apply_schema(schema.dataset, arrow, keys)
            )
        except SchemaError as error:
            return pb.SchemaApplied(
                schema_id=schema.schema_id, refused=True, diagnostics=[error.diagnostic()]
            )
        self._schemas[schema.schema_id] = StagedSchema(schema.dataset, arrow)
        return pb.SchemaApplied(schema_id=schema.schema_id, actions=actions or ())

    # ── puts ─────────────────────────────────────────────────────────────────────────────────────

    async def begin_put(self, txn_id: int, slot: int, attempt: int) -> Stage:
        """Start an attempt at a slot."""
        stage, older = self._stages.begin(txn_id, slot, attempt)
        if older is not None:
            await self._discard(older)
        return stage

    async def _discard(self, stage: Stage, *, ended: bool = False) -> None:
        async with stage.in_use:
            await self._run("discard", stage.discard, self._puts, ended=ended)

    async def put(
        self, stage: Stage, batch: record_pb.Batch, data: bytes | pa.Buffer
    ) -> pb.BatchResult:
        """Stage a batch and answer for every row of it (rule R7)."""
        if batch.seq != stage.last_seq + 1:
            raise ConnectorError(
                "wire.seq.gap", f"expected batch {stage.last_seq + 1} of the put, got {batch.seq}"
            )
        if batch.encoding != record_pb.ENCODING_ARROW_IPC:
            raise ConnectorError("wire.encoding", "only Arrow IPC batches are taken")
        schema = self._schemas.get(batch.schema_id)
        if schema is None:
            raise ConnectorError(
                "wire.schema.unknown", f"schema {batch.schema_id} was not sent before its rows"
            )
        stage.last_seq = batch.seq
        rows = _frames.decode_rows(data, schema.arrow)
        async with stage.in_use:
            refused = await self._run(
                "put", lambda: self._put(stage, batch, rows, schema), self._puts
            )
        stage.rows += rows.num_rows - len(refused or ())
        stage.batches.append((batch.schema_id, rows.num_rows))
        return pb.BatchResult(
            seq=batch.seq,
            all_ok=not refused,
            failed=[
                pb.RowError(row=row, reason=error.diagnostic()) for row, error in refused or ()
            ],
        )

    def _put(
        self, stage: Stage, batch: record_pb.Batch, rows: pa.RecordBatch, schema: StagedSchema
    ) -> Refused:
        if stage.dropped:
            raise ConnectorError(
                "sink.slot.dropped",
                f"attempt {stage.attempt} at slot {stage.slot} was dropped: another one counts",
            )
        staging = stage.stagings.get(batch.schema_id)
        if staging is None:
            staging = self._sink.stage(
                stage.txn_id, stage.slot, stage.attempt, schema.dataset, schema.arrow
            )
            stage.stagings[batch.schema_id] = staging
        return staging.put(rows)

    async def end_put(self, stage: Stage) -> None:
        """Close the stagings of a put that came to its end."""
        async with stage.in_use:
            await self._run("close", stage.close, self._puts)
        stage.complete = True

    # ── transactions ─────────────────────────────────────────────────────────────────────────────

    async def prepare(self, order: pb.WritePrepare) -> pb.Prepared:
        """Make the named attempts safe, drop all others. Rows that failed are an answer, where they
        are tolerated: the order comes again without them.
        """
        counted, others = self._stages.named(order.txn_id, order.slots)
        await self._wait_for_puts(counted)
        check_rows(counted, order.slots)
        self._stages.end(order.txn_id)
        for stage in others:
            await self._discard(stage)
        state, failed = b"", self._failed.pop(order.txn_id, deque())
        if not failed:
            await self._run("leave_out", lambda: _leave_out(counted, order))
            staged = [staging for stage in counted for staging in stage.stagings.values()]
            try:
                with within(order.traceparent):
                    state = await self._run("prepare", lambda: self._prepare(order, staged))
            except FailedRowsError as error:
                if not self._sink.tolerates_failed_rows:
                    raise
                failed = _failed_rows(counted, error)
        if failed:
            self._stages.keep(order.txn_id, counted)
            self._failed[order.txn_id] = failed
            return _name_failed(order.txn_id, failed)
        self._prepared[order.txn_id] = _Prepared(state, order.traceparent)
        prepared = PreparedTxn(order.txn_id, self.epoch, state, order.token)
        return pb.Prepared(txn=prepared_to_proto(prepared))

    def _prepare(self, order: pb.WritePrepare, staged: list[Staging]) -> bytes:
        state = self._sink.prepare(order.txn_id, self.epoch, staged, order.token) or b""
        if len(state) > _STATE_MOST:
            raise ConnectorError(
                "sink.state.too_large",
                f"prepare returned {len(state)} bytes of state; {_STATE_MOST} are the limit",
                fix="Write large state to the sink, and return only its name.",
            )
        return bytes(state)

    async def _wait_for_puts(self, stages: list[Stage]) -> None:
        try:
            async with asyncio.timeout(_PUTS_END_WITHIN):
                for stage in stages:
                    await stage.ended.wait()
        except TimeoutError as error:
            raise RetriableError(
                "sink.put.unfinished",
                f"prepare: a named put did not end within {_PUTS_END_WITHIN:g} s",
            ) from error

    async def commit(self, txn_id: int) -> pb.TxnCommitted:
        """Make a prepared transaction visible."""
        if txn_id not in self._prepared:
            raise ConnectorError(
                "sink.txn.not_prepared", f"transaction {txn_id} was not prepared in this stream"
            )
        done = self._prepared[txn_id]
        with within(done.traceparent):
            await self._run("commit", lambda: self._sink.commit(txn_id, self.epoch, done.state))
        del self._prepared[txn_id]
        return pb.TxnCommitted(txn_id=txn_id)

    # ── end ──────────────────────────────────────────────────────────────────────────────────────

    def fail(self, error: ConnectorError) -> None:
        """End with an error: nothing of this epoch is written after it (invariant 4)."""
        self.error = self.error or error
        self._sink.stopping.set()
        self.stopped.set()

    async def close(self) -> None:
        """Drop what was not prepared and close the sink; only the first call does anything.

        What was prepared stays: after a crash `recover` needs it.
        """
        if self._closed:
            return
        self._closed = True
        try:
            for stage in self._stages.drop_all():
                await self._discard(stage, ended=True)
            await self._run("close", self._sink.close, ended=True)
        finally:
            self._control.shutdown(wait=False)
            self.ended.set()

    async def _run(
        self,
        stage: str,
        method: Callable[[], T],
        executor: Executor | None = None,
        *,
        ended: bool = False,
    ) -> T:
        """Run a method of the author in a thread; its errors name it."""

        def call() -> T:
            if (self.error or self._closed) and not ended:
                raise self.error or FencedError("task.closed", "the task is closed")
            return method()

        threads, context = executor or self._control, contextvars.copy_context()
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, context.run, call)
        except Exception as error:
            raise as_connector_error(error, f"{self._name}.{stage}") from error


def _leave_out(stages: list[Stage], order: pb.WritePrepare) -> None:
    """Remove the rows that the host leaves out."""
    rows = {one.slot: one.rows for one in order.left_out}
    for stage in stages:
        if stage.slot in rows:
            stage.leave_out(rows[stage.slot])


def _failed_rows(stages: list[Stage], error: FailedRowsError) -> deque[pb.FailedRow]:
    """Return failed rows by their slots, in order."""
    found = [
        pb.FailedRow(slot=stage.slot, row=stage.number_of(staging, row), reason=why.diagnostic())
        for staging, row, why in error.rows
        for stage in stages
        if any(one is staging for one in stage.stagings.values())
    ]
    if len(found) != len(error.rows):
        raise ConnectorError(
            "connector.defect",
            "a failed row is named in a staging that was not put",
            fix="Name rows by the stagings that `prepare` gets.",
        )
    return deque(sorted(found, key=lambda one: (one.slot, one.row)))


def _name_failed(txn_id: int, failed: deque[pb.FailedRow]) -> pb.Prepared:
    """Return an answer with the first failed rows; the others are left for the next one."""
    answer, size = pb.Prepared(txn=pb.PreparedTxn(txn_id=txn_id)), 0
    while failed and len(answer.failed) < _FAILED_MOST and size < _FAILED_BYTES_MOST:
        size += failed[0].ByteSize()
        answer.failed.append(failed.popleft())
    return answer


def _txn(last: PreparedTxn | tuple[int, int, bytes] | None) -> PreparedTxn | None:
    if last is None or isinstance(last, PreparedTxn):
        return last
    txn_id, epoch, token = last
    return PreparedTxn(txn_id, epoch, b"", token)
