"""Embedded topics: readers tail, are bounded, and never skip silently."""

import asyncio
import os
import shutil
import subprocess
import sys
import time

import psutil
import pytest
from deltalake import DeltaTable

from penstock.model.errors import ConfigError, OffsetLostError, RetriableError
from penstock.model.stream import BatchReady, Checkpoint, SchemaVersion, SourceWarning
from penstock.model.topic import Retention
from penstock.topic.embedded import row_ranges, topic_reader, topic_table, wakeups
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic.embedded.upkeep import compact, expire
from penstock.topic_files.file_reader import read_files
from support.waiting import until
from unit.topic.producer_consumer import (
    SCHEMA,
    Consumer,
    Listening,
    Producer,
    consume,
    place,
    rows,
    run,
    table_of,
)


def test_a_reader_waits_for_a_topic_that_is_not_there_and_is_woken_by_a_commit(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            reading = asyncio.ensure_future(consume(topics, 3))
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 3))
            return await reading

    assert run(story()).ids == [0, 1, 2]


WRITER = """
import asyncio, sys, time
from pathlib import Path
from unit.topic.producer_consumer import Producer, rows
from penstock.topic.embedded.topics import EmbeddedTopics

async def main():
    async with EmbeddedTopics(Path(sys.argv[1])) as topics:
        producer = await Producer(topics).open()
        print("ready", flush=True)
        for txn, _ in enumerate(sys.stdin, 1):
            await producer.append(txn, rows(txn, 1))
            print(time.time(), flush=True)

asyncio.run(main())
"""


def other_process(folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def seen_after(folder, count):
    """Let another process commit; returns when each commit was answered, and when it was seen."""
    seen: list[float] = []

    async def story():
        with other_process(folder) as writer:
            assert writer.stdin
            assert writer.stdout
            async with EmbeddedTopics(folder) as topics:
                consumer = Consumer(topics)

                def enough(c):
                    while len(seen) < len(c.rows):
                        seen.append(time.time())
                    return len(c.rows) >= count

                reading = asyncio.ensure_future(consumer.until(enough))
                answers = [await asyncio.to_thread(writer.stdout.readline)]
                for txn in range(1, count + 1):
                    writer.stdin.write("go\n")
                    writer.stdin.flush()
                    answers.append(await asyncio.to_thread(writer.stdout.readline))
                    while len(seen) < txn:
                        await asyncio.sleep(0.001)
                await reading
                writer.stdin.close()
        return [float(answer) for answer in answers[1:]]

    return run(story()), seen


def test_commits_of_another_process_are_seen(tmp_path):
    """Latency is printed, not asserted: the machine may be busy."""
    committed, seen = seen_after(tmp_path, 20)
    late = sorted(1000 * (s - c) for c, s in zip(committed, seen, strict=True))
    print(f"\nseen after commit, other process: p50 {late[10]:.1f} ms, max {late[-1]:.1f} ms")


def test_a_watch_is_only_a_hint(tmp_path, monkeypatch):
    """Without inotify the slow look finds what was committed (invariant 7)."""

    def no_inotify(**_):
        raise OSError("no watches left")

    monkeypatch.setattr(wakeups, "INotify", no_inotify)
    monkeypatch.setattr(wakeups, "CHECK_INTERVAL_S", 0.05)
    _, seen = seen_after(tmp_path, 3)
    assert len(seen) == 3


def test_idle_readers_cost_next_to_nothing(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 1))
            readers = [
                asyncio.ensure_future(Consumer(topics).until(lambda c: len(c.rows) > 1))
                for _ in range(200)
            ]
            await asyncio.sleep(
                wakeups.TIMESTAMP_RESOLUTION_S + wakeups.CHECK_INTERVAL_S + 1.5
            )  # until the look finds nothing new
            before = psutil.Process().cpu_times()
            await asyncio.sleep(2)
            after = psutil.Process().cpu_times()
            for one in readers:
                one.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            return after.user + after.system - before.user - before.system

    used = run(story())
    print(f"\n200 idle readers: {used / 2 * 100:.1f} % of a core")
    assert used < 0.2


