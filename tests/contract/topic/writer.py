"""A task of another process that appends to topic `t`, and recovers as the worker lets it."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from penstock.topic.embedded.table_state import TopicState
from unit.topic.producer_consumer import state_of

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
from penstock.topic_files.locations import open_folder

place, journal, task, epoch, most = sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]
journal, epoch, most = journal / f"{task}.journal", int(epoch), int(most)
module.UPKEEP_INTERVAL_S = 0.05
SCHEMA = pa.schema([("task", pa.string()), ("id", pa.int64())])

def batch(first, count):
    return pa.record_batch([[task] * count, list(range(first, first + count))], schema=SCHEMA)

async def main():
    async with EmbeddedTopics(open_folder(place)) as topics:
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


class Writers:
    """Starts writers of one place."""

    def __init__(self, place, journals: Path) -> None:
        self.place, self.journals = place, journals

    def start(self, task: str, epoch: int, most: int, fault: str = "") -> subprocess.Popen[str]:
        return self.place.start(WRITER, self.journals, task, epoch, most, fault=fault)

    def finish(self, tasks: list[str], epoch: int) -> None:
        """Let each task recover and write once more."""
        for task in tasks:
            self.wait(self.start(task, epoch, 1))

    def wait(self, writer: subprocess.Popen[str], code: int = 0) -> None:
        writer.communicate(timeout=90)
        assert writer.returncode == code

    def killed_at_random(self, tasks: list[str], epoch: int, chance: random.Random) -> None:
        """Let tasks write, and kill each at any moment."""
        running = [self.start(task, epoch, 10_000) for task in tasks]
        for one in running:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in chance.sample(running, len(running)):
            deadline = time.monotonic() + chance.uniform(0.0, 0.15)
            while time.monotonic() < deadline:
                os.sched_yield()
            one.send_signal(signal.SIGKILL)
        for one in running:
            self.wait(one, -signal.SIGKILL)

    def rows(self) -> pa.Table:
        """Return the topic as anyone reads it."""
        folder = self.place.folder.subfolder("t")
        table = DeltaTable(folder.url, storage_options=folder.delta_options)
        return table.to_pyarrow_table()

    def verify(self) -> Counter[str]:
        """Every id of every task once, every offset once; returns how many rows."""
        found = self.rows()
        rows = found.to_pylist()
        for task in sorted({row["task"] for row in rows}):
            ids = sorted(row["id"] for row in rows if row["task"] == task)
            assert ids == list(range(len(ids)))
        state: TopicState = state_of(self.place.folder)
        for partition in (0, 1):
            query = 'select __base + __index as o from found where "__partition" = $1 order by o'
            offsets = duckdb.execute(query, [partition]).fetchall()
            assert offsets == [(n,) for n in range(len(offsets))]
            assert state.next_offset(partition) == len(offsets)
        return Counter(row["task"] for row in rows)
