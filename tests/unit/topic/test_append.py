"""Embedded topics: what is appended is there once, in order, with offsets without a gap."""

import asyncio
import json
import threading

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.model import faults
from penstock.model.connector import CommitMode
from penstock.model.errors import ConfigError, DataError, FencedError, InternalError, RetriableError
from penstock.model.stream import PreparedTxn, PutSlot, StreamSchema
from penstock.topic.embedded import delta_log, topic_table, topic_writer
from penstock.topic.embedded.topic_table import StagedFile
from penstock.topic.embedded.topic_writer import MANIFEST_FOLDER, PreparedFiles, decode_state
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files.file_writer import write_files
from penstock.topic_files.local_folder import LocalFolder
from unit.topic.producer_consumer import (
    SCHEMA,
    Consumer,
    Producer,
    consume,
    place,
    rows,
    run,
    state_of,
    table_at,
    table_of,
    version_path,
)


def test_rows_arrive_once_in_order_of_slot_with_offsets_without_a_gap(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 5), rows(5, 5))
            await producer.append(2, rows(10, 3))
            return await consume(topics, 13), await consume(topics, 6, offset=7)

    everything, rest = run(story())
    assert everything.ids == list(range(13))
    assert list(everything.offsets.values()) == [13]
    assert rest.ids == list(range(7, 13))


PLACED = SCHEMA.append(pa.field("__partition", pa.int32()))


def placed(*partitions):
    ids = range(len(partitions))
    names = ["x" for _ in ids]
    return pa.RecordBatch.from_pydict(
        {"id": ids, "name": names, "__partition": partitions}, schema=PLACED
    )


@pytest.mark.parametrize("keys", [("id",), ()])
def test_rows_may_choose_their_partition(tmp_path, keys):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics, partitions=3).open()
            await producer.append(1, rows(100, 1))
            await producer.schema(PLACED, 2, keys)
            await producer.append(2, placed(2, 1, 2, 1, 2, 2), schema_id=2)
            places = [place(number) for number in range(3)]
            return await Consumer(topics, *places).until(lambda it: len(it.rows) == 7)

    found = run(story())
    assert [at for at in found.ids if at in {0, 2, 4, 5}] == [0, 2, 4, 5]  # in their order
    table = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()
    chosen = {row["id"]: row["__partition"] for row in table.to_pylist() if row["id"] < 100}
    assert chosen == {0: 2, 1: 1, 2: 2, 3: 1, 4: 2, 5: 2}
    assert set(found.rows[0]) == {"id", "name"}


def test_rows_without_a_choice_go_where_their_key_sends_them(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics, partitions=4).open()
            await producer.append(1, rows(0, 20))
            await producer.schema(PLACED, 2)
            await producer.append(2, placed(*[None] * 19, 3), schema_id=2)

    run(story())
    found = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    by_key, again = ({one["id"]: one["__partition"] for one in found if (one["name"] == "x") is x}
                     for x in (False, True))  # fmt: skip
    assert {at: by_key[at] for at in range(19)} == {at: again[at] for at in range(19)}
    assert again[19] == 3


def test_a_partition_that_a_topic_lacks_is_an_error(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics, partitions=2).open()
            await producer.schema(PLACED, 2)
            await producer.append(1, placed(0, 2), schema_id=2)

    with pytest.raises(DataError, match=r"goes to partition 2 of t .*, which has 2: 0 to 1"):
        run(story())


def test_what_is_not_committed_is_seen_by_nobody(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 3))
            await producer.prepare(2, rows(3, 3))
            return DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset().count_rows()

    assert run(story()) == 3


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


def test_our_versions_are_plain_delta_and_its_own_library_goes_on_from_them(tmp_path):
    """Commits are written by us, checkpoints by the library; each reads what the other wrote."""

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 5))
            delta = DeltaTable(str(tmp_path / "t"))
            assert delta.transaction_version("g-0") == 1
            delta.create_checkpoint()
            await producer.append(2, rows(5, 5))
            return DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows

    assert run(story()) == 10
    assert state_of(tmp_path).next_offset(0) == 10


