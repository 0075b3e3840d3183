"""Embedded topics: upkeep makes files fewer and rows older than wanted go; offsets never change."""

import asyncio
import os
import time

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import InternalError
from penstock.model.topic import Retention
from penstock.topic.embedded import upkeep
from penstock.topic.embedded.delta_log import list_checkpoint_files
from penstock.topic.embedded.table_state import TopicFile
from penstock.topic.embedded.topic_writer import MANIFEST_FOLDER
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic.embedded.upkeep import (
    MAX_RUN_FILES,
    MIN_GROWTH,
    MIN_RUN_FILES,
    TARGET_BYTES,
    Upkeep,
    compact,
    delete_abandoned_manifests,
    delete_unused_files,
    expire,
    expired_files,
    find_runs,
    write_checkpoint,
)
from penstock.topic_files.local_folder import LocalFolder
from unit.topic.producer_consumer import (
    Consumer,
    Producer,
    consume,
    place,
    rows,
    run,
    state_of,
    table_of,
    version_path,
)

HOUR, WEEK = 3600.0, 7 * 86_400.0


def neighbours(sizes, rows_each=10):
    return [
        TopicFile(n * rows_each, rows_each, f"f{n}", size, 1000 * n) for n, size in enumerate(sizes)
    ]


# ── which files ──────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(1, 2 * TARGET_BYTES) | st.integers(1, 100_000), max_size=700))
def test_runs_are_neighbours_worth_merging_and_no_file_is_in_two(sizes):
    files = neighbours(sizes)
    runs = list(find_runs(files))
    for one in runs:
        first = files.index(one[0])
        assert list(one) == files[first : first + len(one)]
        assert MIN_RUN_FILES <= len(one) <= MAX_RUN_FILES
        size = sum(file.bytes for file in one)
        assert size <= TARGET_BYTES
        assert size >= MIN_GROWTH * max(file.bytes for file in one)
    together = [file for one in runs for file in one]
    assert len(together) == len(set(together))


def test_files_on_both_sides_of_a_hole_are_not_merged():
    files = neighbours([10] * 40)
    del files[20]
    assert [[f.base for f in one] for one in find_runs(files)] == [
        [n * 10 for n in range(20)],
        [n * 10 for n in range(21, 40)],
    ]


def test_a_row_is_rewritten_a_few_times_however_long_files_trickle_in():
    files: list[TopicFile] = []
    written = arrived = 0
    for round_ in range(400):
        for n in range(20):
            base = round_ * 20 + n
            files.append(TopicFile(base, 1, f"{base}", 10_000))
            arrived += 10_000
        for one in list(find_runs(files)):
            first = files.index(one[0])
            size = sum(file.bytes for file in one)
            written += size
            merged = TopicFile(one[0].base, sum(f.rows for f in one), f"m{written}", size)
            files[first : first + len(one)] = [merged]
    assert written <= 6 * arrived
    assert len(files) < 100


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 100)), max_size=50),
    st.integers(0, 100),
    st.integers(0, 5000),
)
def test_retention_takes_a_head_no_longer_than_it_must(fields, seconds, most):
    ages = sorted((age for _, age in fields), reverse=True)
    files = [
        TopicFile(n, 1, f"{n}", size, (200 - age) * 1000)
        for n, ((size, _), age) in enumerate(zip(fields, ages, strict=True))
    ]
    gone = list(expired_files(files, Retention(seconds, most), 200.0))
    assert gone == files[: len(gone)]
    left = files[len(gone) :]
    if seconds:
        assert all(age <= seconds for age in ages[len(gone) :])
    if most and len(left) > 1:
        assert sum(file.bytes for file in left) <= most
    if not seconds and not most:
        assert gone == []


# ── compaction ───────────────────────────────────────────────────────────────────────────────────


def test_compaction_keeps_every_row_and_offset(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 31):
                await producer.append(txn, rows(txn * 10, 10))
            before = await consume(topics, 300)
            gone = compact(topics._table("t"))
            await producer.append(31, rows(1000, 1))
            return before, gone, await consume(topics, 301), await consume(topics, 150, offset=151)

    before, gone, after, middle = run(story())
    assert gone == 30
    assert after.rows[:300] == before.rows
    assert list(after.offsets.values()) == [301]
    assert middle.rows == after.rows[151:]
    table = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()
    offsets = [
        b.as_py() + i.as_py() for b, i in zip(table["__base"], table["__index"], strict=True)
    ]
    assert sorted(offsets) == list(range(301))


