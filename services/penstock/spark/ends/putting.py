"""The write end of a plugin: the rows of a slot, put into a transaction, each batch answered (R7).

Rows are pulled in the thread of the Spark task, as Spark wants it. gRPC takes the requests from a
queue, and a thread of ours reads the answers; `Answers` bounds what is between the two.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.model.errors import PenstockError
from penstock.model.ticket import SlotTicket, Ticket
from penstock.rpc.status import error_from
from penstock.spark.ends import Written
from penstock.spark.ends.answers import Answers
from penstock.spark.ends.channels import LARGEST_MESSAGE, channel, metadata

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
