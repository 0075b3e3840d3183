"""The engine alone: micro-batches through a kept plan, with a gRPC plugin at both ends.

Each slot has a plugin process of its own that serves rows of 100 bytes from memory and counts what
is put. Latency is that of `Engine.run`; throughput is rows read over the time of one micro-batch.
The rows of every run are counted and summed at the sink.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.compute as pc

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import sink_service_pb2_grpc as sink_grpc
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1 import source_service_pb2_grpc as source_grpc
from penstock.api.record.v1 import record_pb2
from penstock.model.step import Step
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.spark.engine import Engine
from penstock.spark.plan import Plan
from penstock.spark.settings import EngineSettings
from report import Report, arguments, percentile

SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("name", pa.string()), ("payload", pa.string())]
)
KEPT = Step(
    where="id % 10 <> 7",
    select=(("id", "id"), ("ts", "ts"), ("name", "upper(name)"), ("payload", "payload")),
)
SLOTS = 2
FRAME_ROWS = 10_000
"""Rows of a large micro-batch's batches: frames of 1 MB."""


def rows(count: int) -> pa.RecordBatch:
    """Return rows of 100 bytes, numbered from 0."""
    numbers = range(count)
    ids = pa.array(numbers, pa.int64())
    names = pa.array([f"name-{n:015d}" for n in numbers])
    payloads = pa.array([f"{n:064x}" for n in numbers])
    return pa.RecordBatch.from_arrays([ids, ids, names, payloads], schema=SCHEMA)


class Plugin(source_grpc.SourceServiceServicer, sink_grpc.SinkServiceServicer):
    """Serves batches of one size, as many as are asked for; counts and sums what is put."""

    def __init__(self, size: int) -> None:
        """Make the batch."""
        batch = rows(size)
        self._rows, self._data = size, batch.serialize().to_pybytes()

    def Fetch(self, request: source_pb.FetchRequest, context: Any) -> Iterator[Any]:  # noqa: N802 - gRPC's names
        """Stream the batch once for each seq."""
        for seq in request.seqs:
            yield source_pb.FetchResponse(
                batch=record_pb2.Batch(
                    seq=seq,
                    schema_id=1,
                    rows=self._rows,
                    encoding=record_pb2.ENCODING_ARROW_IPC,
                    data=self._data,
                )
            )

    def Put(self, requests: Iterator[sink_pb.PutRequest], context: Any) -> Iterator[Any]:  # noqa: N802 - gRPC's name
        """Answer every batch; the count and the sum of ids go into the trailing metadata."""
        next(requests)
        count = total = 0
        for request in requests:
            batch = pa.ipc.read_record_batch(pa.py_buffer(request.batch.data), SCHEMA)
            count += batch.num_rows
            total += pc.sum(batch.column(0)).as_py() or 0
            result = sink_pb.BatchResult(seq=request.batch.seq, all_ok=True)
            yield sink_pb.PutResponse(batch_result=result)
        print(count, total, flush=True)


def serve(address: str, size: int) -> None:
    """Serve until standard input ends."""
    server = grpc.server(
        futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", 64 << 20)]
    )
    plugin = Plugin(size)
    source_grpc.add_SourceServiceServicer_to_server(plugin, server)
    sink_grpc.add_SinkServiceServicer_to_server(plugin, server)
    server.add_insecure_port(address)
    server.start()
    print("ready", flush=True)
    sys.stdin.read()
    server.stop(0)


class Peer:
    """A plugin process."""

    def __init__(self, folder: Path, name: str, size: int) -> None:
        """Start it."""
        self.address, self.size = f"unix:{folder / name}", size
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", self.address, "--size", str(size)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._line() == "ready"

    def slot(self, slot: int, batches: int, txn: int) -> SlotTicket:
        """Return the ticket for so many batches of it, and back into it."""
        place = {"kind": "plugin", "address": self.address, "credential": "c", "task_id": "bench"}
        schema = base64.b64encode(SCHEMA.serialize().to_pybytes()).decode()
        read = {"epoch": 1, "schema_id": 1, "seqs": [*range(1, batches + 1)], "schema": schema}
        read["bytes"] = [1 << 30] * batches
        write = {"epoch": 1, "schema_id": 1, "txn_id": txn, "max_message_bytes": 4 << 20}
        return SlotTicket(slot, batches * self.size, {**place, **read}, {**place, **write})

    def taken(self) -> tuple[int, int]:
        """Return count and sum of the last put."""
        count, total = self._line().split()
        return int(count), int(total)

    def stop(self) -> None:
        """End it."""
        self._process.communicate(timeout=20)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def peers(folder: Path, size: int, count: int) -> Iterator[list[Peer]]:
    """Start plugins that serve batches of so many rows."""
    started = [Peer(folder, f"{size}-{n}", size) for n in range(count)]
    try:
        yield started
    finally:
        for peer in started:
            peer.stop()