def test_a_reader_and_a_writer_go_on_while_files_are_compacted_and_swept(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            reading = asyncio.ensure_future(consume(topics, 1000))
            other = table_of(tmp_path)

            def upkeep():
                """What another process does."""
                return compact(other) + delete_unused_files(other, time.time() + 2 * HOUR)

            gone = 0
            for txn in range(1, 101):
                await producer.append(txn, rows((txn - 1) * 10, 10))
                if txn % 20 == 0:
                    gone += await asyncio.to_thread(upkeep)
            return gone, await reading, await consume(topics, 1000)

    gone, first, second = run(story())
    assert gone > 100
    assert first.ids == second.ids == list(range(1000))


def test_a_compaction_that_was_overtaken_leaves_nothing(tmp_path, monkeypatch):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 21):
                await producer.append(txn, rows(txn, 1))

    run(story())
    mine, theirs = table_of(tmp_path), table_of(tmp_path)
    commit = mine.commit

    def overtaken(stage, compose):
        assert compact(theirs) == 20
        return commit(stage, compose)

    monkeypatch.setattr(mine, "commit", overtaken)
    assert compact(mine) == 0
    assert len(list((tmp_path / "t").glob("compact-*"))) == 1
    assert state_of(tmp_path).next_offset(0) == 20


# ── retention ────────────────────────────────────────────────────────────────────────────────────


def test_offsets_go_on_when_retention_took_every_row(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 10))
            assert expire(topics._table("t"), Retention(seconds=1), time.time() + HOUR) == 1
            await producer.append(2, rows(10, 10))
            return await consume(topics, 10, offset=10, reset="fail")

    got = run(story())
    assert got.ids == list(range(10, 20))
    assert list(got.offsets.values()) == [20]


def test_they_go_on_also_after_a_checkpoint(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 10))
            expire(topics._table("t"), Retention(seconds=1), time.time() + HOUR)
        DeltaTable(str(tmp_path / "t")).create_checkpoint()
        for path in (tmp_path / "t" / "_delta_log").glob("*.json"):
            path.unlink()

    run(story())
    state = state_of(tmp_path)
    assert (state.first_offset(0), state.next_offset(0)) == (10, 10)


def test_ages_are_known_also_from_a_checkpoint(tmp_path):
    """A file whose age is not known must not look as old as the epoch: rows would go at once."""

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 10))
        DeltaTable(str(tmp_path / "t")).create_checkpoint()
        for path in (tmp_path / "t" / "_delta_log").glob("*.json"):
            path.unlink()

    run(story())
    assert expire(table_of(tmp_path), Retention(seconds=HOUR), time.time()) == 0


def test_a_topic_may_have_a_retention_of_its_own(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            own = await Producer(topics, "own", retention=Retention(seconds=60)).open()
            await own.append(1, rows(0, 1))
            await (await Producer(topics, "other").open()).append(1, rows(0, 1))

    run(story())
    later = time.time() + HOUR
    assert expire(table_of(tmp_path, "own"), Retention(seconds=WEEK), later) == 1
    assert expire(table_of(tmp_path, "other"), Retention(seconds=WEEK), later) == 0


def test_data_of_removed_rows_stays_for_a_while_for_those_who_read_it(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 10))

    run(story())
    now = time.time()
    expire(table_of(tmp_path), Retention(seconds=-0.0 or 0.001), now + 1)
    assert delete_unused_files(table_of(tmp_path), now + 60) == 0
    assert delete_unused_files(table_of(tmp_path), now + upkeep.REMOVED_FILE_AGE_S + 2) == 1


# ── leftovers ────────────────────────────────────────────────────────────────────────────────────


def test_files_of_a_dead_attempt_go_and_those_of_a_prepared_transaction_wait(tmp_path):
    """A task that crashed between prepare and commit may come back late, and still has its rows."""

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.prepare(1, rows(100, 1))  # an attempt that another one replaced
            await producer.append(1, rows(0, 3))
            prepared = await producer.prepare(2, rows(3, 3))
            gone = delete_unused_files(topics._table("t"), time.time() + 2 * HOUR)
            await Producer(topics).open(epoch=2, last=prepared)
            return gone, await consume(topics, 6)

    gone, got = run(story())
    assert gone == 1
    assert got.ids == [0, 1, 2, 3, 4, 5]


