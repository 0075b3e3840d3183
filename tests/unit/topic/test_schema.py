"""Embedded topics: columns are added, never changed; every Arrow value is kept or refused."""

import datetime as dt
import decimal

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.model.errors import ConfigError, DataError, SchemaError
from penstock.model.stream import StreamSchema
from penstock.model.topic import Retention
from penstock.topic.embedded.table_state import TopicSpec
from penstock.topic.embedded.topics import EmbeddedTopics, folder_name, topic_name
from penstock.topic_files.stored_types import merge_types, to_stored_rows, to_stored_schema
from penstock_values.semantic_types import semantic_type
from unit.topic.producer_consumer import SCHEMA, Producer, consume, rows, run

UTC = dt.UTC
NOON = dt.datetime(2026, 11, 21, 12, tzinfo=UTC)

VALUES = {
    "uint8": (pa.uint8(), 255, 255),
    "uint32": (pa.uint32(), 2**32 - 1, 2**32 - 1),
    "uint64": (pa.uint64(), 2**64 - 1, decimal.Decimal(2**64 - 1)),
    "float16": (pa.float16(), 1.5, 1.5),
    "large string": (pa.large_string(), "x", "x"),
    "string view": (pa.string_view(), "x", "x"),
    "large binary": (pa.large_binary(), b"\0", b"\0"),
    "binary of a length": (pa.binary(2), b"ab", b"ab"),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), "x", "x"),
    "date64": (pa.date64(), dt.date(2026, 1, 2), dt.date(2026, 1, 2)),
    "time32": (pa.time32("s"), dt.time(0, 0, 2), "00:00:02.000000"),
    "time64": (pa.time64("ns"), dt.time(0, 0, 0, 7), "00:00:00.000007"),
    "duration": (pa.duration("ms"), dt.timedelta(seconds=1), 1_000_000),
    "instant": (pa.timestamp("ms", "Europe/Berlin"), NOON, NOON),
    "local time": (pa.timestamp("s"), NOON.replace(tzinfo=None), NOON.replace(tzinfo=None)),
    "decimal256": (pa.decimal256(20, 2), decimal.Decimal("1.25"), decimal.Decimal("1.25")),
    "times of a list": (
        pa.list_(pa.time32("ms")), [dt.time(23, 59, 59), None], ["23:59:59.000000", None]
    ),
    "duration of a struct": (
        pa.struct([("d", pa.duration("ms"))]), {"d": dt.timedelta(seconds=1)}, {"d": 1_000_000}
    ),
    "durations of a map": (
        pa.map_(pa.string(), pa.duration("ns")), [("k", dt.timedelta(seconds=1))],
        [("k", 1_000_000)],
    ),
    "list": (pa.large_list(pa.uint8()), [255], [255]),
    "struct": (pa.struct([("a", pa.uint16())]), {"a": 65535}, {"a": 65535}),
    "map": (pa.map_(pa.string(), pa.large_binary()), [("k", b"v")], [("k", b"v")]),
    "empty list": (pa.list_(pa.null()), [], []),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_of_every_type_comes_back_and_the_topic_may_be_opened_again(tmp_path, kind):
    type_, value, expected = VALUES[kind]
    schema = pa.schema([("id", pa.int64()), ("c", type_)])
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 2]), pa.array([value, None], type_)], schema=schema
    )

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.schema(schema, 2)
            await producer.append(1, batch, schema_id=2)
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open(epoch=2)
            await producer.schema(schema, 2)
            await producer.append(2, batch, schema_id=2)
            return await consume(topics, 4)

    assert [row["c"] for row in run(story()).rows] == [expected, None] * 2
    topic = duckdb.from_arrow(DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset())
    assert topic.aggregate("count(c), count(*)").fetchall() == [(2, 4)]


