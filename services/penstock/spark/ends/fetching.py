"""The read end of a plugin: the announced batches of a slot, fetched, checked, in order."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.model.ticket import SlotTicket, Ticket
from penstock.rpc.status import error_from, too_large
from penstock.spark.ends import jsonlines
from penstock.spark.ends.channels import LARGEST_MESSAGE, channel, metadata, violation
from penstock.spark.ends.declared import (
    MOST_INFLATED,
    TooMuchError,
    UndeclaredError,
    check,
    check_lines,
)
from penstock.spark.ends.expanding import expanded, may_expand
from penstock.spark.ends.stall import Stall
from penstock.spark.schema import has_dictionaries, normal_batch, normal_schema

STAGE: Final = "plugin.fetch"

MOST_BYTES: Final = 1 << 30
"""Largest batch that is put together from chunks (invariant 12): what the SDK takes too."""


def fetch(ticket: Ticket, slot: SlotTicket) -> Iterator[pa.RecordBatch]:
    """Yield the announced batches of a slot, in order, as Spark takes them."""
    place = slot.read
    decoder = _Decoder(place)
    wanted = deque(place["seqs"])
    announced = dict(zip(wanted, place["bytes"], strict=True))
    if not wanted:
        return
    request = pb.FetchRequest(
        task_id=place["task_id"],
        epoch=place["epoch"],
        from_seq=min(wanted),
        to_seq=max(wanted),
        seqs=wanted,
    )
    call = SourceServiceStub(channel(place)).Fetch(request, metadata=metadata(place, ticket.trace))
    try:
        with Stall(STAGE, ticket.stall, call.cancel) as stall:
            for batch in whole(_responses(call, stall)):
                if not wanted or batch.seq != wanted.popleft():
                    raise violation("fetch_order", f"Fetch gave batch {batch.seq} out of turn")
                if len(batch.data) > announced[batch.seq]:
                    raise violation(
                        "bytes",
                        f"batch {batch.seq} was announced with {announced[batch.seq]} bytes and "
                        f"has {len(batch.data)} (R9)",
                    )
                yield decoder.rows(batch)
    finally:
        call.cancel()  # whoever wanted the rows may have given up; the source must not go on
    if wanted:
        raise violation("fetch_incomplete", f"Fetch ended before batch {wanted[0]}")


def _responses(call: Any, stall: Stall) -> Iterator[record_pb2.Batch]:
    try:
        while True:
            with stall.waiting():
                response = next(call, None)
            if response is None:
                return
            yield response.batch
    except grpc.RpcError as error:
        if too_large(error.code(), error.details()):
            raise violation(
                "message_too_large", f"stage {STAGE}: {error.details()}, {LARGEST_MESSAGE} bytes"
            ) from None
        raise (stall.error() if stall.expired else error_from(error, STAGE)) from None


def whole(frames: Iterable[record_pb2.Batch]) -> Iterator[record_pb2.Batch]:
    """Put batches that were cut into chunks together again (rule R10)."""
    parts: list[bytes] = []
    seq = size = 0
    for frame in frames:
        if frame.chunk != len(parts) or (parts and frame.seq != seq):
            raise violation("chunk_order", f"chunk {frame.chunk} of batch {frame.seq} is astray")
        if parts or frame.more_chunks:
            parts.append(frame.data)
            seq, size = frame.seq, size + len(frame.data)
            if size > MOST_BYTES:
                raise violation("too_large", f"batch {seq} is larger than {MOST_BYTES} bytes")
            if frame.more_chunks:
                continue
            frame.data = b"".join(parts)
            parts, size = [], 0
        yield frame
    if parts:
        raise violation("chunk_missing", f"the last chunk of batch {seq} did not come")


class _Decoder:
    """Makes rows of frames. What a plugin sends is checked before anything reads it."""

    def __init__(self, place: Mapping[str, Any]) -> None:
        self._schema_id = place["schema_id"]
        self._encoding = place.get("encoding", record_pb2.ENCODING_ARROW_IPC)
        self._head = base64.b64decode(place["schema"])
        self._schema = pa.ipc.read_schema(pa.py_buffer(self._head))
        self._normal = normal_schema(self._schema)
        self._has_dictionaries = has_dictionaries(self._schema)
        self._may_expand = may_expand(self._schema)

    def rows(self, frame: record_pb2.Batch) -> pa.RecordBatch:
        """Return the rows of a frame, in the normal schema."""
        if frame.encoding != self._encoding:
            raise violation("encoding", f"batch {frame.seq} has an encoding that was not agreed on")
        if frame.schema_id != self._schema_id:
            raise violation(
                "schema",
                f"batch {frame.seq} is of schema {frame.schema_id}, not {self._schema_id}",
            )
        batch = self._decoded(frame)
        if batch.num_rows != frame.rows:
            raise violation(
                "rows", f"batch {frame.seq} has {batch.num_rows} rows, not {frame.rows}"
            )
        if self._may_expand and expanded(batch) > max(MOST_INFLATED, len(frame.data)):
            raise violation(
                "inflated",
                f"batch {frame.seq} has {expanded(batch)} bytes behind its dictionaries and views, "
                f"{MOST_INFLATED} are allowed",
            )
        return normal_batch(batch, self._normal)

    def _decoded(self, frame: record_pb2.Batch) -> pa.RecordBatch:
        try:
            if frame.encoding == record_pb2.ENCODING_JSON_LINES:
                check_lines(frame.data, self._schema)
                batch = jsonlines.read(frame.data, self._schema)
            else:
                batch = self._read(frame.data)
            # offsets that point outside would be read by the JVM, which does not check
            batch.validate(full=True)
        except TooMuchError as error:
            raise violation("inflated", f"batch {frame.seq} would become {error}") from None
        except jsonlines.NotRows as error:
            raise violation(
                "rows_unreadable", f"batch {frame.seq} is not JSON lines of its schema: {error}"
            ) from None
        except (pa.ArrowException, OSError, StopIteration, UndeclaredError) as error:
            raise violation(
                "frame", f"batch {frame.seq} is no Arrow record batch: {error}"
            ) from None
        return batch

    def _read(self, data: bytes) -> pa.RecordBatch:
        check(data)
        if not self._has_dictionaries:
            return pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)
        # dictionaries come before their batch: only a reader of streams takes them
        with pa.ipc.open_stream(self._head + data) as stream:
            return stream.read_next_batch()
