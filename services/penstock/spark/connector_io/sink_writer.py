"""Writes the rows of a slot under an attempt.

`kind` in the slot's write spec chooses the sink:

- `plugin`        Put into a transaction of a sink plugin. The spec has `address credential task_id
  epoch txn_id schema_id max_message_bytes`.
- `embedded`      Parquet files of an embedded topic, which the driver makes visible
- `routed`        several of one of the two above, by the name of each row (`routed_rows`)
- `dead_letters`  dead letters of the rejected rows, into one of the sinks above
- `live_rows`     some rows as text, for inspect and preview
- `discard`       nowhere: the rows are only counted
- `reject`        nowhere: the rows that `rejected` names, by number and reason, are rejected, of
  `count` rows in all
- `reject_all`    nowhere: all rows are rejected for one `reason`
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.model.dead_letter_queue import MAX_REJECTED_ROWS
from penstock.model.errors import (
    DataError,
    Diagnostic,
    InternalError,
    PenstockError,
    RetriableError,
)
from penstock.model.ticket import SlotTicket, Ticket
from penstock.rpc.status import error_from
from penstock.spark.connector_io import dead_letters, live_rows
from penstock.spark.connector_io.frames import encode_frames, split_batches
from penstock.spark.connector_io.plugin_calls import (
    MAX_MESSAGE_BYTES,
    call_metadata,
    plugin_channel,
    protocol_error,
    shares_memory,
    stall_error,
)
from penstock.spark.connector_io.routed_rows import RoutedRows, UnknownDatasetsError
from penstock.spark.slot_reports import WriteResult, read_diagnostic, write_diagnostic
from penstock.topic_files.file_writer import write_files, write_files_of_topics
from penstock.wire.error import DIAGNOSTIC
from penstock_values.memory_files import MemoryFile

STAGE: Final = "plugin.put"

WINDOW_BYTES: Final = 8 << 20
"""Bytes put and not yet acknowledged. Bounds what a slow sink keeps in memory here (invariant 12).
One batch may exceed it, so that a large row cannot block."""

_MAX_REASON_CHARS: Final = 500
"""Characters kept of each text of a row's reason."""

_MESSAGE_OVERHEAD_BYTES: Final = 64 << 10
"""Bytes of a message that are reserved for everything but rows."""

_JOIN_TIMEOUT_S: Final = 5.0
"""Wait for the thread that reads the results of a cancelled call. gRPC needs milliseconds. The
thread is a daemon, so one that takes longer harms only itself."""


def write_rows(
    ticket: Ticket, slot: SlotTicket, attempt: int, batches: Iterable[pa.RecordBatch]
) -> WriteResult:
    """Write the rows of a slot under an attempt."""
    match slot.write["kind"]:
        case "plugin":
            return _put(ticket, slot, attempt, ((slot.write, batch) for batch in batches))
        case "embedded":
            return _written_files(write_files(batches, slot.write, attempt))
        case "routed":
            return _write_routed(ticket, slot, attempt, batches)
        case "live_rows":
            return live_rows.sample_rows(slot.write, batches)
        case "dead_letters":
            return dead_letters.write_dead_letters(ticket, slot, attempt, batches, write_rows)
        case "discard":
            return WriteResult(sum(batch.num_rows for batch in batches))
        case "reject":
            return _reject(slot, sum(batch.num_rows for batch in batches))
        case "reject_all":
            return _reject_all(slot, sum(batch.num_rows for batch in batches))
    raise InternalError(
        "engine.unknown_end", f"slot {slot.slot}: unknown kind of sink {slot.write['kind']!r}"
    )


def _written_files(detail: dict[str, Any]) -> WriteResult:
    return WriteResult(sum(file["rows"] for file in detail["files"]), detail=detail)


def _write_routed(
    ticket: Ticket, slot: SlotTicket, attempt: int, batches: Iterable[pa.RecordBatch]
) -> WriteResult:
    """Write the rows to the datasets that they name: `datasets` in the detail has the rows of each,
    or `new_datasets` those that the sink does not know.
    """
    routed = RoutedRows(slot.write)
    any_spec = next((target.spec for target in routed.targets.values()), None)
    rows = routed.divide(batches)
    try:
        if any_spec is None:  # no row can be written yet
            deque(rows, maxlen=0)
            return WriteResult(detail={"datasets": {}})
        if any_spec["kind"] == "embedded":
            result = _written_files(write_files_of_topics(rows, attempt))
        else:
            result = _put(ticket, replace(slot, write=any_spec), attempt, rows)
    except UnknownDatasetsError as error:
        return WriteResult(detail={"new_datasets": error.names})
    result.detail["datasets"] = routed.counts
    return result


def reject_spec(rejected: Iterable[tuple[int, Diagnostic]], count: int) -> dict[str, Any]:
    """Return the write spec that finds out which rows of the source were rejected: `rejected` are
    numbers among the `count` rows that the sink was put.
    """
    rows = [[row, write_diagnostic(reason)] for row, reason in rejected]
    return {"kind": "reject", "rejected": rows, "count": count}