UNFIT = {
    "instant": (pa.timestamp("ns", "UTC"), 1_001),
    "local time": (pa.timestamp("ns"), -1),
    "time of the day": (pa.time64("ns"), 1_001),
    "duration": (pa.duration("ns"), 1_001),
    "instant beyond the range": (pa.timestamp("s"), 2**62),
    "duration beyond the range": (pa.duration("s"), 2**62),
    "time beyond the day": (pa.time64("us"), 86_400_000_000),
    "time before the day": (pa.time64("us"), -1),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_a_time_that_microseconds_cannot_tell_is_refused_at_every_depth(kind):
    type_, number = UNFIT[kind]
    column = pa.array([number], pa.int64()).cast(type_)
    of_list = pa.ListArray.from_arrays([0, 1], column)
    of_map = pa.MapArray.from_arrays([0, 1], pa.array(["k"]), column)
    of_struct = pa.StructArray.from_arrays([of_list], ["s"])
    for array in (column, of_list, of_map, of_struct):
        batch = pa.RecordBatch.from_arrays([array], ["c"])
        with pytest.raises(DataError) as caught:
            to_stored_rows(batch, to_stored_schema(batch.schema), {})
        assert caught.value.code == "engine.out_of_range"
        assert "column `c`" in caught.value.diagnostic.message


def test_a_time_of_the_day_is_a_text_that_means_one():
    stored = to_stored_schema(pa.schema([("t", pa.time32("ms"))])).field("t")
    assert (stored.type, semantic_type(stored)) == (pa.string(), "time")


def test_a_time_without_a_zone_may_come_late(tmp_path):
    """Delta has it as a feature: the table is raised to it with the column."""
    wider = SCHEMA.append(pa.field("at", pa.timestamp("us")))

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 1))
            await producer.schema(wider, 2)
            batch = pa.RecordBatch.from_pylist([{"id": 1, "at": NOON.replace(tzinfo=None)}], wider)
            await producer.append(2, batch, schema_id=2)

    run(story())
    delta = DeltaTable(str(tmp_path / "t"))
    assert delta.protocol().min_reader_version == 3
    assert delta.to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize(
    "type_",
    [
        pa.month_day_nano_interval(),
        pa.decimal256(60, 2),
        pa.dense_union([pa.field("a", pa.int8())]),
    ],
)
def test_a_type_that_no_table_has_is_refused(type_):
    with pytest.raises(SchemaError) as caught:
        to_stored_schema(pa.schema([("c", type_)]))
    assert caught.value.code == "topic.type_unsupported"


@pytest.mark.parametrize("names", [["__base"], ["__index"], ["a", "A"], ["a", "a"]])
def test_names_that_no_table_can_have_are_refused(names):
    with pytest.raises(SchemaError) as caught:
        to_stored_schema(pa.schema([(name, pa.int8()) for name in names]))
    assert caught.value.code == "topic.column_name"


def test_a_column_that_differs_in_case_from_an_older_one_is_refused(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            with pytest.raises(SchemaError, match="column_name"):
                await producer.schema(pa.schema([("ID", pa.int64())]), 2)

    run(story())


def test_a_new_column_is_added_and_older_rows_lack_it(tmp_path):
    wider = SCHEMA.append(pa.field("more", pa.float64()))

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 1))
            await producer.schema(wider, id_=2)
            batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "x", "more": 2.5}], schema=wider)
            await producer.append(2, batch, schema_id=2)
            await producer.append(3, rows(2, 1))
            return await consume(topics, 3)

    assert [row["more"] for row in run(story()).rows] == [None, 2.5, None]


def test_a_struct_may_get_new_members(tmp_path):
    old = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))])
    new = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64()), ("b", pa.string())]))])

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.schema(old, 2)
            await producer.append(
                1, pa.RecordBatch.from_pylist([{"s": {"a": 1}}], old), schema_id=2
            )
            await producer.schema(new, 3)
            batch = pa.RecordBatch.from_pylist([{"s": {"a": 2, "b": "x"}}], new)
            await producer.append(2, batch, schema_id=3)
            return await consume(topics, 2)

    assert [row["s"] for row in run(story()).rows] == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_rows_of_a_narrower_type_are_widened(tmp_path):
    narrow = pa.schema([("id", pa.int16()), ("name", pa.string())])

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.schema(narrow, 2)
            await producer.append(1, rows(0, 2).cast(narrow), schema_id=2)
            return await consume(topics, 2)

    assert run(story()).ids == [0, 1]
    delta = DeltaTable(str(tmp_path / "t"))
    assert pa.schema(delta.schema()).field("id").type == pa.int64()
    assert delta.to_pyarrow_table().num_rows == 2


