"""The ends of a plugin: Fetch from a source, Put into a sink, by ticket.

The ticket of a read says `address credential task_id epoch seqs schema` (the schema in base64),
that of a write
`address credential task_id epoch txn_id schema_id max_message_bytes`. Channels are made in the
forked worker, never before the fork, and kept for its life.
"""

from __future__ import annotations

import base64
import functools
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.model.errors import Diagnostic, InternalError, PenstockError
from penstock.model.ticket import SlotTicket, Ticket
from penstock.rpc.status import error_from
from penstock.spark.ends import Written
from penstock.spark.ends.stall import Stall
from penstock.spark.schema import normal_batch, normal_schema
from penstock.wire import error as error_wire

CREDENTIAL: Final = "penstock-credential"

FRAME_BYTES: Final = 2 << 20
"""Wanted size of a frame. Smaller costs calls, larger costs copies (measured: 64 KiB to 2 MiB are
alike)."""

WINDOW_BYTES: Final = 8 << 20
"""Bytes put and not yet answered. It bounds what a slow sink lets grow here (invariant 12)."""

_OPTIONS: Final = [
    ("grpc.max_receive_message_length", 256 << 20),
    ("grpc.max_send_message_length", 256 << 20),
    ("grpc.enable_http_proxy", 0),
]


@functools.lru_cache(maxsize=64)
def _channel(address: str) -> grpc.Channel:
    return grpc.insecure_channel(address, options=_OPTIONS)


def _metadata(place: Mapping[str, Any]) -> tuple[tuple[str, str | bytes], ...]:
    return ((CREDENTIAL, place["credential"]),)


# ── read ───────────────────────────────────────────────────────────────────────────────────────


def fetch(ticket: Ticket, slot: SlotTicket) -> Iterator[pa.RecordBatch]:
    """Yield the announced batches of a slot, in order, as Spark takes them."""
    place = slot.read
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(place["schema"])))
    normal = normal_schema(schema)
    wanted = deque(place["seqs"])
    request = source_pb.FetchRequest(
        task_id=place["task_id"],
        epoch=place["epoch"],
        from_seq=min(wanted),
        to_seq=max(wanted),
        seqs=wanted,
    )
    call = SourceServiceStub(_channel(place["address"])).Fetch(request, metadata=_metadata(place))
    with Stall("plugin.fetch", ticket.stall, call.cancel) as stall:
        for batch in _whole(_responses(call, stall)):
            if not wanted or batch.seq != wanted.popleft():
                raise _violation("fetch_order", f"Fetch gave batch {batch.seq} out of turn")
            yield normal_batch(_decoded(batch, schema), normal)
    if wanted:
        raise _violation("fetch_incomplete", f"Fetch ended before batch {wanted[0]}")


def _responses(call: Any, stall: Stall) -> Iterator[record_pb2.Batch]:
    try:
        for response in call:
            stall.progress()
            yield response.batch
            stall.progress()  # the time that Spark took with the rows is not the plugin's
    except grpc.RpcError as error:
        raise (stall.error() if stall.stalled else error_from(error, "plugin.fetch")) from None


def _whole(frames: Iterable[record_pb2.Batch]) -> Iterator[record_pb2.Batch]:
    """Put batches that were cut into chunks together again (rule R10)."""
    parts: list[bytes] = []
    for frame in frames:
        if frame.chunk != len(parts):
            raise _violation("chunk_order", f"chunk {frame.chunk} of batch {frame.seq} is astray")
        if frame.more_chunks:
            parts.append(frame.data)
            continue
        if parts:
            frame.data = b"".join([*parts, frame.data])
            parts = []
        yield frame


def _decoded(frame: record_pb2.Batch, schema: pa.Schema) -> pa.RecordBatch:
    if frame.encoding != record_pb2.ENCODING_ARROW_IPC:
        raise _violation("encoding", f"batch {frame.seq} has an encoding that was not agreed on")
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(frame.data), schema)
    except (pa.ArrowInvalid, OSError) as error:
        raise _violation("frame", f"batch {frame.seq} is no Arrow record batch: {error}") from None
    if batch.num_rows != frame.rows:
        raise _violation("rows", f"batch {frame.seq} has {batch.num_rows} rows, not {frame.rows}")
    return batch


