"""Embedded topics: written, read, evolved, killed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.model import faults
from penstock.model.connector import CommitMode, Partition
from penstock.model.errors import ConfigError, FencedError, OffsetLostError, SchemaError
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    Drained,
    PreparedTxn,
    PutSlot,
    SchemaSeen,
    StreamSchema,
)
from penstock.topic.embedded import EmbeddedTopics, Retention
from penstock.topic.embedded.names import folder_of, topic_of
from penstock.topic.embedded.table import TopicTable
from penstock.topic.embedded.upkeep import Upkeep
from penstock.topic_files import read_files, write_files

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "id": list(range(first, first + count)),
            "name": [f"n{i}" for i in range(first, first + count)],
        },
        schema=SCHEMA,
    )


class Producer:
    """A task that appends to one topic, as the worker drives it."""

    def __init__(
        self, topics: EmbeddedTopics, topic: str = "t", task: str = "g-0", partitions: int = 1
    ):
        self.stream = topics.writer(task, partitions)
        self.topic = topic

    async def open(self, epoch: int = 1, last: PreparedTxn | None = None) -> "Producer":
        await self.stream.open(epoch, CommitMode.UNSPECIFIED, last, last is not None)
        await self.schema(SCHEMA)
        return self

    async def schema(
        self, schema: pa.Schema, id_: int = 1, keys: tuple[str, ...] = ("id",)
    ) -> None:
        await self.stream.apply_schema(StreamSchema(id_, self.topic, schema, keys))

    async def prepare(self, txn: int, *slots: pa.RecordBatch, schema_id: int = 1) -> PreparedTxn:
        puts = []
        for slot, batch in enumerate(slots):
            detail = write_files([batch], self.stream.ticket(txn, slot, schema_id), attempt=txn)
            puts.append(PutSlot(slot, txn, batch.num_rows, detail))
        return await self.stream.prepare(txn, puts, b"{}", {})

    async def append(self, txn: int, *slots: pa.RecordBatch, schema_id: int = 1) -> None:
        await self.prepare(txn, *slots, schema_id=schema_id)
        await self.stream.commit(txn)


async def consume(
    topics: EmbeddedTopics,
    count: int,
    offset: int | None = None,
    reset: str = "earliest",
    partition: int = 0,
) -> tuple[list[dict], int]:
    """Read `count` rows; returns them and the offset after them."""
    start = None if offset is None else {"offset": offset}
    reader = topics.reader(
        [Partition({"topic": "t", "partition": partition}, start)], reset, 64 << 20
    )
    await reader.open()
    got: list[dict] = []
    schema_id, end = 0, -1
    try:
        async with asyncio.timeout(20):
            async for event in reader:
                if isinstance(event, SchemaSeen):
                    schema_id = event.schema.schema_id
                if isinstance(event, BatchReady):
                    for batch in read_files(reader.ticket([event.seq], schema_id)):
                        got += batch.to_pylist()
                if isinstance(event, Checkpoint):
                    (place,) = event.offsets.values()
                    end = place["offset"]
                    await reader.release(event.last_seq)
                    if len(got) >= count:
                        break
    finally:
        await reader.close()
    return got, end


def ids(got: list[dict]) -> list[int]:
    return [row["id"] for row in got]


def run(coroutine):
    return asyncio.run(coroutine)


def test_rows_arrive_once_in_order_of_slot_with_offsets_without_a_gap(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 5), rows(5, 5))
            await producer.append(2, rows(10, 3))
            return await consume(topics, 13), await consume(topics, 6, offset=7)

    (everything, end), (rest, _) = run(story())
    assert ids(everything) == list(range(13))
    assert end == 13
    assert ids(rest) == list(range(7, 13))


def test_rows_of_one_key_are_in_one_partition(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics, partitions=4).open()
            await producer.append(1, rows(0, 100))
            await producer.append(2, rows(0, 100))
            assert await topics.count("t") == 4
            counts = {p: sum(f.rows for f in files) for p, files in log_of(tmp_path).files.items()}
            return [ids((await consume(topics, n, partition=p))[0]) for p, n in counts.items()]

    parts = run(story())
    assert sorted(i for part in parts for i in part) == sorted([*range(100), *range(100)])
    for one in range(len(parts)):
        for other in range(one):
            assert not set(parts[one]) & set(parts[other])


def log_of(folder: Path):
    table = TopicTable("t", folder / "t")
    table.log.refresh()
    return table.log


def test_a_reader_is_woken_by_a_commit(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            reading = asyncio.ensure_future(consume(topics, 3))
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 3))
            return await reading

    assert ids(run(story())[0]) == [0, 1, 2]


def test_what_is_not_committed_is_seen_by_nobody(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 3))
            await producer.prepare(2, rows(3, 3))
            return DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset().count_rows()

    assert run(story()) == 3


@pytest.fixture
def broken():
    """Arms the fault point that skips the check of a repeated transaction."""
    faults.load({faults.VARIABLE: "topic.repeat_check=break"})
    yield
    faults.load({})


async def crash_after_commit(folder: Path) -> int:
    """Commit, lose the answer, recover; returns how many offsets were given."""
    async with EmbeddedTopics(folder) as topics:
        producer = await Producer(topics).open()
        prepared = await producer.prepare(1, rows(0, 3))
        await producer.stream.commit(1)
        await Producer(topics).open(epoch=2, last=prepared)
    return log_of(folder).next_offset(0)


def test_a_transaction_that_is_applied_again_changes_nothing(tmp_path):
    assert run(crash_after_commit(tmp_path)) == 3


def test_twin_without_the_check_the_rows_come_twice(tmp_path, broken):
    """The test above is able to fail."""
    assert run(crash_after_commit(tmp_path)) == 6


def test_an_older_epoch_is_refused(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            old = await Producer(topics).open(epoch=1)
            await old.prepare(2, rows(9, 1))
            new = await Producer(topics).open(epoch=2)
            await new.append(1, rows(0, 1))
            with pytest.raises(FencedError) as caught:
                await old.stream.commit(2)
            return caught.value.code

    assert run(story()) == "topic.stale_epoch"


def test_two_writers_at_once_share_a_topic_without_a_gap(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            one = await Producer(topics, task="g-0").open()
            two = await Producer(topics, task="g-1").open()

            async def write(producer: Producer, first: int) -> None:
                for txn in range(1, 11):
                    await producer.append(txn, rows(first + txn * 10, 10))

            await asyncio.gather(write(one, 0), write(two, 1000))
            return await consume(topics, 200)

    got, end = run(story())
    assert end == 200
    assert len(set(ids(got))) == 200


def test_a_new_column_is_added_and_older_rows_lack_it(tmp_path):
    wider = SCHEMA.append(pa.field("more", pa.float64()))

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 1))
            await producer.schema(wider, id_=2)
            batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "x", "more": 2.5}], schema=wider)
            await producer.append(2, batch, schema_id=2)
            return (await consume(topics, 2))[0]

    assert run(story()) == [
        {"id": 0, "name": "n0", "more": None},
        {"id": 1, "name": "x", "more": 2.5},
    ]


def test_another_type_for_a_column_is_refused_with_both_types(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            with pytest.raises(SchemaError, match=r"`id`.*int64.*string"):
                await producer.schema(pa.schema([("id", pa.string())]), id_=2)

    run(story())


def test_anyone_can_open_it_and_compute_the_offsets(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 5))
            await producer.append(2, rows(5, 5))

    run(story())
    topic = DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset()
    assert topic.count_rows() == 10
    found = duckdb.sql('select "__base" + "__index" as o, id from topic order by o').fetchall()
    assert found == [(n, n) for n in range(10)]


def test_compaction_keeps_every_row_and_offset_also_for_a_reader_in_the_middle(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 31):
                await producer.append(txn, rows(txn * 10, 10))
            before = await consume(topics, 300)
            gone = Upkeep(Retention()).compact(TopicTable("t", tmp_path / "t"))
            await producer.append(31, rows(1000, 1))
            return before, gone, await consume(topics, 301), await consume(topics, 150, offset=151)

    before, gone, after, middle = run(story())
    assert gone >= 16
    assert after[0][:300] == before[0]
    assert after[1] == 301
    assert middle[0] == after[0][151:]


def test_retention_removes_the_oldest_files_and_a_reader_that_is_behind_is_told(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 6):
                await producer.append(txn, rows(txn * 10, 10))
            table = TopicTable("t", tmp_path / "t")
            gone = Upkeep(Retention(seconds=1)).expire(table, time.time() + 3600)
            left, end = await consume(topics, 10)
            with pytest.raises(OffsetLostError):
                await consume(topics, 1, offset=5, reset="fail")
            await producer.append(6, rows(60, 10))
            return gone, ids(left), end, (await consume(topics, 20))[1]

    gone, left, end, last = run(story())
    assert (gone, left, end, last) == (4, list(range(50, 60)), 50, 60)


def test_a_checkpoint_and_a_clean_log_do_not_disturb_a_reader(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 6):
                await producer.append(txn, rows(txn * 10, 10))
            DeltaTable(str(tmp_path / "t")).create_checkpoint()
            for version in range(4):
                (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
            got = await consume(topics, 50)
            again = await Producer(topics).open(epoch=2)
            await again.append(6, rows(100, 1))
            return got, await consume(topics, 51)

    got, after = run(story())
    assert got[1] == 50
    assert after[1] == 51


def test_drain_ends_a_reader(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            reader = topics.reader([Partition({"topic": "t", "partition": 0})], "earliest", 1 << 20)
            await reader.open()
            await reader.drain(1)
            events = [event async for event in reader]
            await reader.close()
            return events

    assert isinstance(run(story())[-1], Drained)


@pytest.mark.parametrize(
    "topic", ["a/b", "../up", ".hidden", "per cent%", "ünï", "quote'\"", "x" * 60]
)
def test_any_name_stays_one_folder_of_the_topics(topic):
    folder = folder_of(topic)
    assert "/" not in folder
    assert not folder.startswith(".")
    assert topic_of(folder) == topic


def test_a_name_too_long_or_empty_is_refused():
    for name in ("", "x" * 300):
        with pytest.raises(ConfigError):
            folder_of(name)


WRITER = """
import asyncio, json, sys
from pathlib import Path
import pyarrow as pa
from penstock.model.connector import CommitMode
from penstock.model.stream import PreparedTxn, PutSlot, StreamSchema
from penstock.topic.embedded import EmbeddedTopics
from penstock.topic_files import write_files

