"""A tiny source and sink over raw stubs, in this process: a peer of reader and writer."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import sink_service_pb2_grpc as sink_grpc
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1 import source_service_pb2_grpc as source_grpc
from penstock.api.record.v1 import record_pb2
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock_values.memory_files import own_memory_file, read_memory_file

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
CREDENTIAL = "only for executors"
DEADLINE = 90.0


def rows(start: int, count: int) -> pa.RecordBatch:
    """Numbered rows."""
    ids = range(start, start + count)
    return pa.RecordBatch.from_arrays(
        [pa.array(ids, pa.int64()), pa.array([f"n{i}" for i in ids])], schema=SCHEMA
    )


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for a condition on an event loop; the deadline names what was waited for."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        await asyncio.sleep(0.01)


def answered(batch: Any, failed: list[int]) -> sink_pb.BatchResult:
    """The proper answer to a batch of which these rows are refused."""
    errors = [sink_pb.RowError(row=row) for row in failed]
    return sink_pb.BatchResult(seq=batch.seq, all_ok=not failed, failed=errors)


class TinyPlugin(source_grpc.SourceServiceServicer, sink_grpc.SinkServiceServicer):
    """Serves given batches by seq, and keeps what is put by (txn, slot, attempt).

    Every behaviour can be replaced: `frames` makes the frames of a batch, `answer` the answer to
    one; `block` and `block_put` hold Fetch and Put until they are set.
    """

    def __init__(self, folder, schema: pa.Schema, name: str = "s") -> None:
        self.batches: dict[int, pa.RecordBatch] = {}
        self.put: dict[tuple[int, int, int], list[pa.RecordBatch]] = {}
        self.sizes: list[int] = []
        self.in_memory = 0
        self.offered_memory_files: list[bool] = []
        self.memory_file = ""
        self.schema = self.put_schema = schema
        self.block, self.block_put = threading.Event(), threading.Event()
        self.block.set()
        self.block_put.set()
        self.fetches = self.open_fetches = 0
        self.refuse: list[int] = []
        self.traces: list[str | None] = []
        self.compression = grpc.Compression.NoCompression
        self.frames: Callable[[int, pa.RecordBatch], list[record_pb2.Batch]] = whole_frame
        self.answer: Callable[[Any], sink_pb.BatchResult | None] | None = None
        self.address = f"unix:{folder}/{name}"
        self._server = grpc.server(
            futures.ThreadPoolExecutor(16),
            options=[("grpc.max_receive_message_length", 64 << 20)],
        )
        source_grpc.add_SourceServiceServicer_to_server(self, self._server)
        sink_grpc.add_SinkServiceServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.address)
        self._server.start()

    def share_memory(self) -> None:
        """Let tickets say that batches may pass in memory files."""
        self.memory_file = base64.b64encode(own_memory_file().SerializeToString()).decode()

    def stop(self) -> None:
        """Let everybody go."""
        self.block.set()
        self.block_put.set()
        self._server.stop(0).wait(DEADLINE)

    def Fetch(self, request: source_pb.FetchRequest, context: Any) -> Iterator[Any]:  # noqa: N802 - gRPC's name
        self._check(context)
        self.fetches += 1
        self.offered_memory_files.append(request.memory_files)
        self.open_fetches += 1
        context.add_callback(self._fetch_ended)
        context.set_compression(self.compression)
        for seq in request.seqs:
            self.block.wait(DEADLINE)
            for frame in self.frames(seq, self.batches[seq]):
                yield source_pb.FetchResponse(batch=frame)

    def Put(self, requests: Iterator[sink_pb.PutRequest], context: Any) -> Iterator[Any]:  # noqa: N802 - gRPC's name
        self._check(context)
        opened = next(requests).open
        kept = self.put.setdefault((opened.txn_id, opened.slot, opened.attempt), [])
        parts: list[bytes] = []
        for request in requests:
            self.block_put.wait(DEADLINE)
            batch = request.batch
            self.sizes.append(len(batch.data))
            assert batch.chunk == len(parts)
            in_memory = batch.HasField("memory_file")
            parts.append(read_memory_file(batch.memory_file) if in_memory else batch.data)
            self.in_memory += in_memory
            if batch.more_chunks:
                continue
            data, parts = b"".join(parts), []
            kept.append(pa.ipc.read_record_batch(pa.py_buffer(data), self.put_schema))
            result = (self.answer or (lambda b: answered(b, self.refuse)))(batch)
            if result is not None:
                yield sink_pb.PutResponse(batch_result=result)

    def ticket(self, task: str, slots: list[list[int]], **more: Any) -> Ticket:
        """A ticket over these batches, one list of seqs a slot."""
        txn = more.pop("txn_id", 1)
        most = more.pop("max_message_bytes", 4 << 20)
        announced = more.pop("announced_bytes", 1 << 30)
        head = {"kind": "plugin", "address": self.address, "credential": CREDENTIAL}
        if self.memory_file:
            head["memory_file"] = self.memory_file
        place = {**head, "task_id": task, "epoch": 1, "schema_id": 1}
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        return Ticket(
            task,
            1,
            txn,
            tuple(
                SlotTicket(
                    n,
                    sum(self.batches[seq].num_rows for seq in seqs),
                    {**place, "seqs": seqs, "bytes": [announced] * len(seqs), "schema": schema},
                    {**place, "txn_id": txn, "max_message_bytes": most},
                )
                for n, seqs in enumerate(slots)
            ),
            **more,
        )

    def rows(self, txn: int, reports: list[SlotReport]) -> list[dict[str, Any]]:
        """The rows of the attempts that count, in order of slot."""
        out: list[dict[str, Any]] = []
        for report in sorted(reports, key=lambda report: report.slot):
            for batch in self.put.get((txn, report.slot, report.attempt), []):
                out += batch.to_pylist()
        return out

    def source_rows(self) -> list[dict[str, Any]]:
        """All rows of the source, in order."""
        return [row for seq in sorted(self.batches) for row in self.batches[seq].to_pylist()]

    def _fetch_ended(self) -> None:
        self.open_fetches -= 1

    def _check(self, context: Any) -> None:
        told = dict(context.invocation_metadata())
        self.traces.append(told.get("traceparent"))
        if told.get("penstock-credential") != CREDENTIAL:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no credential")


def frame(seq: int, batch: pa.RecordBatch, **more: Any) -> record_pb2.Batch:
    """A frame with a whole batch; anything of it can be said otherwise."""
    fields: dict[str, Any] = {
        "seq": seq,
        "schema_id": 1,
        "rows": batch.num_rows,
        "encoding": record_pb2.ENCODING_ARROW_IPC,
    }
    if "data" not in more:
        fields["data"] = batch.serialize().to_pybytes()
    return record_pb2.Batch(**{**fields, **more})


def whole_frame(seq: int, batch: pa.RecordBatch) -> list[record_pb2.Batch]:
    """The frames of a source that keeps to the protocol."""
    return [frame(seq, batch)]


def in_chunks(size: int) -> Callable[[int, pa.RecordBatch], list[record_pb2.Batch]]:
    """The frames of a source that cuts its batches into chunks of so many bytes."""

    def frames(seq: int, batch: pa.RecordBatch) -> list[record_pb2.Batch]:
        data = batch.serialize().to_pybytes()
        starts = range(0, len(data), size)
        return [
            frame(
                seq,
                batch,
                data=data[at : at + size],
                chunk=n,
                more_chunks=at + size < len(data),
            )
            for n, at in enumerate(starts)
        ]

    return frames