# ── write ──────────────────────────────────────────────────────────────────────────────────────


def put(
    ticket: Ticket, slot: SlotTicket, attempt: int, batches: Iterable[pa.RecordBatch]
) -> Written:
    """Put the rows of a slot into a transaction, and wait for the answer to every batch (rule
    R7).
    """
    place = slot.write
    window = _Window()
    frames = _frames(place, slot.slot, attempt, batches, window)
    call = SinkServiceStub(_channel(place["address"])).Put(frames, metadata=_metadata(place))
    written = Written()
    with Stall("plugin.put", ticket.stall, call.cancel, window.owed) as stall:
        try:
            for response in call:
                stall.progress()
                window.answered(response.batch_result, written)
        except grpc.RpcError as error:
            window.close()
            if window.error is not None:
                raise window.error from None
            raise (stall.error() if stall.stalled else error_from(error, "plugin.put")) from None
        finally:
            window.close()
    window.check_complete()
    return written


class _Window:
    """What was put and not yet answered: bounds it, and checks the answers."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._bytes = 0
        self._rows = 0
        self._closed = False
        self._changed = threading.Condition()

    def sent(self, seq: int, rows: int, size: int) -> None:
        """Wait for room, then take note of a batch."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._bytes < WINDOW_BYTES)
            self._waiting.append((seq, self._rows, size))
            self._rows += rows
            self._bytes += size

    def answered(self, result: sink_pb.BatchResult, written: Written) -> None:
        """Match an answer with the oldest batch."""
        with self._changed:
            if not self._waiting or self._waiting[0][0] != result.seq:
                raise _violation("result_order", f"an answer to batch {result.seq} out of turn")
            _, first_row, size = self._waiting.popleft()
            self._bytes -= size
            self._changed.notify()
        if result.all_ok == bool(result.failed) or result.HasField("untried_from"):
            raise _violation("result", f"the answer to batch {result.seq} does not say what became")
        written.rejected += [
            (first_row + failed.row, _reason(failed.reason)) for failed in result.failed
        ]
        written.rows = self._rows - len(written.rejected)

    def owed(self) -> bool:
        """Tell whether an answer is awaited, and not rows of the read end."""
        return bool(self._waiting)

    def close(self) -> None:
        """Let a waiting sender go."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def check_complete(self) -> None:
        """Raise when a batch has no answer, or its rows could not be read."""
        if self.error is not None:
            raise self.error
        if self._waiting:
            raise _violation("no_result", f"Put ended with {len(self._waiting)} batches unanswered")


def _frames(
    place: Mapping[str, Any],
    slot: int,
    attempt: int,
    batches: Iterable[pa.RecordBatch],
    window: _Window,
) -> Iterator[sink_pb.PutRequest]:
    # gRPC pulls this from a thread of its own and swallows what it raises: errors go by the window
    try:
        yield sink_pb.PutRequest(
            open=sink_pb.PutOpen(
                task_id=place["task_id"],
                epoch=place["epoch"],
                txn_id=place["txn_id"],
                slot=slot,
                attempt=attempt,
            )
        )
        for seq, piece in enumerate(_pieces(batches), 1):
            data = piece.serialize().to_pybytes()
            window.sent(seq, piece.num_rows, len(data))
            yield sink_pb.PutRequest(
                batch=record_pb2.Batch(
                    seq=seq,
                    schema_id=place["schema_id"],
                    rows=piece.num_rows,
                    encoding=record_pb2.ENCODING_ARROW_IPC,
                    data=data,
                    txn_id=place["txn_id"],
                )
            )
    except BaseException as error:
        window.error = error
        raise


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches by rows to about the wanted size of a frame."""
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = max(1, batch.num_rows * FRAME_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _reason(reason: Any) -> Diagnostic:
    return error_wire.from_proto(reason)


def _violation(what: str, message: str) -> PenstockError:
    return InternalError(
        f"plugin.protocol.{what}", message, fix="Report this to the author of the plugin."
    )