folder, journal, epoch = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
SCHEMA = pa.schema([("id", pa.int64())])

async def main():
    async with EmbeddedTopics(folder / "topics") as topics:
        stream = topics.writer("g-0", 1)
        last = json.loads(journal.read_text()) if journal.exists() else None
        prepared = PreparedTxn(last["txn"], epoch, last["state"].encode(), b"") if last else None
        await stream.open(epoch, CommitMode.UNSPECIFIED, prepared, last is not None)
        await stream.apply_schema(StreamSchema(1, "t", SCHEMA))
        txn, first = (last["txn"], last["next"]) if last else (0, 0)
        print("ready", flush=True)
        while True:
            txn += 1
            batch = pa.RecordBatch.from_pydict({"id": list(range(first, first + 7))}, schema=SCHEMA)
            detail = write_files([batch], stream.ticket(txn, 0, 1), txn)
            ready = await stream.prepare(txn, [PutSlot(0, txn, 7, detail)], b"", {})
            first += 7
            new = journal.with_suffix(".new")
            new.write_text(json.dumps({"txn": txn, "next": first, "state": ready.state.decode()}))
            new.rename(journal)  # what the offset service does: state and offsets in one write
            await stream.commit(txn)

asyncio.run(main())
"""


def test_kill_9_at_any_moment_loses_and_repeats_nothing(tmp_path):
    """A writer is killed ten times at a moment that grows; what is there has no gap and nothing
    twice.
    """
    for epoch in range(1, 11):
        command = [
            sys.executable,
            "-c",
            WRITER,
            str(tmp_path),
            str(tmp_path / "journal"),
            str(epoch),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            deadline = time.monotonic() + 0.04 * epoch
            while time.monotonic() < deadline:
                os.sched_yield()
            writer.send_signal(signal.SIGKILL)
    found = DeltaTable(str(tmp_path / "topics" / "t")).to_pyarrow_table()
    assert sorted(found["id"].to_pylist()) == list(range(found.num_rows))
    offsets = [
        b + i
        for b, i in zip(found["__base"].to_pylist(), found["__index"].to_pylist(), strict=True)
    ]
    assert sorted(offsets) == list(range(found.num_rows))
    assert found.num_rows > 0