def reject_all_spec(reason: Diagnostic) -> dict[str, Any]:
    """Return the write spec that rejects all rows of a slot."""
    return {"kind": "reject_all", "reason": write_diagnostic(_cut(reason))}


def _reject_all(slot: SlotTicket, count: int) -> WriteResult:
    reason = read_diagnostic(slot.write["reason"])
    if count > MAX_REJECTED_ROWS:
        raise DataError(
            "errors.too_many",
            f"{count} rows of a checkpoint were written in vain as often as `errors.retry.max` "
            f"says, and {MAX_REJECTED_ROWS} may become dead letters: {reason.message}",
            fix="Let the source read smaller batches, or correct what the sink says.",
            config_path="errors.retry.max",
        )
    return WriteResult(rejected=[(row, reason) for row in range(count)])


def _reject(slot: SlotTicket, count: int) -> WriteResult:
    spec = slot.write
    rejected = [(row, read_diagnostic(reason)) for row, reason in spec["rejected"]]
    if rejected and rejected[-1][0] >= spec["count"]:
        raise protocol_error(
            "failed_rows",
            f"failed row {rejected[-1][0]} of slot {slot.slot} is named, which has {spec['count']}",
        )
    if count != spec["count"]:
        raise RetriableError(
            "transform.not_repeatable",
            f"slot {slot.slot} had {spec['count']} rows after the transforms, and {count} when "
            "they were read again to find those that the sink cannot write",
            fix="Use conditions that depend on the row alone.",
            config_path="transforms",
        )
    return WriteResult(count - len(rejected), rejected)


def _put(
    ticket: Ticket,
    slot: SlotTicket,
    attempt: int,
    rows: Iterable[tuple[Mapping[str, Any], pa.RecordBatch]],
) -> WriteResult:
    """Put the rows of a slot into a transaction, and wait for the result of every batch."""
    spec = slot.write
    max_bytes = _max_row_bytes(spec)
    pending = PendingBatches(STAGE, ticket.stall_timeout_s)
    # bounded by `pending`: a batch is queued only after `add` has returned
    requests: queue.SimpleQueue[pb.PutRequest | None] = queue.SimpleQueue()
    requests.put(_open_request(spec, slot.slot, attempt))
    stub = SinkServiceStub(plugin_channel(spec))
    call = stub.Put(iter(requests.get, None), metadata=call_metadata(spec, ticket.trace))
    reader = threading.Thread(
        target=_read_results, args=(call, pending), name="put results", daemon=True
    )
    reader.start()
    seq, in_memory = 0, shares_memory(spec)
    try:
        for target, batch in rows:
            for count, data in split_batches([batch], max_bytes):
                seq += 1
                file = MemoryFile.of_batch(data) if in_memory else None
                pending.add(seq, count, data.size, file)
                if file is not None:
                    requests.put(_memory_request(seq, count, target["schema_id"], file))
                    continue
                # several messages when a single row is larger than one
                for frame in encode_frames(seq, count, data, target["schema_id"], max_bytes):
                    requests.put(pb.PutRequest(batch=frame))
        requests.put(None)
        return pending.wait_for_results()
    finally:
        call.cancel()
        requests.put(None)
        reader.join(_JOIN_TIMEOUT_S)
        pending.close()


def _memory_request(seq: int, rows: int, schema_id: int, file: MemoryFile) -> pb.PutRequest:
    frame = record_pb2.Batch(
        seq=seq,
        schema_id=schema_id,
        rows=rows,
        encoding=record_pb2.ENCODING_ARROW_IPC,
        memory_file=file.message,
    )
    return pb.PutRequest(batch=frame)


def _open_request(spec: Mapping[str, Any], slot: int, attempt: int) -> pb.PutRequest:
    return pb.PutRequest(
        open=pb.PutOpen(
            task_id=spec["task_id"],
            epoch=spec["epoch"],
            txn_id=spec["txn_id"],
            slot=slot,
            attempt=attempt,
        )
    )


