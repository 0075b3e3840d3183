"""Test a connector over the real wire, in the process of the test.

    with source_task(Counter, {"limit": "100"}) as task:
        rows = task.rows(10)
        task.commit()
    with source_task(Counter, {"limit": "100"}, offsets=task.offsets) as task:
        more = task.rows(10)          # goes on where the last commit was

    with sink_task(JsonLines, {"path": path}) as task:
        task.write([{"id": 1}], dataset="orders")

    with transform_task(Mask, {"fields": "pin"}) as task:
        rows = task.apply([{"pin": 1}]).rows

Everything has a deadline: a connector that hangs fails its test.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1 import types_pb2 as types_pb
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock_connector import _frames
from penstock_connector._rows import Cut, Schemas, to_arrow
from penstock_connector._sink import AnySink
from penstock_connector._source import Rows, Source
from penstock_connector._testbed import DEADLINE, Call, RemoteError, Testbed
from penstock_connector._testcontrol import (
    alter_offsets,
    apply_action,
    as_remote_error,
    list_datasets,
    parse_rows,
    plan,
    send_signal,
    target_of,
    validate,
)
from penstock_connector._testmonitor import MonitorTask, source_monitor
from penstock_connector._testtransform import (
    ConverterTask,
    TransformTask,
    converter_task,
    transform_task,
)
from penstock_connector._values import (
    CommitMode,
    Partition,
    PreparedTxn,
    partition_to_proto,
    prepared_from_proto,
    prepared_to_proto,
)
from penstock_values.identity import partition_key
from penstock_values.messages import offset_from_proto
from penstock_values.partition_ranges import OwnPartitions

__all__ = [
    "Call",
    "ConverterTask",
    "MonitorTask",
    "RemoteError",
    "SinkTask",
    "SourceTask",
    "Testbed",
    "TransformTask",
    "alter_offsets",
    "apply_action",
    "converter_task",
    "list_datasets",
    "parse_rows",
    "plan",
    "send_signal",
    "sink_task",
    "source_monitor",
    "source_task",
    "transform_task",
    "validate",
]

_CREDIT: Final = 64 << 20

Offsets = Mapping[str, Mapping[str, Any]]


class SourceTask:
    """A task of a source, seen from the host.

    Attributes:
        offsets: Offsets of the checkpoints that were committed: where the next task goes on.
        seen: Frames received so far, but for heartbeats.
        metrics: The newest numbers that the source has of itself.
    """

    def __init__(self, bed: Testbed, order: source_pb.ReadOpen) -> None:
        self.offsets: dict[str, dict[str, Any]] = {}
        self.seen: list[source_pb.ReadResponse] = []
        self.metrics: dict[str, float] = {}
        self.schemas: dict[int, pa.Schema] = {}
        self._pending: dict[str, dict[str, Any]] = {}
        self._checkpoint = 0
        self._shutdown: object = None
        self._bed = bed
        self._order = order
        self._stub = SourceServiceStub(bed.channel)
        self.call: Call[source_pb.ReadRequest, source_pb.ReadResponse] = Call(
            self._stub.Read, bed.metadata
        )
        self.send(open=order)
        first = self.event()
        assert first is not None  # noqa: S101 - a test helper: the claim is checked
        assert first.HasField("opened")  # noqa: S101 - as above
        self.opened = first.opened

    def send(self, **frame: Any) -> None:
        """Send a frame, for instance `send(release=ReadRelease(seq=1))`."""
        self.call.send(source_pb.ReadRequest(**frame))

    def event(self, timeout: float = DEADLINE) -> source_pb.ReadResponse | None:
        """Return the next frame that is no heartbeat; None at the end of the stream."""
        end = time.monotonic() + timeout
        while (frame := self.call.receive(max(0.0, end - time.monotonic()))) is not None:
            if frame.WhichOneof("kind") != "progress":
                self._note(frame)
                return frame
            self.metrics = dict(frame.progress.metrics)
        return None

    def until(self, kind: str, timeout: float = DEADLINE) -> source_pb.ReadResponse:
        """Return the next frame of a kind, for instance `checkpoint`.

        Raises:
            TimeoutError: None came in time, whatever else came.
            EOFError: The stream ended.
        """
        end = time.monotonic() + timeout
        while True:
            try:
                frame = self.event(max(0.0, end - time.monotonic()))
            except TimeoutError:
                raise TimeoutError(f"no {kind} came within {timeout:g} s") from None
            if frame is None:
                raise EOFError(f"the stream ended without {kind}")
            if frame.WhichOneof("kind") == kind:
                return frame

    def rows(self, count: int) -> list[dict[str, Any]]:
        """Return at least that many rows, up to the end of the batch they end in."""
        rows: list[dict[str, Any]] = []
        while len(rows) < count:
            ready = self.until("ready").ready
            rows += self.fetch(ready.seq).to_pylist()
        return rows

    def all_rows(self) -> list[dict[str, Any]]:
        """Return the rows of a bounded source, up to its end."""
        rows: list[dict[str, Any]] = []
        while (frame := self.event()) is not None and not frame.HasField("drained"):
            if frame.HasField("ready"):
                rows += self.fetch(frame.ready.seq).to_pylist()
                self.release(frame.ready.seq)
        return rows

    def fetch(self, seq: int, *, epoch: int | None = None) -> pa.RecordBatch:
        """Return an announced batch."""
        frames = self.fetch_frames(seq, epoch=epoch)
        data = b"".join(frame.batch.data for frame in frames)
        return _frames.decode_rows(data, self.schemas[frames[0].batch.schema_id])

    def fetch_frames(self, seq: int, *, epoch: int | None = None) -> list[source_pb.FetchResponse]:
        """Return the frames of an announced batch."""
        request = source_pb.FetchRequest(
            task_id=self._order.task.task_id,
            epoch=self._order.epoch if epoch is None else epoch,
            from_seq=seq,
            to_seq=seq,
        )
        call = self._stub.Fetch(request, metadata=self._bed.metadata, timeout=DEADLINE)
        try:
            return _all(call)
        except RemoteError as error:
            if error.code == "task.not_open":
                self._raise_why_it_ended()
            raise

    def _raise_why_it_ended(self) -> None:
        """Raise the error by which the task ended, if it was one: a fetch may come after it."""
        while self.event() is not None:
            pass

    def commit(self) -> None:
        """Tell the source that everything up to the last checkpoint seen is durable."""
        self.offsets.update(self._pending)
        self.send(committed=source_pb.ReadCommitted(checkpoint_id=self._checkpoint))

    def release(self, seq: int) -> None:
        """Let all batches up to a number go; their credit comes back with them."""
        self.send(release=source_pb.ReadRelease(seq=seq))

    def drain(self, grace: float = 5.0) -> source_pb.Drained:
        """Shut the plugin down, as its host does at the end; return how the task ended."""
        order = plugin_pb.ShutdownRequest()
        order.grace.FromMilliseconds(int(grace * 1000))
        stub = PluginServiceStub(self._bed.channel)
        # gRPC cancels a call whose future is collected
        self._shutdown = stub.Shutdown.future(order, metadata=self._bed.metadata, timeout=DEADLINE)
        return self.until("drained").drained

    def _note(self, frame: source_pb.ReadResponse) -> None:
        self.seen.append(frame)
        if frame.HasField("schema"):
            schema = _frames.decode_schema(frame.schema.arrow_schema)
            self.schemas[frame.schema.schema_id] = schema
        elif frame.HasField("checkpoint"):
            self._checkpoint = frame.checkpoint.checkpoint_id
            for id_, offset in frame.checkpoint.offsets.items():
                self._pending[id_] = offset_from_proto(offset)


@contextmanager
def source_task(
    kind: type[Source[Any]],
    config: Mapping[str, str],
    *,
    offsets: Offsets | None = None,
    credit: int = _CREDIT,
    batches: int = 0,
    epoch: int = 1,
    limits: types_pb.Limits | None = None,
    until_caught_up: bool = False,
    bed: Testbed | None = None,
) -> Iterator[SourceTask]:
    """Run one task with all partitions that the source plans.

    Args:
        kind: The source.
        config: Its configuration, as text.
        offsets: Where to start, by partition id: `SourceTask.offsets` of an earlier run. Those that
            are not planned come back as partitions where the source finds them by itself.
        credit: Bytes that the source may hold ready.
        batches: Batches that it may hold ready; 0 for any number.
        epoch: The task's epoch.
        limits: Limits of the host.
        until_caught_up: The task is to end when it has caught up.
        bed: A server to use; one of its own when None.
    """
    if bed is None:
        with (
            Testbed(kind) as own,
            source_task(
                kind,
                config,
                offsets=offsets,
                credit=credit,
                batches=batches,
                epoch=epoch,
                limits=limits,
                until_caught_up=until_caught_up,
                bed=own,
            ) as task,
        ):
            yield task
        return
    planned = plan(kind, config, bed=bed)
    partitions = [
        partition_to_proto(replace(partition, offset=(offsets or {}).get(partition.id)))
        for partition in (*planned, *_found_before(planned, offsets or {}))
    ]
    order = source_pb.ReadOpen(
        target=target_of(kind, config),
        task=connector_pb.TaskPlan(task_id="test-0", partitions=partitions),
        epoch=epoch,
        encodings=[record_pb.ENCODING_ARROW_IPC],
        limits=limits,
        credit=types_pb.Credit(bytes=credit, batches=batches),
        until_caught_up=until_caught_up,
    )
    task = SourceTask(bed, order)
    try:
        yield task
    finally:
        task.call.cancel()


def _found_before(planned: Sequence[Partition], offsets: Offsets) -> Iterator[Partition]:
    """Yield what the tasks found by themselves: partitions that have offsets and no plan."""
    finds_all = any(partition.finds_others for partition in planned)
    ranges = tuple(partition.range for partition in planned if partition.range is not None)
    own = OwnPartitions((), None if finds_all else ranges)
    for id_ in offsets.keys() - {partition.id for partition in planned}:
        if id_ in own:
            yield Partition(partition_key(id_))


class SinkTask:
    """A task of a sink, seen from the host and its executors. `metrics` are the newest numbers that
    it has of itself: they come after the end of a transaction.
    """

    def __init__(self, bed: Testbed, order: sink_pb.WriteOpen) -> None:
        self.metrics: dict[str, float] = {}
        self.last_prepared: PreparedTxn | None = None
        self.left_out: list[sink_pb.FailedRow] = []
        self._bed = bed
        self._order = order
        self._schemas = Schemas()
        self._txn_id = order.last_prepared.txn_id
        self._stub = SinkServiceStub(bed.channel)
        self.call: Call[sink_pb.WriteRequest, sink_pb.WriteResponse] = Call(
            self._stub.Write, bed.metadata
        )
        self.send(open=order)
        self.opened = self.until("opened").opened

    def send(self, **frame: Any) -> None:
        """Send a frame, for instance `send(commit=WriteCommit(txn_id=1))`."""
        self.call.send(sink_pb.WriteRequest(**frame))

    def until(self, kind: str, timeout: float = DEADLINE) -> sink_pb.WriteResponse:
        """Return the next frame of a kind, for instance `prepared`."""
        while (frame := self.call.receive(timeout)) is not None:
            if frame.HasField("progress"):
                self.metrics = dict(frame.progress.metrics)
            if frame.WhichOneof("kind") == kind:
                return frame
        raise EOFError(f"the stream ended without {kind}")

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return what the sink says about the place of a dataset; None when there is none.

        Raises:
            LookupError: the sink does not tell.
        """
        if not self.opened.describes_datasets:
            raise LookupError("this sink does not tell its columns")
        self.send(describe=sink_pb.DescribeDataset(dataset=dataset, request_id=1))
        answer = self.until("described").described.arrow_schema
        return _frames.decode_schema(answer) if answer else None

    def next_txn(self) -> int:
        """Return the number of a new transaction."""
        self._txn_id += 1
        return self._txn_id

    def put(
        self,
        rows: Rows,
        *,
        txn_id: int,
        slot: int = 0,
        attempt: int = 0,
        dataset: str = "",
        key_columns: Sequence[str] = (),
        epoch: int | None = None,
    ) -> list[sink_pb.BatchResult]:
        """Put rows into a slot, as an executor does; return the answers, one a batch."""
        batch = to_arrow(rows, None, self._schemas.current(dataset))
        schema_id, new = self._schemas.id_of(dataset, batch.schema, key_columns)
        if new is not None:
            self.send(schema=new)
            applied = self.until("schema_applied").schema_applied
            if applied.refused:
                raise ValueError(applied.diagnostics[0].message)
        ticket = sink_pb.PutOpen(
            task_id=self._order.task.task_id,
            epoch=self._order.epoch if epoch is None else epoch,
            txn_id=txn_id,
            slot=slot,
            attempt=attempt,
        )
        requests = [sink_pb.PutRequest(open=ticket), *_put_frames(batch, schema_id)]
        call = self._stub.Put(iter(requests), metadata=self._bed.metadata, timeout=DEADLINE)
        return [answer.batch_result for answer in _all(call)]

    def prepare(
        self, txn_id: int, slots: Sequence[tuple[int, int, int]], token: bytes = b"token"
    ) -> PreparedTxn:
        """End a transaction's rows. `slots` are (slot, attempt, rows) of the attempts that
        count. Rows that the sink names as failed are left out; `left_out` has them.
        """
        named = [sink_pb.PutSlot(slot=s, attempt=a, rows=r) for s, a, r in slots]
        self.left_out = []
        while True:
            rows: dict[int, list[int]] = {}
            for one in self.left_out:
                rows.setdefault(one.slot, []).append(one.row)
            left_out = [sink_pb.SlotRows(slot=slot, rows=rows[slot]) for slot in rows]
            order = sink_pb.WritePrepare(txn_id=txn_id, token=token, slots=named, left_out=left_out)
            self.send(prepare=order)
            prepared = self.until("prepared").prepared
            self.left_out += prepared.failed
            if not prepared.failed:
                self.last_prepared = prepared_from_proto(prepared.txn)
                return self.last_prepared

    def commit(self, txn_id: int) -> sink_pb.TxnCommitted:
        """Make a prepared transaction visible."""
        self.send(commit=sink_pb.WriteCommit(txn_id=txn_id))
        return self.until("txn_committed").txn_committed

    def write(
        self, rows: Rows, *, dataset: str = "", key_columns: Sequence[str] = ()
    ) -> sink_pb.TxnCommitted:
        """Write rows in a transaction of their own: put, prepare, commit."""
        txn_id = self.next_txn()
        results = self.put(rows, txn_id=txn_id, dataset=dataset, key_columns=key_columns)
        refused = sum(len(result.failed) for result in results)
        count = rows.num_rows if isinstance(rows, pa.RecordBatch | pa.Table) else len(rows)
        self.prepare(txn_id, [(0, 0, count - refused)])
        return self.commit(txn_id)

    def close(self) -> None:
        """Ask for the end, and wait for it."""
        self.send(close=sink_pb.WriteClose())
        self.until("closed")