@pytest.fixture
def broken():
    """Arms the fault point that skips the check of a repeated transaction."""
    faults.load({faults.VARIABLE: "topic.repeat_check=break"})
    yield
    faults.load({})


async def crash_after_commit(folder):
    """Commit, lose the answer, recover; returns how many offsets were given."""
    async with EmbeddedTopics(folder) as topics:
        producer = await Producer(topics).open()
        prepared = await producer.prepare(1, rows(0, 3))
        await producer.stream.commit(1)
        await Producer(topics).open(epoch=2, last=prepared)
    return state_of(folder).next_offset(0)


def test_a_transaction_that_is_applied_again_changes_nothing(tmp_path):
    assert run(crash_after_commit(tmp_path)) == 3


def test_twin_without_the_check_the_rows_come_twice(tmp_path, broken):
    """The test above is able to fail."""
    assert run(crash_after_commit(tmp_path)) == 6


def test_what_was_prepared_before_a_crash_is_applied_by_the_next_owner(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            prepared = await (await Producer(topics).open()).prepare(1, rows(0, 3))
            again = await Producer(topics).open(epoch=2, last=prepared)
            await again.append(2, rows(3, 2))
            return await consume(topics, 5)

    assert run(story()).ids == [0, 1, 2, 3, 4]


def test_commit_may_be_called_again(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.prepare(1, rows(0, 3))
            await producer.stream.commit(1)
            await producer.stream.commit(1)
            with pytest.raises(InternalError):
                await producer.stream.commit(7)

    run(story())
    assert state_of(tmp_path).next_offset(0) == 3


def test_a_commit_that_failed_may_be_tried_again(tmp_path, monkeypatch):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.prepare(1, rows(0, 3))
            with monkeypatch.context() as patch:
                patch.setattr(topic_table, "put_version", _full)
                with pytest.raises(RetriableError) as caught:
                    await producer.stream.commit(1)
            await producer.stream.commit(1)
            return caught.value.code

    assert run(story()) == "topic.io_failed"
    assert state_of(tmp_path).next_offset(0) == 3


def _full(*_):
    raise OSError(28, "No space left on device")


def test_recovery_still_knows_a_transaction_when_its_log_was_cleaned(tmp_path):
    """Transactions are read from checkpoints, too: without them the rows would come twice."""

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            prepared = await producer.prepare(1, rows(0, 3))
            await producer.stream.commit(1)
        DeltaTable(str(tmp_path / "t")).create_checkpoint()
        for path in (tmp_path / "t" / "_delta_log").glob("*.json"):
            path.unlink()
        async with EmbeddedTopics(tmp_path) as topics:
            again = await Producer(topics).open(epoch=2, last=prepared)
            await again.append(2, rows(3, 1))
            old = await Producer(topics).open(epoch=1)
            with pytest.raises(FencedError):
                await old.append(3, rows(4, 1))
            return (await consume(topics, 4)).ids

    assert run(story()) == [0, 1, 2, 3]


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


def test_prepared_files_that_are_gone_are_told_and_never_named(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.prepare(1, rows(0, 1))
            for path in (tmp_path / "t").glob("*.parquet"):
                path.unlink()
            with pytest.raises(InternalError) as caught:
                await producer.stream.commit(1)
            return caught.value.code

    assert run(story()) == "topic.prepared_lost"
    assert not state_of(tmp_path).files


def test_another_commit_mode_is_refused(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            with pytest.raises(ConfigError) as caught:
                await topics.writer("g-0").open(1, CommitMode.HOST, None, False)
            return caught.value.code

    assert run(story()) == "delivery.not_available"


@pytest.fixture
def few_names(monkeypatch):
    """Makes 30 files more than a state holds."""
    monkeypatch.setattr(topic_writer, "MAX_STATE_BYTES", 1000)


def test_a_transaction_with_very_many_files_fits_into_its_state(tmp_path, few_names):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            many = await producer.prepare(1, *[rows(n, 1) for n in range(30)])
            assert len(many.state) < 1000
            assert len(list((tmp_path / MANIFEST_FOLDER).iterdir())) == 1
            await Producer(topics).open(epoch=2, last=many)
            # the offset service may not know yet that it was applied, and ask again
            await Producer(topics).open(epoch=3, last=many)
            return await consume(topics, 30)

    assert run(story()).ids == list(range(30))


def test_a_manifest_goes_when_a_later_transaction_is_committed(tmp_path, few_names):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, *[rows(n, 1) for n in range(30)])
            before = list((tmp_path / MANIFEST_FOLDER).iterdir())
            await producer.append(2, rows(0, 1))
            return len(before), list((tmp_path / MANIFEST_FOLDER).iterdir())

    assert run(story()) == (1, [])


def test_one_transaction_may_touch_several_topics(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.stream.apply_schema(StreamSchema(2, "u", SCHEMA))
            slots = [
                PutSlot(slot, 0, 2, write_files([rows(slot, 2)], ticket, 0))
                for slot, ticket in enumerate([producer.stream.ticket(1, s, s + 1) for s in (0, 1)])
            ]
            both = await producer.stream.prepare(1, slots, b"")
            # it was applied to one topic, and then the process died
            one = PreparedFiles({"t": decode_state(LocalFolder(tmp_path), both.state).files["t"]})
            await producer.stream._append(1, one)
            again = topics.writer("g-0")
            await again.open(2, CommitMode.TWO_PHASE, both, True)

    run(story())
    assert [state_of(tmp_path, topic).next_offset(0) for topic in "tu"] == [2, 2]


def test_two_tasks_at_once_share_a_topic_without_a_gap(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            one = await Producer(topics, task="g-0").open()
            two = await Producer(topics, task="g-1").open()

            async def write(producer: Producer, first: int) -> None:
                for txn in range(1, 11):
                    await producer.append(txn, rows(first + txn * 10, 10))

            await asyncio.gather(write(one, 0), write(two, 1000))
            return await consume(topics, 200)

    got = run(story())
    assert list(got.offsets.values()) == [200]
    assert len(set(got.ids)) == 200


def race(folder, writers=4, commits=12):
    """Commit from threads that know nothing of each other, as processes do; returns the bases."""
    first = table_at(folder)
    first.ensure(SCHEMA, first.spec)
    barrier = threading.Barrier(writers)

    def write(number):
        own = table_at(folder)
        barrier.wait()
        for txn in range(1, commits + 1):
            path = folder / "t" / f"{number}-{txn}.parquet"
            path.write_bytes(b"x")
            own.append(f"w-{number}", 1, txn, [StagedFile(path.name, 0, 7, 1)])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    added = DeltaTable(str(folder / "t")).get_add_actions(flatten=True)
    return sorted(int(base) for base in pa.table(added)["partition.__base"].to_pylist())


def test_processes_that_race_for_a_version_give_no_offset_twice(tmp_path):
    assert race(tmp_path) == [7 * n for n in range(48)]


def careless(folder, version, actions):
    """Put a version whether it is there or not, as a plain rename would."""
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (folder.path / delta_log.version_name(version)).write_text(text)
    return True


def overtaken(folder, monkeypatch, put):
    """Let a second process commit after the first has computed its offsets; returns all bases."""
    first, second = (table_at(folder) for _ in range(2))
    first.ensure(SCHEMA, first.spec)
    for name in ("1.parquet", "2.parquet"):
        (folder / "t" / name).write_bytes(b"x")

    def slow(*version):
        monkeypatch.setattr(topic_table, "put_version", put)
        second.append("w-2", 1, 1, [StagedFile("2.parquet", 0, 7, 1)])
        return put(*version)

    monkeypatch.setattr(topic_table, "put_version", slow)
    first.append("w-1", 1, 1, [StagedFile("1.parquet", 0, 5, 1)])
    return [(f.path, f.base) for f in state_of(folder).files[0]]


def test_a_writer_that_is_overtaken_computes_its_offsets_anew(tmp_path, monkeypatch):
    found = overtaken(tmp_path, monkeypatch, delta_log.put_version)
    assert found == [("2.parquet", 0), ("1.parquet", 7)]


def test_twin_when_a_version_is_put_over_another_its_rows_are_lost(tmp_path, monkeypatch):
    """The test above is able to fail."""
    assert overtaken(tmp_path, monkeypatch, careless) == [("1.parquet", 0)]


def test_a_commit_that_never_becomes_the_next_version_ends(tmp_path, monkeypatch):
    topic = table_at(tmp_path)
    topic.ensure(SCHEMA, topic.spec)
    monkeypatch.setattr(topic_table, "COMMIT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(topic_table, "put_version", lambda *_: False)
    with pytest.raises(RetriableError, match=r"stage topic.append of topic t"):
        topic.append("g-0", 1, 1, [])


def test_a_table_that_wants_what_we_do_not_know_is_refused(tmp_path):
    topic = table_at(tmp_path)
    topic.ensure(SCHEMA, topic.spec)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    assert delta_log.put_version(topic.log, 1, [{"protocol": {**protocol, **features}}])
    with pytest.raises(ConfigError, match="deletionVectors"):
        table_of(tmp_path)


def test_rows_that_another_tool_added_are_told_not_skipped(tmp_path):
    topic = table_at(tmp_path)
    topic.ensure(SCHEMA, topic.spec)
    add = {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
    assert delta_log.put_version(topic.log, 1, [{"add": {**add, "dataChange": True}}])
    with pytest.raises(ConfigError) as caught:
        table_of(tmp_path)
    assert caught.value.code == "topic.foreign_rows"


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/x.parquet", "a/%2E%2E/../x.parquet"])
def test_a_log_cannot_name_files_outside_of_its_topic(tmp_path, path):
    topic = table_at(tmp_path)
    topic.ensure(SCHEMA, topic.spec)
    place = {"partitionValues": {"__partition": "0", "__base": "0"}, "stats": '{"numRecords":1}'}
    add = {"path": path, "size": 1, "modificationTime": 1, "dataChange": True}
    assert delta_log.put_version(topic.log, 1, [{"add": {**add, **place}}])
    with pytest.raises(ConfigError) as caught:
        table_of(tmp_path)
    assert caught.value.code == "topic.foreign_path"


def test_a_damaged_version_is_told(tmp_path):
    topic = table_at(tmp_path)
    topic.ensure(SCHEMA, topic.spec)
    version_path(tmp_path, 1).write_text('{"add":')
    with pytest.raises(InternalError, match=r"00001\.json"):
        table_of(tmp_path)


def test_a_state_that_is_empty_is_a_transaction_without_files(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await Producer(topics).open(epoch=2, last=PreparedTxn(1, 1))

    run(story())
    assert state_of(tmp_path).next_offset(0) == 0


def test_partitions_are_added_and_never_taken_away(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            small = await Producer(topics, task="g-0").open()
            await small.append(1, rows(0, 5))
            large = Producer(topics, task="g-1", partitions=9, least_partitions=lambda _: 3)
            await large.open()
            await large.append(1, rows(5, 60))
            await small.append(2, rows(65, 5))
            again = await Producer(topics, task="g-2", least_partitions=lambda _: 2).open()
            count = await topics.count_partitions("t")
            old = await consume(topics, 5)
            seen = Consumer(topics, *(place(number) for number in range(3)))
            await seen.until(lambda one: len(one.rows) == 70)
            return count, old, seen, again.stream.ticket(9, 0, 1)["partitions"]

    count, old, seen, partitions = run(story())
    assert (count, partitions) == (3, 3)
    assert old.ids[:5] == list(range(5)), "rows keep their offsets"
    assert sorted(seen.ids) == list(range(70))
    assert len(seen.offsets) == 3, "new rows are in all partitions"


def test_headers_with_several_values_are_kept(tmp_path):
    headers = [[("a", b"1"), ("a", b"2"), ("b", None)], None, []]
    schema = pa.schema([("id", pa.int64()), ("__headers", pa.map_(pa.string(), pa.binary()))])
    batch = pa.RecordBatch.from_arrays(
        [pa.array([0, 1, 2]), pa.array(headers, schema.field(1).type)], schema=schema
    )

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = Producer(topics)
            await producer.stream.open(1, CommitMode.UNSPECIFIED, None, False)
            await producer.schema(schema)
            await producer.append(1, batch)
            return await consume(topics, 3)

    assert [row["__headers"] for row in run(story()).rows] == headers
