"""What was put and is not answered yet: bounds it, checks the answers, and waits for them."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.model.errors import DataError, Diagnostic, PenstockError, RetriableError
from penstock.model.ticket import SlotTicket, Ticket
from penstock.rpc.status import error_from
from penstock.spark.ends import Written
from penstock.spark.ends.plugin_calls import LARGEST_MESSAGE, channel, metadata, stalled, violation
from penstock.wire import error as error_wire

WINDOW_BYTES: Final = 8 << 20
"""Bytes put and not yet answered. It bounds what a slow sink lets grow here (invariant 12); one
batch may overdraw it, so that a large row cannot block."""

MOST_REFUSED: Final = 10_000
"""Rows of a slot that a sink may refuse one by one: their reasons travel through the driver, which
has to stay small. A sink that refuses more has another trouble than rows."""

_MOST_TEXT: Final = 500
"""Characters of a reason's texts that are kept for each row."""


@dataclass(frozen=True, slots=True)
class _Owed:
    """A batch without an answer."""

    seq: int
    first_row: int
    rows: int
    size: int


class Answers:
    """Counts what a sink owes. `took` and `end` come from the thread that reads the answers."""

    def __init__(self, stage: str, stall: float) -> None:
        """Name the stage for errors; `stall` is how long, in seconds, a sink may owe in silence."""
        self._stage, self._stall = stage, stall
        self._owed: deque[_Owed] = deque()
        self._answered = 0
        self._bytes = 0
        self._written = Written()
        self._ended = False
        self._error: PenstockError | None = None
        self._moved_at = time.monotonic()
        self._changed = threading.Condition()

    def expect(self, seq: int, rows: int, size: int) -> None:
        """Wait for room, then take note of a batch that is about to be sent."""
        with self._changed:
            self._wait(lambda: self._bytes < WINDOW_BYTES)
            if self._ended:
                raise violation("put_ended", f"Put ended before batch {seq} was sent")
            if not self._owed:
                self._moved_at = time.monotonic()  # until now it was not the sink's turn
            before = self._written.rows + len(self._written.rejected)
            self._owed.append(_Owed(seq, before, rows, size))
            self._bytes += size
            self._written.rows += rows

    def complete(self) -> Written:
        """Wait until every batch is answered and the call has ended; return what became of them."""
        with self._changed:
            self._moved_at = time.monotonic()
            self._wait(lambda: self._ended)
            if self._owed:
                raise violation("no_result", f"Put ended with {len(self._owed)} batches unanswered")
            return self._written

    def took(self, result: pb.BatchResult) -> None:
        """Match an answer with the oldest batch.

        Raises:
            InternalError: the answer breaks rule R7.
            RetriableError: `sink.not_tried`.
            DataError: `sink.too_many_refused`.
        """
        with self._changed:
            if 0 < result.seq <= self._answered:
                raise violation("result_repeated", f"a second answer to batch {result.seq}")
            if not self._owed or self._owed[0].seq != result.seq:
                raise violation("result_order", f"an answer to batch {result.seq} out of turn")
            batch = self._owed.popleft()
            self._answered = batch.seq
            refused = _refused(batch, result)
            self._written.rejected += refused
            self._written.rows -= len(refused)
            if len(self._written.rejected) > MOST_REFUSED:
                raise _too_many(refused[0][1])
            self._bytes -= batch.size
            self._moved_at = time.monotonic()
            self._changed.notify_all()

    def end(self, error: PenstockError | None) -> None:
        """Note that the call has ended: nothing more is answered."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Wait for a condition, as long as the sink makes progress (invariant 8)."""
        while not (self._ended or ready()):
            left = self._moved_at + self._stall - time.monotonic()
            if left <= 0:
                raise stalled(self._stage, self._stall)
            self._changed.wait(left)
        if self._error is not None:
            raise self._error


def _refused(batch: _Owed, result: pb.BatchResult) -> list[tuple[int, Diagnostic]]:
    """Return the rows that an answer refuses, if it says of every row what became of it (R7)."""
    rows = [failed.row for failed in result.failed]
    if result.HasField("untried_from"):
        raise RetriableError(
            "sink.not_tried",
            f"the sink did not try batch {batch.seq} from row {result.untried_from} on",
            fix="Look at the sink's system; the micro-batch is tried again.",
            retry_after=result.retry_after.ToTimedelta().total_seconds(),
        )
    if result.all_ok == bool(rows):
        raise violation("result", f"the answer to batch {batch.seq} does not say what became of it")
    if rows and (len(set(rows)) != len(rows) or max(rows) >= batch.rows):
        raise violation("result_rows", f"the answer to batch {batch.seq} names rows it has not")
    failures = sorted(result.failed, key=lambda failed: failed.row)
    return [(batch.first_row + failed.row, _reason(failed)) for failed in failures]