def test_a_slow_task_holds_a_reader_to_its_credit(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 6):
                await producer.append(
                    txn, rows(txn * row_ranges.MAX_BATCH_ROWS, row_ranges.MAX_BATCH_ROWS)
                )
            async with Listening(topics.reader([place()], "earliest", 1)) as listening:
                for count in range(1, 6):
                    assert len(await listening.at_rest(count)) == count
                    await listening.stream.release(count)
                return [batch.rows for batch in listening.batches]

    assert run(story()) == [row_ranges.MAX_BATCH_ROWS] * 5


def test_partitions_take_turns(tmp_path):
    """One partition with much to read does not keep the rows of another waiting."""

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics, partitions=3).open()
            for txn in range(1, 21):
                await producer.append(txn, rows(0, 300))
            consumer = Consumer(topics, place(0), place(1), place(2), credit=1)
            await consumer.until(lambda c: len(c.rows) >= 6000)
            return [batch.partition_id for batch in consumer.all(BatchReady)]

    first = run(story())[:3]
    assert len(set(first)) == 3


def test_small_files_are_announced_together(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 101):
                await producer.append(txn, rows(txn, 1))
            return await consume(topics, 100)

    got = run(story())
    assert got.ids == list(range(1, 101))
    assert len(got.all(BatchReady)) == 2  # 64 files, and the rest


def test_every_batch_is_followed_by_a_checkpoint_that_counts_it(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics, partitions=2).open()
            for txn in range(1, 4):
                await producer.append(txn, rows(0, 100))
            consumer = Consumer(topics, place(0), place(1))
            return await consumer.until(lambda c: len(c.rows) >= 300)

    events = [e for e in run(story()).events if isinstance(e, BatchReady | Checkpoint)]
    for batch, checkpoint in zip(events[::2], events[1::2], strict=True):
        assert isinstance(batch, BatchReady)
        assert (checkpoint.last_seq, checkpoint.rows) == (batch.seq, batch.rows)
    assert [e.seq for e in events[::2]] == list(range(1, len(events) // 2 + 1))


def test_resuming_at_every_offset_reads_the_rest(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 5):
                await producer.append(txn, rows((txn - 1) * 5, 5))
            return [(await consume(topics, 20 - n, offset=n)).ids for n in range(20)]

    assert run(story()) == [list(range(n, 20)) for n in range(20)]


def test_many_readers_read_the_same_rows(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            reading = [asyncio.ensure_future(consume(topics, 100)) for _ in range(10)]
            producer = await Producer(topics).open()
            for txn in range(1, 11):
                await producer.append(txn, rows((txn - 1) * 10, 10))
            return [(await one).ids for one in reading]

    assert all(got == list(range(100)) for got in run(story()))


def test_a_batch_that_waited_through_a_compaction_is_read_from_the_new_file(tmp_path):
    """Files are named when they are about to be read, not when they are announced."""

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 31):
                await producer.append(txn, rows((txn - 1) * 10, 10))
            reading = topics.reader([place(offset=15)], "fail", 64 << 20)
            async with Listening(reading) as listening:
                await listening.at_rest(1)
                compact(topics._table("t"))
                for path in (tmp_path / "t").glob("part-*"):
                    path.unlink()
                files = read_files(listening.stream.ticket([1], 1))
                return [row["id"] for batch in files for row in batch.to_pylist()]

    assert run(story()) == list(range(15, 300))


def test_a_batch_whose_rows_went_meanwhile_is_looked_for_again(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 10))
            reading = topics.reader([place(offset=0)], "fail", 64 << 20)
            async with Listening(reading) as listening:
                await listening.at_rest(1)
                ticket = reading.ticket([1], 1)
                expire(topics._table("t"), Retention(seconds=1), time.time() + 3600)
                with pytest.raises(RetriableError, match="rows_gone"):
                    reading.ticket([1], 1)
                for path in (tmp_path / "t").glob("*.parquet"):
                    path.unlink()
                with pytest.raises(RetriableError, match="file_gone"):
                    list(read_files(ticket))
            with pytest.raises(OffsetLostError):
                await consume(topics, 1, offset=0, reset="fail")

    run(story())


async def _expired(topics, folder):
    """Make a topic whose rows 0 to 39 are gone; 40 to 49 are there."""
    producer = await Producer(topics).open()
    for txn in range(1, 6):
        await producer.append(txn, rows((txn - 1) * 10, 10))
    size = table_of(folder).inspect(lambda s: s.files[0][-1].bytes)
    assert expire(table_of(folder), Retention(bytes=size), time.time()) == 4
    return producer


@pytest.mark.parametrize(("reset", "first"), [("earliest", 40), ("latest", 50)])
def test_an_offset_that_is_gone_moves_by_policy_and_says_so(tmp_path, reset, first):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await _expired(topics, tmp_path)
            consumer = Consumer(topics, place(offset=5), reset=reset)
            reading = asyncio.ensure_future(consumer.until(lambda c: 59 in c.ids))
            while not consumer.all(SourceWarning):
                await asyncio.sleep(0.001)
            await producer.append(6, rows(50, 10))
            return await reading

    got = run(story())
    (warned,) = got.all(SourceWarning)
    assert warned.diagnostic.code == "topic.offset_reset"
    assert f"skips {first - 5} rows" in warned.diagnostic.message
    assert got.ids == list(range(first, 60))


def test_an_offset_that_is_gone_is_an_error_where_that_is_the_policy(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await _expired(topics, tmp_path)
            with pytest.raises(OffsetLostError, match="has no row 5; its first row is 40"):
                await consume(topics, 1, offset=5, reset="fail")
            with pytest.raises(OffsetLostError, match="has no offset"):
                await consume(topics, 1, reset="fail")

    run(story())


@pytest.mark.parametrize("reset", ["earliest", "latest", "fail"])
def test_an_offset_beyond_the_end_is_an_error_under_every_policy(tmp_path, reset):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 1))
            with pytest.raises(OffsetLostError, match="ends at 1, 2 was requested"):
                await consume(topics, 1, offset=2, reset=reset)

    run(story())


