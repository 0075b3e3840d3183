"""Embedded topics survive kill -9 at any moment: no row lost, none twice, offsets without a gap."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

from deltalake import DeltaTable

from penstock.model import faults
from penstock.topic.embedded.upkeep import delete_unused_files
from unit.topic.producer_consumer import state_of, table_of

WRITER = """
import asyncio, json, sys
from pathlib import Path
import pyarrow as pa
from penstock.model.connector import CommitMode
from penstock.model.stream import PreparedTxn, PutSlot, StreamSchema
from penstock.model.topic import NewTopic
from penstock.topic.embedded import topics as module
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files.file_writer import write_files

folder, task, epoch, most = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
journal = folder / f"{task}.journal"
module.UPKEEP_INTERVAL_S = 0.01
SCHEMA = pa.schema([("task", pa.string()), ("id", pa.int64())])

def batch(first, count):
    return pa.record_batch([[task] * count, list(range(first, first + count))], schema=SCHEMA)

async def main():
    async with EmbeddedTopics(folder / "topics") as topics:
        stream = topics.writer(task, lambda _: NewTopic(2))
        last = json.loads(journal.read_text()) if journal.exists() else None
        prepared = PreparedTxn(last["txn"], epoch, last["state"].encode(), b"") if last else None
        await stream.open(epoch, CommitMode.UNSPECIFIED, prepared, last is not None)
        await stream.apply_schema(StreamSchema(1, "t", SCHEMA, ("id",)))
        txn, first = (last["txn"], last["next"]) if last else (0, 0)
        print("ready", flush=True)
        for txn in range(txn + 1, txn + 1 + most):
            slots = []
            for slot, count in enumerate((5, 2)):
                detail = write_files([batch(first, count)], stream.ticket(txn, slot, 1), txn)
                slots.append(PutSlot(slot, txn, count, detail))
                first += count
            ready = await stream.prepare(txn, slots, b"")
            new = journal.with_suffix(".new")
            new.write_text(json.dumps({"txn": txn, "next": first, "state": ready.state.decode()}))
            new.rename(journal)  # what the offset service does: state and offsets in one write
            await stream.commit(txn)

asyncio.run(main())
"""


def writer(folder, task, epoch, most, fault=""):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), faults.VARIABLE: fault}
    command = [sys.executable, "-c", WRITER, str(folder), task, str(epoch), str(most)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def verify(folder):
    """Every id of every task once, every offset once; returns how many rows."""
    found = DeltaTable(str(folder / "topics" / "t")).to_pyarrow_table()
    rows = found.to_pylist()
    for task in sorted({row["task"] for row in rows}):
        ids = sorted(row["id"] for row in rows if row["task"] == task)
        assert ids == list(range(len(ids)))
    for partition in (0, 1):
        offsets = [r["__base"] + r["__index"] for r in rows if r["__partition"] == partition]
        assert sorted(offsets) == list(range(len(offsets)))
        assert state_of(folder / "topics").next_offset(partition) == len(offsets)
    return Counter(row["task"] for row in rows)


def finish(folder, tasks, epoch):
    """Let each task recover and write once more."""
    for task in tasks:
        with writer(folder, task, epoch, 1) as last:
            last.communicate(timeout=120)
            assert last.returncode == 0


def test_kill_9_at_any_moment_loses_and_repeats_nothing(tmp_path):
    """Two writers of one topic, both killed twenty times at random, upkeep running in both."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for epoch in range(1, 21):
        both = [writer(tmp_path, task, epoch, 10_000) for task in ("g-0", "g-1")]
        for one in both:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        deadline = time.monotonic() + chance.uniform(0.0, 0.12)
        for one in chance.sample(both, 2):
            while time.monotonic() < deadline:
                os.sched_yield()
            one.send_signal(signal.SIGKILL)
            deadline += chance.uniform(0.0, 0.02)
        for one in both:
            one.communicate(timeout=120)
    finish(tmp_path, ("g-0", "g-1"), 21)
    counts = verify(tmp_path)
    assert len(counts) == 2
    delete_unused_files(table_of(tmp_path / "topics"), time.time() + 30 * 86_400)
    assert verify(tmp_path) == counts


def test_kill_9_at_every_point_of_a_commit_loses_and_repeats_nothing(tmp_path):
    points = ("topic.prepared", "topic.committing", "topic.committed", "topic.compacting")
    for epoch, point in enumerate(points * 2, 1):
        with writer(tmp_path, "g-0", epoch, 500, f"{point}=kill@{epoch}") as one:
            one.communicate(timeout=120)
            assert one.returncode == -signal.SIGKILL, point
    finish(tmp_path, ("g-0",), len(points) * 2 + 1)
    verify(tmp_path)