def _reason(failed: pb.RowError) -> Diagnostic:
    reason = error_wire.from_proto(failed.reason)
    return replace(
        reason,
        message=reason.message[:_MOST_TEXT],
        detail=reason.detail[:_MOST_TEXT],
        fix=reason.fix[:_MOST_TEXT],
    )


def _too_many(reason: Diagnostic) -> DataError:
    return DataError(
        "sink.too_many_refused",
        f"the sink refused more than {MOST_REFUSED} rows of a slot, one of them: {reason.message}",
        fix=reason.fix or "Look at the sink; so many rows are rarely bad one by one.",
        dataset=reason.dataset,
    )


STAGE: Final = "plugin.put"

FRAME_BYTES: Final = 2 << 20
"""Wanted size of a frame. Smaller costs calls, larger costs copies (measured: 64 KiB to 2 MiB are
alike)."""

_HEAD_BYTES: Final = 64 << 10
"""Room in a message for everything that is not rows."""

_JOIN_WITHIN: Final = 5.0
"""Seconds that a cancelled call may take to tell its reader. gRPC does it in milliseconds; the
reader is a daemon, so a longer one harms nobody but itself."""


def put(
    ticket: Ticket, slot: SlotTicket, attempt: int, batches: Iterable[pa.RecordBatch]
) -> Written:
    """Put the rows of a slot into a transaction, and wait for the answer to every batch."""
    place = slot.write
    answers = Answers(STAGE, ticket.stall)
    # bounded by `answers`: nothing is queued that has no room among what may be unanswered
    requests: queue.SimpleQueue[pb.PutRequest | None] = queue.SimpleQueue()
    requests.put(_opening(place, slot.slot, attempt))
    stub = SinkServiceStub(channel(place))
    call = stub.Put(iter(requests.get, None), metadata=metadata(place, ticket.trace))
    reader = threading.Thread(target=_read, args=(call, answers), name="put answers", daemon=True)
    reader.start()
    try:
        for seq, (rows, data) in enumerate(cut(batches, _room(place)), 1):
            answers.expect(seq, rows, data.size)
            for frame in _frames(place, seq, rows, data):
                requests.put(frame)
        requests.put(None)
        return answers.complete()
    finally:
        call.cancel()
        requests.put(None)
        reader.join(_JOIN_WITHIN)


def cut(batches: Iterable[pa.RecordBatch], room: int) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield rows as messages, cut by rows to about the size of a frame and never above `room`, as
    long as a message has more than one row (rule R10).
    """
    for batch in batches:
        if batch.num_rows:
            # an average; rows of very different sizes are cut again
            most = max(1, batch.num_rows * min(FRAME_BYTES, room) // max(batch.nbytes, 1))
            for start in range(0, batch.num_rows, most):
                yield from _fitting(batch.slice(start, most), room)


def _fitting(batch: pa.RecordBatch, room: int) -> Iterator[tuple[int, pa.Buffer]]:
    rows = batch.num_rows
    data = batch.serialize()
    if data.size <= room or rows == 1:
        yield rows, data
        return
    yield from _fitting(batch.slice(0, rows // 2), room)
    yield from _fitting(batch.slice(rows // 2), room)


def _frames(
    place: Mapping[str, Any], seq: int, rows: int, data: pa.Buffer
) -> Iterator[pb.PutRequest]:
    """Yield the message of a batch; several when a single row is larger than one."""
    room = _room(place)
    view = memoryview(data)
    for chunk, start in enumerate(range(0, len(view), room)):
        yield pb.PutRequest(
            batch=record_pb2.Batch(
                seq=seq,
                schema_id=place["schema_id"],
                rows=rows,
                encoding=record_pb2.ENCODING_ARROW_IPC,
                data=bytes(view[start : start + room]),
                txn_id=place["txn_id"],
                chunk=chunk,
                more_chunks=start + room < len(view),
            )
        )


def _opening(place: Mapping[str, Any], slot: int, attempt: int) -> pb.PutRequest:
    return pb.PutRequest(
        open=pb.PutOpen(
            task_id=place["task_id"],
            epoch=place["epoch"],
            txn_id=place["txn_id"],
            slot=slot,
            attempt=attempt,
        )
    )


def _room(place: Mapping[str, Any]) -> int:
    """Return how many bytes of rows a message may hold."""
    most = min(place["max_message_bytes"] or LARGEST_MESSAGE, LARGEST_MESSAGE)
    return max(most - _HEAD_BYTES, most // 2, 1)


def _read(call: Any, answers: Answers) -> None:
    """Hand every answer on, and how the call ended."""
    try:
        for response in call:
            answers.took(response.batch_result)
    except grpc.RpcError as error:
        answers.end(error_from(error, STAGE))
    except PenstockError as error:
        answers.end(error)
    else:
        answers.end(None)