def test_a_topic_that_was_made_anew_is_not_mistaken_for_the_old_one(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 6):
                await producer.append(txn, rows(0, 1))
            consumer = Consumer(topics)
            reading = asyncio.ensure_future(consumer.until(lambda c: len(c.rows) > 5))
            await until(lambda: len(consumer.rows) == 5, "all rows of the old one")
            shutil.rmtree(tmp_path / "t")
            await (await Producer(topics, task="h-0").open()).append(1, rows(0, 1))
            with pytest.raises(OffsetLostError):
                await reading

    run(story())


def test_latest_is_made_durable_before_the_first_row(tmp_path):
    """A reader that starts at the end says where that was: after a crash it goes on from there."""

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 3))
            consumer = Consumer(topics, place(), reset="latest")
            return await consumer.until(lambda c: bool(c.all(Checkpoint)))

    got = run(story())
    assert list(got.offsets.values()) == [3]
    assert got.rows == []


def test_latest_of_a_topic_that_is_not_there_yet_misses_none_of_its_rows(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            consumer = Consumer(topics, place(), reset="latest")
            await consumer.until(lambda c: bool(c.all(Checkpoint)))
            (offset,) = consumer.offsets.values()
            await (await Producer(topics).open()).append(1, rows(0, 3))
            return await consume(topics, 3, offset=offset, reset="latest")

    assert run(story()).ids == [0, 1, 2]


@pytest.mark.parametrize(
    ("reset", "wanted"),
    [
        ("timestamp:1970-01-01T00:00:02Z", [1, 2, 3]),
        ("timestamp:1970-01-01T00:00:02.5Z", [2, 3]),
        ("by_duration:PT7.5S", [2, 3]),
    ],
)
def test_reading_begins_with_what_was_committed_at_a_time(tmp_path, monkeypatch, reset, wanted):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for at in range(4):
                monkeypatch.setattr(topic_table, "_now_ms", lambda at=at: 1000 * (at + 1))
                await producer.append(at + 1, rows(at, 1))
            monkeypatch.setattr(topic_reader.time, "time", lambda: 10.0)
            return await consume(topics, len(wanted), reset=reset)

    assert run(story()).ids == wanted


def test_a_reader_of_a_later_time_waits_for_new_rows(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 3))
            consumer = Consumer(topics, place(), reset="timestamp:2999-01-01T00:00:00Z")
            return await consumer.until(lambda c: bool(c.all(Checkpoint)))

    assert list(run(story()).offsets.values()) == [3]