def _max_row_bytes(spec: Mapping[str, Any]) -> int:
    """Return how many bytes of rows a message may hold."""
    limit = min(spec["max_message_bytes"] or MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES)
    return max(limit - _MESSAGE_OVERHEAD_BYTES, limit // 2, 1)


def _read_results(call: Any, pending: PendingBatches) -> None:
    """Pass every result on, and how the call ended."""
    try:
        for response in call:
            pending.acknowledge(response.batch_result)
    except grpc.RpcError as error:
        pending.end(error_from(error, STAGE))
    except PenstockError as error:
        pending.end(error)
    else:
        pending.end(None)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A batch without a result."""

    seq: int
    first_row: int
    rows: int
    size_bytes: int
    memory_file: MemoryFile | None = None

    def close(self) -> None:
        if self.memory_file is not None:
            self.memory_file.close()


class PendingBatches:
    """Batches that were put and have no result yet: bounds them and checks the results.

    `acknowledge` and `end` are called from the thread that reads the results.
    """

    def __init__(self, stage: str, stall_timeout_s: float) -> None:
        """Wait at most `stall_timeout_s` for the next result; `stage` is named in the error."""
        self._stage, self._stall_timeout_s = stage, stall_timeout_s
        self._pending: deque[_Pending] = deque()
        self._last_seq = 0
        self._bytes = 0
        self._result = WriteResult()
        self._has_ended = False
        self._error: PenstockError | None = None
        self._progress_at = time.monotonic()
        self._changed = threading.Condition()

    def add(
        self, seq: int, rows: int, size_bytes: int, memory_file: MemoryFile | None = None
    ) -> None:
        """Wait until the window has space, then note a batch that is about to be sent. Its memory
        file is closed with its result, or here when this fails.
        """
        try:
            self._wait_for_space(seq)
        except BaseException:
            if memory_file is not None:
                memory_file.close()
            raise
        with self._changed:
            if not self._pending:
                self._progress_at = time.monotonic()  # until now the sink had nothing to do
            first_row = self._result.rows + len(self._result.rejected)
            self._pending.append(_Pending(seq, first_row, rows, size_bytes, memory_file))
            self._bytes += size_bytes
            self._result.rows += rows

    def _wait_for_space(self, seq: int) -> None:
        with self._changed:
            self._wait_until(lambda: self._bytes < WINDOW_BYTES)
            if self._has_ended:
                raise protocol_error("put_ended", f"Put ended before batch {seq} was sent")

    def close(self) -> None:
        """Free the memory of batches that have no result."""
        with self._changed:
            while self._pending:
                self._pending.popleft().close()

    def wait_for_results(self) -> WriteResult:
        """Wait until every batch has a result and the call has ended."""
        with self._changed:
            self._progress_at = time.monotonic()
            self._wait_until(lambda: self._has_ended)
            if self._pending:
                raise protocol_error(
                    "no_result", f"Put ended with {len(self._pending)} batches unanswered"
                )
            return self._result

    def acknowledge(self, result: pb.BatchResult) -> None:
        """Match a result with the oldest batch.

        Raises:
            InternalError: the result breaks rule R7.
            DataError: `sink.too_many_refused`.
        """
        with self._changed:
            if 0 < result.seq <= self._last_seq:
                raise protocol_error("result_repeated", f"a second answer to batch {result.seq}")
            if not self._pending or self._pending[0].seq != result.seq:
                raise protocol_error("result_order", f"an answer to batch {result.seq} out of turn")
            batch = self._pending.popleft()
            batch.close()
            self._last_seq = batch.seq
            rejected = _rejected_rows(batch, result)
            self._result.rejected += rejected
            self._result.rows -= len(rejected)
            if len(self._result.rejected) > MAX_REJECTED_ROWS:
                raise _too_many_rejected(rejected[0][1])
            self._bytes -= batch.size_bytes
            self._progress_at = time.monotonic()
            self._changed.notify_all()

    def end(self, error: PenstockError | None) -> None:
        """Note that the call has ended: no further result comes."""
        with self._changed:
            self._has_ended, self._error = True, error
            self._changed.notify_all()

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, as long as the sink makes progress (invariant 8)."""
        while not (self._has_ended or condition()):
            left_s = self._progress_at + self._stall_timeout_s - time.monotonic()
            if left_s <= 0:
                raise stall_error(self._stage, self._stall_timeout_s)
            self._changed.wait(left_s)
        if self._error is not None:
            raise self._error


def _rejected_rows(batch: _Pending, result: pb.BatchResult) -> list[tuple[int, Diagnostic]]:
    """Return the rows that a result rejects. A result must cover every row of its batch (R7)."""
    rows = [failed.row for failed in result.failed]
    if result.all_ok == bool(rows):
        raise protocol_error(
            "result", f"the answer to batch {batch.seq} does not report what became of its rows"
        )
    if rows and (len(set(rows)) != len(rows) or max(rows) >= batch.rows):
        raise protocol_error(
            "result_rows",
            f"the answer to batch {batch.seq} names rows twice, or rows that it does not have",
        )
    failures = sorted(result.failed, key=lambda failed: failed.row)
    return [(batch.first_row + failed.row, _reason(failed)) for failed in failures]


def _reason(failed: pb.RowError) -> Diagnostic:
    return _cut(DIAGNOSTIC.from_proto(failed.reason))


def _cut(reason: Diagnostic) -> Diagnostic:
    return replace(
        reason,
        message=reason.message[:_MAX_REASON_CHARS],
        detail=reason.detail[:_MAX_REASON_CHARS],
        fix=reason.fix[:_MAX_REASON_CHARS],
    )


def _too_many_rejected(reason: Diagnostic) -> DataError:
    return DataError(
        "sink.too_many_refused",
        f"the sink rejected more than {MAX_REJECTED_ROWS} rows of a slot, one of them: "
        f"{reason.message}",
        fix=reason.fix or "Check the sink; so many rows rarely fail one by one.",
        dataset=reason.dataset,
    )