def test_what_a_task_prepared_that_never_came_back_goes_in_the_end_and_is_told(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            prepared = await (await Producer(topics).open()).prepare(1, rows(0, 3))
            assert delete_unused_files(topics._table("t"), time.time() + WEEK + 60) == 1
            with pytest.raises(InternalError, match="prepared_lost"):
                await Producer(topics).open(epoch=2, last=prepared)

    run(story())


def test_files_of_an_attempt_that_is_under_way_are_left_alone(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(2, rows(0, 3))
            await producer.prepare(1, rows(3, 3))
            return delete_unused_files(topics._table("t"), time.time() + 60)

    assert run(story()) == 0


def test_other_files_are_none_of_our_business(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await Producer(topics).open()
            (tmp_path / "t" / "notes.parquet").touch()
            return delete_unused_files(topics._table("t"), time.time() + 2 * WEEK)

    assert run(story()) == 0


def test_a_version_that_was_being_written_when_its_process_died_goes(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await Producer(topics).open()
            (tmp_path / "t" / "_delta_log" / ".penstock-1.tmp").touch()
            return delete_unused_files(topics._table("t"), time.time() + 2 * HOUR)

    assert run(story()) == 1


def test_manifests_of_transactions_that_were_given_up_go(tmp_path):
    (tmp_path / MANIFEST_FOLDER).mkdir()
    (tmp_path / MANIFEST_FOLDER / "a.json").touch()
    delete_abandoned_manifests(LocalFolder(tmp_path), time.time() + HOUR)
    assert len(list((tmp_path / MANIFEST_FOLDER).iterdir())) == 1
    delete_abandoned_manifests(LocalFolder(tmp_path), time.time() + WEEK + 60)
    assert list((tmp_path / MANIFEST_FOLDER).iterdir()) == []


# ── the log ──────────────────────────────────────────────────────────────────────────────────────


def test_a_long_log_gets_a_checkpoint_and_loses_its_oldest_versions(tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "CHECKPOINT_VERSIONS", 10)
    monkeypatch.setattr(upkeep, "MIN_LOG_VERSIONS", 5)

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 13):
                await producer.append(txn, rows((txn - 1) * 10, 10))
            assert write_checkpoint(topics._table("t"))
            assert not write_checkpoint(topics._table("t"))
            for txn in range(13, 26):
                await producer.append(txn, rows((txn - 1) * 10, 10))
            assert write_checkpoint(topics._table("t"))
            delete_unused_files(topics._table("t"), time.time() + 2 * HOUR)
            await producer.append(26, rows(250, 10))
        async with EmbeddedTopics(tmp_path) as topics:
            return await consume(topics, 260)

    assert run(story()).ids == list(range(260))
    there = [version_path(tmp_path, v).exists() for v in (0, 19, 20, 26)]
    assert there == [False, False, True, True]
    parts = list_checkpoint_files(table_of(tmp_path).log)
    assert [part.name[:20] for part in parts] == [f"{25:020d}"]
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 260


def test_a_checkpoint_is_found_without_its_pointer(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 10))
        DeltaTable(str(tmp_path / "t")).create_checkpoint()
        for path in (tmp_path / "t" / "_delta_log").glob("*.json"):
            path.unlink()
        (tmp_path / "t" / "_delta_log" / "_last_checkpoint").write_text("{}")

    run(story())
    assert state_of(tmp_path).next_offset(0) == 10


def test_a_damaged_checkpoint_is_told(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 10))

    run(story())
    DeltaTable(str(tmp_path / "t")).create_checkpoint()
    log = LocalFolder(tmp_path / "t" / "_delta_log")
    for part in list_checkpoint_files(log):
        os.truncate(log.path / part.name, 100)
    with pytest.raises(InternalError, match="log_damaged"):
        table_of(tmp_path)


@pytest.mark.parametrize("content", ["", "\n", '{"add":'])
def test_a_damaged_version_is_told(tmp_path, content):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 10))

    run(story())
    version_path(tmp_path, 1).write_text(content)
    with pytest.raises(InternalError, match="log_damaged"):
        table_of(tmp_path)


def test_upkeep_does_what_is_due_and_nothing_for_an_idle_topic(tmp_path, monkeypatch):
    done = []
    for name in ("expire", "compact", "write_checkpoint", "delete_unused_files"):
        monkeypatch.setattr(upkeep, name, lambda *_, name=name: done.append(name))

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 21):
                await producer.append(txn, rows(txn, 1))
            upkeep = Upkeep(LocalFolder(tmp_path), Retention())
            for _ in range(3):
                upkeep.maintain_topic(topics._table("t"))
                done.append("|")

    run(story())
    due = ["expire", "compact", "write_checkpoint", "delete_unused_files"]
    assert done == [*due, "|", "expire", "|", "expire", "|"]


def test_upkeep_runs_by_itself_and_outlives_a_broken_topic(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("penstock.topic.embedded.topics.UPKEEP_INTERVAL_S", 0.02)

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics, "a").open()).append(1, rows(0, 1))
            version_path(tmp_path, 2, "a").write_text("{")
            producer = await Producer(topics).open()
            for txn in range(1, 101):
                await producer.append(txn, rows(txn, 1))
            async with asyncio.timeout(60):
                while "upkeep of topic a failed" not in caplog.text:
                    await asyncio.sleep(0.01)
                while not list((tmp_path / "t").glob("compact-*")):
                    await asyncio.sleep(0.01)
            return await Consumer(topics, place()).until(lambda c: len(c.rows) == 100)

    assert run(story()).ids == list(range(1, 101))