def test_another_type_for_a_column_is_refused_with_both_types(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            with pytest.raises(SchemaError, match=r"`id`.*int64.*string") as caught:
                await producer.schema(pa.schema([("id", pa.string())]), id_=2)
            return caught.value.code

    assert run(story()) == "topic.schema_incompatible"


def test_a_column_of_nulls_waits_for_its_type(tmp_path):
    unknown = pa.schema([("id", pa.int64()), ("c", pa.null())])
    known = pa.schema([("id", pa.int64()), ("c", pa.int32())])

    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            producer = await Producer(topics).open()
            await producer.schema(unknown, 2)
            await producer.append(1, pa.RecordBatch.from_pylist([{"id": 1}], unknown), schema_id=2)
            await producer.schema(known, 3)
            batch = pa.RecordBatch.from_pylist([{"id": 2, "c": 7}], known)
            await producer.append(2, batch, schema_id=3)
            return await consume(topics, 2)

    assert [row["c"] for row in run(story()).rows] == [None, 7]


@pytest.mark.parametrize(
    ("table", "rows_", "joined"),
    [
        (pa.int64(), pa.int8(), pa.int64()),
        (pa.int8(), pa.int64(), None),
        (pa.float64(), pa.float32(), pa.float64()),
        (pa.float32(), pa.int64(), None),
        (pa.decimal128(20, 4), pa.decimal128(18, 2), pa.decimal128(20, 4)),
        (pa.decimal128(20, 4), pa.decimal128(20, 2), None),
        (pa.list_(pa.int64()), pa.list_(pa.int32()), pa.list_(pa.int64())),
        (pa.list_(pa.int64()), pa.int64(), None),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), None),
    ],
)
def test_which_types_fit_into_which(table, rows_, joined):
    assert merge_types(table, rows_) == joined


@pytest.mark.parametrize(
    "spec", [TopicSpec(), TopicSpec(4, ("a", "b")), TopicSpec(2, (), Retention(1.5, 7))]
)
def test_what_a_topic_was_made_with_is_kept_in_its_description(spec):
    assert TopicSpec.from_text(spec.to_text()) == spec


@pytest.mark.parametrize("text", [None, "", "my favourite table", "[1]", '{"partitions":"x"}'])
def test_a_description_that_a_person_wrote_over_is_no_error(text):
    assert TopicSpec.from_text(text) == TopicSpec()


def test_the_number_of_partitions_never_changes(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await Producer(topics, partitions=4).open()
            await Producer(topics, partitions=2, task="g-1").open()
            return await topics.count_partitions("t"), await topics.count_partitions(
                "no such topic"
            )

    assert run(story()) == (4, None)


@pytest.mark.parametrize(
    "topic", ["a/b", "../up", ".hidden", "per cent%", "ünï", "quote'\"", "x" * 60]
)
def test_any_name_stays_one_folder_of_the_topics(topic):
    folder = folder_name(topic)
    assert "/" not in folder
    assert not folder.startswith(".")
    assert topic_name(folder) == topic


def test_a_name_too_long_or_empty_is_refused():
    for name in ("", "x" * 300):
        with pytest.raises(ConfigError):
            folder_name(name)


def test_a_topic_of_any_name_may_be_written_and_read(tmp_path):
    async def story():
        async with EmbeddedTopics(tmp_path) as topics:
            await (await Producer(topics, "a/../ü %41").open()).append(1, rows(0, 2))
            return await topics.count_partitions("a/../ü %41")

    assert run(story()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a~2F..~2F~C3~BC~20~2541"]


def test_what_a_column_means_is_kept_in_the_table(tmp_path):
    meant = pa.field("j", pa.string(), metadata={"penstock.type": "json"})
    schema = pa.schema([*SCHEMA, meant])
    topics = EmbeddedTopics(tmp_path)

    async def written():
        producer = await Producer(topics).open()
        await producer.stream.apply_schema(StreamSchema(1, "t", schema))
        more = pa.schema([*schema, pa.field("u", pa.string(), metadata={"penstock.type": "uuid"})])
        await producer.stream.apply_schema(StreamSchema(2, "t", more))
        return await producer.stream.columns("t")

    columns = run(written())
    assert {f.name: f.metadata for f in columns} == {
        "id": None,
        "name": None,
        "j": {b"penstock.type": b"json"},
        "u": {b"penstock.type": b"uuid"},
    }
    assert run(EmbeddedTopics(tmp_path).writer("g-1").columns("t")).equals(columns)
    assert run(topics.writer("g-1").columns("never made")) is None


def test_topics_are_named_once_they_are_made(tmp_path):
    topics = EmbeddedTopics(tmp_path)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "no topic yet").mkdir()

    async def made():
        await Producer(topics, "shop/orders; DROP").open()
        await Producer(topics, "b").open()
        return await topics.list_names()

    assert sorted(run(made())) == ["b", "shop/orders; DROP"]