def test_an_unknown_policy_is_refused(tmp_path):
    with pytest.raises(ConfigError):
        EmbeddedTopics(tmp_path).reader([place()], "newest", 1)


def test_a_new_column_is_seen_while_reading(tmp_path):
    import pyarrow as pa

    wider = SCHEMA.append(pa.field("more", pa.float64()))

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 1))
            consumer = Consumer(topics)
            reading = asyncio.ensure_future(consumer.until(lambda c: len(c.rows) >= 2))
            while not consumer.rows:
                await asyncio.sleep(0.001)
            await producer.schema(wider, id_=2)
            batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "x", "more": 2.5}], schema=wider)
            await producer.append(2, batch, schema_id=2)
            return await reading

    got = run(story())
    assert [s.schema.schema_id for s in got.all(SchemaVersion)] == [1, 2]
    assert got.rows == [{"id": 0, "name": "n0"}, {"id": 1, "name": "x", "more": 2.5}]


def test_the_key_of_rows_travels_with_the_topic(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 1))
            return await consume(topics, 1)

    assert run(story()).all(SchemaVersion)[0].schema.key_columns == ("id",)


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
        async with EmbeddedTopics(tmp_path) as topics:
            again = await Producer(topics).open(epoch=2)
            await again.append(6, rows(100, 1))
            return got, await consume(topics, 51)

    before, after = run(story())
    assert list(before.offsets.values()) == [50]
    assert list(after.offsets.values()) == [51]


def test_a_reader_that_was_overtaken_by_cleaning_goes_on_from_the_checkpoint(tmp_path):
    slow = None

    async def story():
        nonlocal slow
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 10))
            slow = table_of(tmp_path)
            for txn in range(2, 6):
                await producer.append(txn, rows(txn * 10, 10))
        DeltaTable(str(tmp_path / "t")).create_checkpoint()
        for path in (tmp_path / "t" / "_delta_log").glob("*.json"):
            path.unlink()

    run(story())
    assert slow.refresh()
    assert slow.inspect(lambda state: state.next_offset(0)) == 50


def test_how_many_files_wait_is_bounded(tmp_path, monkeypatch):
    """Names of files travel in tickets, which must stay small (invariant 12)."""
    monkeypatch.setattr(topic_reader, "MAX_PENDING_FILES", 128)

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 301):
                await producer.append(txn, rows(txn, 1))
            async with Listening(topics.reader([place()], "earliest", 1 << 30)) as listening:
                held = len(await listening.at_rest(2))
                await listening.stream.release(1)
                return held, len(await listening.at_rest(3))

    assert run(story()) == (2, 3)


def test_rows_tell_where_they_stand_when_they_are_asked(tmp_path):
    """`__partition` and `__offset`, over files and batches, in the schema too; never else."""

    async def read(topics, *, with_positions):
        stream = topics.reader([place()], "earliest", 1 << 20, with_positions=with_positions)
        await stream.open()
        found, names = [], []
        async for event in stream:
            if isinstance(event, SchemaVersion):
                names = event.schema.arrow.names
            if isinstance(event, BatchReady):
                for batch in read_files(stream.ticket([event.seq], event.schema_id)):
                    found += batch.to_pylist()
                if len(found) == 7:
                    await stream.close()
                    return found, names
        raise AssertionError("the stream ended")

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn, (first, count) in enumerate([(0, 3), (3, 2), (5, 2)], 1):
                await producer.append(txn, rows(first, count))
            return await read(topics, with_positions=True), await read(topics, with_positions=False)

    (placed, names), (plain, plain_names) = run(story())
    assert names == [*plain_names, "__partition", "__offset"]
    assert [row["__offset"] for row in placed] == [row["id"] for row in placed] == [*range(7)]
    assert {row["__partition"] for row in placed} == {0}
    assert not {"__partition", "__offset"} & set(plain[0])
