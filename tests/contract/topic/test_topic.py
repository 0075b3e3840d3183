"""Topics in a folder that several processes share, and on S3: exactly once, whoever is killed."""

import asyncio
import random
import signal
import time

import pytest
from deltalake import DeltaTable

from contract.topic.writer import Writers
from penstock.model.errors import FencedError, RetriableError
from penstock.model.topic import Retention
from penstock.topic.embedded import topic_table, topic_writer, upkeep
from penstock.topic.embedded.delta_log import list_checkpoint_files, put_version, version_name
from penstock.topic.embedded.topic_table import StagedFile
from penstock.topic.embedded.topic_writer import MANIFEST_FOLDER
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic.embedded.upkeep import (
    MIN_LOG_AGE_S,
    REMOVED_FILE_AGE_S,
    compact,
    delete_unused_files,
    expire,
    write_checkpoint,
)
from unit.topic.producer_consumer import (
    SCHEMA,
    Consumer,
    Producer,
    consume,
    rows,
    run,
    state_of,
    table_at,
)
from unit.topic.producer_consumer import table_of as read_anew

TASKS = ["g-0", "g-1", "g-2"]
HOUR = 3600.0


@pytest.fixture
def writers(place, tmp_path):
    """Starts tasks in processes of their own."""
    return Writers(place, tmp_path)


# ── several processes ────────────────────────────────────────────────────────────────────────────


def test_processes_that_write_at_once_give_every_row_one_offset(writers):
    running = [writers.start(task, 1, 15) for task in TASKS]
    for one in running:
        writers.wait(one)
    assert writers.verify() == dict.fromkeys(TASKS, 15 * 7)


def test_twin_without_the_condition_versions_are_lost(writers):
    """The test above is able to fail."""

    def race():
        for epoch in range(2, 20):  # those that start while others end do not meet
            fault = "topic.put_condition=break"
            running = [writers.start(task, epoch, 15, fault) for task in TASKS]
            for one in running:
                one.communicate(timeout=90)  # one may notice, and end with an error
            writers.verify()

    writers.finish(TASKS, 1)
    with pytest.raises(AssertionError):
        race()


def test_kill_9_at_any_moment_loses_and_repeats_nothing(writers):
    """Writers of one topic, killed at random again and again, upkeep running in all of them."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for epoch in range(1, 5):
        writers.killed_at_random(TASKS[:2], epoch, chance)
    writers.finish(TASKS[:2], 5)
    counts = writers.verify()
    assert set(counts) == set(TASKS[:2])
    delete_unused_files(read_anew(writers.place.folder), time.time() + 30 * 86_400)
    assert writers.verify() == counts


def test_kill_9_at_every_point_of_a_commit_loses_and_repeats_nothing(writers):
    points = ("topic.prepared", "topic.committing", "topic.committed", "topic.compacting")
    for epoch, point in enumerate(points, 1):
        writers.wait(writers.start("g-0", epoch, 500, f"{point}=kill@{epoch}"), -signal.SIGKILL)
    writers.finish(["g-0"], len(points) + 1)
    writers.verify()


def test_a_reader_follows_what_another_process_commits(writers, place):
    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            reading = asyncio.ensure_future(
                Consumer(topics).until(lambda c: sum(c.offsets.values()) >= 4)
            )
            await asyncio.sleep(0.2)  # it looks before there is a topic
            await asyncio.to_thread(writers.finish, TASKS, 1)
            return await reading

    assert run(story()).rows


# ── one process ──────────────────────────────────────────────────────────────────────────────────


def test_what_was_prepared_before_a_crash_is_applied_once_by_the_next_owner(place):
    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            old = await Producer(topics).open()
            ready = await old.prepare(1, rows(0, 3))
            for epoch in (2, 3):
                again = await Producer(topics).open(epoch=epoch, last=ready)
            await again.append(2, rows(3, 2))
            await old.prepare(2, rows(9, 1))
            with pytest.raises(FencedError):
                await old.stream.commit(2)
            return await consume(topics, 5)

    assert run(story()).ids == [0, 1, 2, 3, 4]


def test_a_put_whose_answer_was_lost_is_not_repeated(place, monkeypatch):
    """The store has the version, and the library says that it is there: another's, or ours?"""

    def unanswered(log, version, lines):
        monkeypatch.undo()
        assert put_version(log, version, lines)
        return False

    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            producer = await Producer(topics).open()
            monkeypatch.setattr(topic_table, "put_version", unanswered)
            await producer.append(1, rows(0, 3))
            await producer.append(2, rows(3, 3))
            return await consume(topics, 6)

    assert run(story()).ids == list(range(6))