def expected(size: int, batches: int, *, fused: bool) -> tuple[int, int]:
    """Return what a sink must have counted and summed."""
    kept = [n for n in range(size) if fused or n % 10 != 7]
    return len(kept) * batches, sum(kept) * batches


async def timed(engine: Engine, plan: Plan, used: list[Peer], batches: int, txn: int) -> float:
    """Run one micro-batch, check what arrived, and return its seconds."""
    slots = tuple(peer.slot(n, batches, txn) for n, peer in enumerate(used))
    began = time.perf_counter()
    reports = await engine.run(plan, Ticket("bench", 1, txn, slots), lag=0.0)
    took = time.perf_counter() - began
    check(reports, used, batches, fused=plan.fused)
    return took


def check(reports: list[SlotReport], used: list[Peer], batches: int, *, fused: bool) -> None:
    """Fail unless every row arrived."""
    for peer, report in zip(used, sorted(reports, key=lambda r: r.slot), strict=True):
        wanted = expected(peer.size, batches, fused=fused)
        found = peer.taken()
        if report.error or found != wanted or report.rows_out != wanted[0]:
            raise SystemExit(f"lost or made up rows: {found}, expected {wanted}: {report}")


@dataclass(frozen=True)
class Bench:
    """Where a run works, and what it adds its figures to."""

    folder: Path
    report: Report


async def latency(
    engine: Engine, steps: Sequence[Step], name: str, options: argparse.Namespace, bench: Bench
) -> None:
    """Measure small micro-batches, one after another."""
    for size, goal in ((1, None), (1000, 40.0)):
        with peers(bench.folder, size, 1) as used:
            plan = await asyncio.to_thread(engine.build, "bench", SCHEMA, steps, 1)
            for txn in range(options.warm):
                await timed(engine, plan, used, 1, txn)
            taken = [1e3 * await timed(engine, plan, used, 1, n) for n in range(options.batches)]
        what = f"{size} row{'s'[: size > 1]}, {name}"
        bench.report.add(f"{what}, p50", "ms", percentile(taken, 50), at_most=goal)
        bench.report.add(f"{what}, p99", "ms", percentile(taken, 99))


async def throughput(
    engine: Engine, steps: Sequence[Step], name: str, options: argparse.Namespace, bench: Bench
) -> None:
    """Measure large micro-batches, one after another."""
    each = options.rows // SLOTS // FRAME_ROWS
    with peers(bench.folder, FRAME_ROWS, SLOTS) as used:
        plan = await asyncio.to_thread(engine.build, "bench", SCHEMA, steps, SLOTS)
        for txn in range(2):
            await timed(engine, plan, used, each, txn)
        times = [await timed(engine, plan, used, each, n) for n in range(options.runs)]
    rates = [SLOTS * each * FRAME_ROWS / seconds for seconds in times]
    goal = 3e6 if plan.fused else 1e6
    what = f"{SLOTS} slots of {each * FRAME_ROWS:,} rows, {name}"
    bench.report.add(what, "rows/s", *rates, at_least=goal)


async def measure(options: argparse.Namespace, bench: Bench) -> None:
    """Measure both kinds of plan."""
    settings = EngineSettings(
        master=f"local[{SLOTS},1]", slots=SLOTS, local_dir=bench.folder / "spark"
    )
    engine = Engine(settings)
    began = time.perf_counter()
    await engine.start()
    bench.report.add("start of the engine, warm", "s", time.perf_counter() - began)
    try:
        for name, steps in (("through the JVM", [KEPT]), ("fused", [])):
            await latency(engine, steps, name, options, bench)
            await throughput(engine, steps, name, options, bench)
    finally:
        await engine.stop()


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--batches", type=int, default=200, help="micro-batches for a percentile")
    parser.add_argument("--warm", type=int, default=100, help="micro-batches before them")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a large micro-batch")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.size)
        return 0
    report = Report("engine", facts={"batches": options.batches})
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        asyncio.run(measure(options, Bench(Path(folder), report)))
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
