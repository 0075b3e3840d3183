"""A tiny source and sink over raw stubs, in this process: what the executors' ends talk to."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import sink_service_pb2_grpc as sink_grpc
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1 import source_service_pb2_grpc as source_grpc
from penstock.api.record.v1 import record_pb2
from penstock.model.ticket import SlotTicket, Ticket


class TinyPlugin(source_grpc.SourceServiceServicer, sink_grpc.SinkServiceServicer):
    """Serves given batches by seq, and keeps what is put by (txn, slot, attempt)."""

    def __init__(self, folder) -> None:
        self.batches: dict[int, pa.RecordBatch] = {}
        self.put: dict[tuple[int, int, int], list[pa.RecordBatch]] = {}
        self.block = threading.Event()
        self.block.set()
        self.fetches = 0
        self.rejects: list[int] = []
        self.schema: pa.Schema | None = None
        self.address = f"unix:{folder}/s"
        self._server = grpc.server(
            futures.ThreadPoolExecutor(16),
            options=[("grpc.max_receive_message_length", 64 << 20)],
        )
        source_grpc.add_SourceServiceServicer_to_server(self, self._server)
        sink_grpc.add_SinkServiceServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.address)
        self._server.start()

    def stop(self) -> None:
        self.block.set()
        self._server.stop(0)

    def Fetch(self, request: source_pb.FetchRequest, context: Any) -> Iterator[Any]:  # noqa: N802 - the wire's
        self.fetches += 1
        for seq in request.seqs:
            self.block.wait()
            batch = self.batches[seq]
            yield source_pb.FetchResponse(
                batch=record_pb2.Batch(
                    seq=seq,
                    rows=batch.num_rows,
                    encoding=record_pb2.ENCODING_ARROW_IPC,
                    data=batch.serialize().to_pybytes(),
                )
            )

    def Put(self, requests: Iterator[sink_pb.PutRequest], context: Any) -> Iterator[Any]:  # noqa: N802 - the wire's
        opened = next(requests).open
        key = (opened.txn_id, opened.slot, opened.attempt)
        rows = self.put.setdefault(key, [])
        for request in requests:
            batch = request.batch
            schema = self.schema
            rows.append(pa.ipc.read_record_batch(pa.py_buffer(batch.data), schema))
            failed = [sink_pb.RowError(row=row) for row in self.rejects]
            result = sink_pb.BatchResult(seq=batch.seq, all_ok=not failed, failed=failed)
            yield sink_pb.PutResponse(batch_result=result)

    def ticket(self, task: str, slots: list[list[int]], schema: pa.Schema, **more: Any) -> Ticket:
        """A ticket over these batches, one list of seqs a slot."""
        place = {"kind": "plugin", "address": self.address, "credential": "c", "task_id": task}
        encoded = base64.b64encode(schema.serialize().to_pybytes()).decode()
        txn = more.pop("txn_id", 1)
        return Ticket(
            task,
            1,
            txn,
            tuple(
                SlotTicket(
                    n,
                    sum(self.batches[seq].num_rows for seq in seqs),
                    {**place, "epoch": 1, "schema_id": 1, "seqs": seqs, "schema": encoded},
                    {**place, "epoch": 1, "txn_id": txn, "schema_id": 1, "max_message_bytes": 0},
                )
                for n, seqs in enumerate(slots)
            ),
            **more,
        )

    def rows(self, txn: int, reports: list[Any]) -> list[dict[str, Any]]:
        """The rows of the attempts that count, in order of slot."""
        out: list[dict[str, Any]] = []
        for report in reports:
            for batch in self.put.get((txn, report.slot, report.attempt), []):
                out += batch.to_pylist()
        return out