def test_compaction_retention_and_checkpoints_keep_every_offset(place, monkeypatch):
    monkeypatch.setattr(upkeep, "CHECKPOINT_VERSIONS", 10)

    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 31):
                await producer.append(txn, rows((txn - 1) * 10, 10))
            mine = topics._table("t")
            assert compact(mine) == 30
            assert write_checkpoint(mine)
            assert delete_unused_files(mine, time.time() + REMOVED_FILE_AGE_S + 60) == 30
            everything = await consume(topics, 300)
            for txn in range(31, 36):
                await producer.append(txn, rows((txn - 1) * 10, 10))
            assert expire(mine, Retention(bytes=1), time.time()) == 5
            return everything, await consume(topics, 10, offset=5)

    everything, rest = run(story())
    assert everything.ids == list(range(300))
    assert rest.ids == list(range(340, 350))
    folder = place.folder.subfolder("t")
    assert len(list_checkpoint_files(folder.subfolder("_delta_log"))) == 1
    table_ = DeltaTable(folder.url, storage_options=folder.delta_options)
    assert table_.to_pyarrow_table()["id"].to_pylist() == list(range(340, 350))
    assert table_.transaction_version("g-0") == 35


def test_a_topic_whose_old_versions_are_gone_is_read_from_its_checkpoint(place):
    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            producer = await Producer(topics).open()
            for txn in range(1, 6):
                await producer.append(txn, rows(txn, 1))
            folder = topics._table("t").folder
            DeltaTable(folder.url, storage_options=folder.delta_options).create_checkpoint()
            folder.subfolder("_delta_log").delete(version_name(v) for v in range(5))
        async with EmbeddedTopics(place.folder) as topics:
            return await consume(topics, 5)

    assert run(story()).ids == [1, 2, 3, 4, 5]


def test_a_transaction_with_very_many_files_has_a_manifest(place, monkeypatch):
    monkeypatch.setattr(topic_writer, "MAX_STATE_BYTES", 500)

    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            producer = await Producer(topics).open()
            many = await producer.prepare(1, *[rows(n, 1) for n in range(20)])
            assert len(list(place.folder.subfolder(MANIFEST_FOLDER).list_files())) == 1
            again = await Producer(topics).open(epoch=2, last=many)
            await again.append(2, rows(20, 1))
            return await consume(topics, 21)

    assert run(story()).ids == list(range(21))


def test_a_topic_of_any_name_is_opened_by_other_tools(place):
    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            await (await Producer(topics, "a/b ü%~", "x/y %-0").open()).append(1, rows(0, 2))

    run(story())
    (name,) = place.folder.list_folders()
    folder = place.folder.subfolder(name)
    delta = DeltaTable(folder.url, storage_options=folder.delta_options)
    delta.create_checkpoint()
    assert delta.to_pyarrow_table().num_rows == 2


# ── a process that was stopped ───────────────────────────────────────────────────────────────────


def overslept(place, monkeypatch, forget):
    """Let a writer stop between its look and its put, while others write and clean up for hours;
    returns the rows that count.
    """
    slow, other = table_at(place.folder), table_at(place.folder)
    slow.ensure(SCHEMA, slow.spec)
    for name in range(30):
        place.folder.subfolder("t").put_new(f"{name}.parquet", b"x")
    late = 0.0
    now = topic_table._now

    def stopped(log, version, lines):
        nonlocal late
        monkeypatch.setattr(topic_table, "put_version", put_version)
        for txn in range(1, 21):
            other.append("w-2", 1, txn, [StagedFile(f"{txn}.parquet", 0, 1, 1)])
        DeltaTable(slow.folder.url, storage_options=slow.folder.delta_options).create_checkpoint()
        log.delete(version_name(v) for v in range(15))
        late = 2 * MIN_LOG_AGE_S
        return put_version(log, version, lines)

    monkeypatch.setattr(topic_table, "_now", lambda: now() + late)
    monkeypatch.setattr(topic_table, "MAX_STATE_AGE_S", forget)
    monkeypatch.setattr(topic_table, "put_version", stopped)
    slow.append("w-1", 1, 1, [StagedFile("29.parquet", 0, 5, 1)])
    return state_of(place.folder).next_offset(0)


def test_a_process_that_slept_while_its_next_version_came_and_went_loses_nothing(
    place, monkeypatch
):
    assert overslept(place, monkeypatch, topic_table.MAX_STATE_AGE_S) == 25


def test_twin_that_never_forgets_what_it_saw_its_rows_are_lost(place, monkeypatch):
    """The test above is able to fail."""
    assert overslept(place, monkeypatch, 10 * MIN_LOG_AGE_S) == 20


# ── trouble ──────────────────────────────────────────────────────────────────────────────────────


def test_rows_that_go_while_they_are_read_are_looked_for_again(place):
    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            await (await Producer(topics).open()).append(1, rows(0, 3))
            folder = place.folder.subfolder("t")
            names = [f.name for f in folder.list_files() if f.name.endswith(".parquet")]
            folder.delete(names)
            with pytest.raises(RetriableError) as caught:
                await consume(topics, 3)
            return caught.value.code

    assert run(story()) == "topic.file_gone"


def test_idle_readers_are_woken_by_a_writer_of_their_process(place):
    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 1))
            both = [
                asyncio.ensure_future(Consumer(topics).until(lambda c: len(c.rows) > 1))
                for _ in range(2)
            ]
            await producer.append(2, rows(1, 1))
            return [one.ids for one in await asyncio.gather(*both)]

    assert run(story()) == [[0, 1], [0, 1]]
