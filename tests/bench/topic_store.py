"""An embedded topic where `--place` says: commits, the way to a reader of another process, rows.

No Spark: what the topic itself and its disk or store take. A store is reached by the standard
`AWS_…` variables.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from penstock.model.connector import CommitMode, Partition
from penstock.model.stream import BatchReady, Checkpoint, PutSlot, StreamSchema
from penstock.topic.embedded.topic_reader import TopicReader
from penstock.topic.embedded.topic_writer import TopicWriter
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files.file_reader import read_files
from penstock.topic_files.file_writer import write_files
from penstock.topic_files.locations import open_folder
from report import Report, arguments, percentile
from running import working_folder

BATCH = 200_000
SCHEMA = pa.schema([("sent", pa.float64()), ("line", pa.string())])


def lines(count: int) -> pa.RecordBatch:
    """Return rows of 100 bytes that say when they were made, and that nothing makes smaller."""
    text = [random.randbytes(46).hex() for _ in range(count)]
    return pa.record_batch([[time.time()] * count, text], schema=SCHEMA)


async def append(stream: TopicWriter, txn: int, rows: pa.RecordBatch) -> None:
    """Write rows as an executor does, and commit them as a task does."""
    detail = await asyncio.to_thread(write_files, [rows], stream.ticket(txn, 0, 1), 1)
    await stream.prepare(txn, [PutSlot(0, 1, rows.num_rows, detail)], b"")
    await stream.commit(txn)


async def opened(topics: EmbeddedTopics, topic: str) -> TopicWriter:
    """Return the write end of a new topic."""
    stream = topics.writer("bench-0")
    await stream.open(1, CommitMode.UNSPECIFIED, None, recover=False)
    await stream.apply_schema(StreamSchema(1, topic, SCHEMA))
    return stream


def fetched(stream: TopicReader, event: BatchReady) -> Iterator[pa.RecordBatch]:
    """Read a batch as an executor does."""
    yield from read_files(stream.ticket([event.seq], 1))


async def read(place: str, topic: str, count: int) -> list[float]:
    """Read rows of a topic until there are `count`; returns how old each batch was."""
    late: list[float] = []
    async with EmbeddedTopics(open_folder(place)) as topics:
        at = Partition({"topic": topic, "partition": 0}, None)
        stream = topics.reader([at], "earliest", 64 << 20)
        await stream.open()
        print("ready", file=sys.stderr, flush=True)
        async for event in stream:
            if isinstance(event, BatchReady):
                for batch in fetched(stream, event):
                    late.append(time.time() - batch["sent"][-1].as_py())
                    count -= batch.num_rows
            elif isinstance(event, Checkpoint):
                await stream.release(event.last_seq)
            if count <= 0:
                break
        await stream.close()
    return late


async def latency(place: str, topic: str, commits: int) -> tuple[list[float], list[float]]:
    """Append 1,000 rows at a time, every 0.2 s; returns what each took, and how old its rows were
    in another process.
    """
    options = ("--place", place, "--read", topic, "--commits", str(commits))
    other = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *options, stdout=PIPE, stderr=PIPE
    )
    assert other.stderr is not None
    took = []
    async with EmbeddedTopics(open_folder(place)) as topics:
        stream = await opened(topics, topic)
        await other.stderr.readline()
        for txn in range(1, commits + 1):
            began = time.perf_counter()
            await append(stream, txn, lines(1000))
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0.2)
        text, _ = await other.communicate()
    return took, [float(word) for word in text.split()]


async def throughput(place: str, topic: str, rows: int) -> tuple[float, float]:
    """Append and read large batches; returns rows a second of each."""
    batch, txns = lines(BATCH), max(1, rows // BATCH)
    async with EmbeddedTopics(open_folder(place)) as topics:
        stream = await opened(topics, topic)
        began = time.perf_counter()
        for txn in range(1, txns + 1):
            await append(stream, txn, batch)
        wrote = time.perf_counter() - began
    began = time.perf_counter()
    await read(place, topic, txns * BATCH)
    return txns * BATCH / wrote, txns * BATCH / (time.perf_counter() - began)


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--place", help="a folder, or s3://bucket/prefix; default: a new folder")
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--read", help="only read a topic, and print how old its batches were")
    options = parser.parse_args()
    if options.read:
        ages = asyncio.run(read(options.place, options.read, options.commits * 1000))
        print(*ages)
        return 0
    with working_folder(keep=options.keep) as folder:
        place = options.place or str(Path(folder) / "topics")
        report = Report("topic store", facts={"place": place.split("/")[0] or "folder"})
        name = f"bench-{time.time_ns()}"
        took, late = asyncio.run(latency(place, f"{name}-l", options.commits))
        for what, values in (("append 1,000 rows", took), ("→ another process", late)):
            for percent in (50, 99):
                report.add(f"{what}, p{percent}", "ms", percentile(values, percent) * 1000)
        runs = [
            asyncio.run(throughput(place, f"{name}-{run}", options.rows))
            for run in range(options.runs)
        ]
        report.add("written, one writer", "rows/s", *(run[0] for run in runs))
        report.add("read, one reader", "rows/s", *(run[1] for run in runs))
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