def _put_frames(rows: pa.RecordBatch, schema_id: int) -> Iterator[sink_pb.PutRequest]:
    for seq, part in enumerate(Cut().apply(rows), start=1):
        data = memoryview(_frames.encode_rows(part))
        chunks = _frames.chunk_rows(data, _frames.MESSAGE_MOST)
        for chunk, piece in enumerate(chunks):
            yield sink_pb.PutRequest(
                batch=record_pb.Batch(
                    seq=seq,
                    schema_id=schema_id,
                    rows=part.num_rows,
                    encoding=record_pb.ENCODING_ARROW_IPC,
                    data=bytes(piece),
                    chunk=chunk,
                    more_chunks=chunk + 1 < len(chunks),
                )
            )


@contextmanager
def sink_task(
    kind: type[AnySink],
    config: Mapping[str, str],
    *,
    epoch: int = 1,
    commit_mode: CommitMode = CommitMode.UNSPECIFIED,
    last_prepared: PreparedTxn | None = None,
    recover: bool = False,
    tolerates_failed_rows: bool = False,
    bed: Testbed | None = None,
) -> Iterator[SinkTask]:
    """Run one task of a sink.

    Args:
        kind: The sink.
        config: Its configuration, as text.
        epoch: The task's epoch.
        commit_mode: The wanted mode; unset takes the sink's best.
        last_prepared: What the host stored last: `SinkTask.last_prepared` of an earlier run.
        recover: `last_prepared` may not have been applied.
        tolerates_failed_rows: Failed rows are left out, not the end.
        bed: A server to use; one of its own when None.
    """
    if bed is None:
        with (
            Testbed(kind) as own,
            sink_task(
                kind,
                config,
                epoch=epoch,
                commit_mode=commit_mode,
                last_prepared=last_prepared,
                recover=recover,
                tolerates_failed_rows=tolerates_failed_rows,
                bed=own,
            ) as task,
        ):
            yield task
        return
    order = sink_pb.WriteOpen(
        target=target_of(kind, config),
        task=connector_pb.TaskPlan(task_id="test-0"),
        epoch=epoch,
        commit_mode=plugin_pb.CommitMode.Name(int(commit_mode)),
        last_prepared=prepared_to_proto(last_prepared) if last_prepared else None,
        recover=recover,
        tolerates_failed_rows=tolerates_failed_rows,
    )
    task = SinkTask(bed, order)
    try:
        yield task
    finally:
        task.call.cancel()


def _all(call: Any) -> list[Any]:
    """Return all answers of a call."""
    with as_remote_error():
        return list(call)
