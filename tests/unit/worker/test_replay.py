"""Dead letters of a topic: listed, and read again as the rows that they were."""

import asyncio
import json

import pyarrow as pa
import pytest

from penstock.model.connector import CommitMode, Partition
from penstock.model.dead_letter import DEAD_LETTER_SCHEMA, with_key_columns
from penstock.model.dead_letter_queue import (
    REPLAYED,
    DeadLetterId,
    DeadLetterQuery,
    RowEdits,
    dead_letter_id,
    parse_ids,
)
from penstock.model.errors import ConfigError
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    EndOfStream,
    PutSlot,
    SchemaVersion,
    StreamSchema,
)
from penstock.spark.connector_io import source_reader
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files.file_writer import write_files
from penstock.worker.admin.dead_letter_reader import DeadLetterReader
from penstock.worker.config.broker_topics import BrokerTopics
from penstock.worker.dead_letters import replay
from penstock.worker.dead_letters.replay import ReplayReader

ROWS = pa.schema([("id", pa.int64()), ("value", pa.string())])
OTHERS = pa.schema([("name", pa.string())])
TOPIC = "dead"


def letter(values, columns=ROWS, keys=(), **more):
    return {
        "connector": "orders", "task": "g-0", "stage": "transform", "code": "c.cast",
        "message": "no number", "dataset": "d", "partition": "{}", "epoch": 1, "transaction": 2,
        "failed_at": 1_000_000, "row": json.dumps(values),
        "schema": with_key_columns(columns, keys).serialize().to_pybytes(), **more,
    }  # fmt: skip


LETTERS = [
    letter({"id": 0, "value": "x"}),
    letter({"name": "n"}, OTHERS, ("name",), dataset="e", failed_at=3_000_000),
    letter({"id": 2, "value": "x"}, failed_at=2_000_000, code="c.other"),
    letter({"id": 3, "value": "x"}, connector="another"),
    letter(None, stage="read", row=None, schema=None, raw=b"{ no", failed_at=4_000_000),
    letter({"id": 5, "value": "x"}, failed_at=5_000_000),
]


class Offsets:
    """Knows which dead letters were replayed."""

    def __init__(self, *done):
        self.done = done

    async def list(self, generation):
        assert generation == "r"
        for offset in self.done:
            yield DeadLetterId(0, offset).to_partition(TOPIC).id, REPLAYED


async def put(topics, files, epoch=1, columns=DEAD_LETTER_SCHEMA):
    """Write dead letters into the topic, those of each file in a transaction."""
    writer = topics.writer("g-0-letters")
    await writer.open(epoch, CommitMode.UNSPECIFIED, None, recover=False)
    await writer.apply_schema(StreamSchema(1, TOPIC, columns))
    for txn, letters in enumerate(files, 10 * epoch):
        some = pa.RecordBatch.from_pylist(letters, schema=columns)
        detail = write_files([some], writer.ticket(txn, 0, 1), attempt=txn)
        await writer.prepare(txn, [PutSlot(0, txn, len(letters), detail)], b"{}")
        await writer.commit(txn)


def over(tmp_path, test):
    """Run a test over a topic with dead letters, two in each file."""

    async def main():
        async with asyncio.timeout(60), EmbeddedTopics(tmp_path) as topics:
            await put(topics, [LETTERS[:2], LETTERS[2:4], LETTERS[4:]])
            await test(topics)

    asyncio.run(main())


async def told(topics, offsets=None, **query):
    """Return the counts of a result, and its dead letters."""
    reader = DeadLetterReader(topics, offsets or Offsets())
    parts = [part async for part in reader.read(DeadLetterQuery(TOPIC, "orders", **query))]
    return parts[0].counts, [one for part in parts for one in part.letters]


def test_dead_letters_at_a_broker_are_not_said_to_be_none(tmp_path):
    async def test(topics):
        brokers = BrokerTopics("kafka", {"bootstrap.servers": "b:9092"})
        reader = DeadLetterReader(topics, Offsets(), brokers=brokers)
        assert [part async for part in reader.read(DeadLetterQuery(TOPIC, "orders"))]
        with pytest.raises(ConfigError) as caught:
            [part async for part in reader.read(DeadLetterQuery("elsewhere", "orders"))]
        assert caught.value.code == "letters.at_broker"

    over(tmp_path, test)


def test_dead_letters_are_counted_and_the_newest_are_listed(tmp_path):
    async def test(topics):
        counts, letters = await told(topics, limit=2)
        assert {(c.stage, c.code, c.dataset, c.letters) for c in counts} == {
            ("transform", "c.cast", "d", 2), ("transform", "c.cast", "e", 1),
            ("transform", "c.other", "d", 1), ("read", "c.cast", "d", 1),
        }  # fmt: skip
        assert [str(one.id) for one in letters] == ["0/5", "0/4"]
        assert [one.has_row for one in letters] == [True, False]
        assert letters[0].row == "", "rows are told to those who ask for them"
        _, letters = await told(topics, code="c.other")
        assert [str(one.id) for one in letters] == ["0/2"]
        _, letters = await told(topics, since_us=4_000_000, whole=True)
        assert [one.raw for one in letters] == [b"", b"{ no"]

    over(tmp_path, test)


def test_replayable_dead_letters_are_the_oldest_with_a_row_that_were_not_replayed(tmp_path):
    async def test(topics):
        query = {"replays": "r", "waiting": True}
        counts, letters = await told(topics, Offsets(0), **query, limit=2)
        assert [str(one.id) for one in letters] == ["0/1", "0/2"]
        assert sum(one.replayed for one in counts) == 1
        _, letters = await told(topics, Offsets(0, 1, 2, 5), **query)
        assert letters == []

    over(tmp_path, test)


def test_named_dead_letters_are_returned_whole_with_their_edits(tmp_path):
    async def test(topics):
        changes = RowEdits({"value": "1"}, {DeadLetterId(0, 2): {"id": None}})
        _, letters = await told(topics, ids=parse_ids("0/2,0/0"), whole=True, edits=changes)
        assert [json.loads(one.row) for one in letters] == [{"id": 0, "value": "1"}, {"value": "1"}]
        for ids in ("0/6", "1/0", "0/3"):  # the last one is another connector's
            with pytest.raises(ConfigError, match=r"letters\.not_found"):
                await told(topics, ids=parse_ids(ids))
        for change in ({"value": 1}, {"other": "1"}):
            with pytest.raises(ConfigError, match=r"letters\.bad_edit"):
                await told(topics, ids=parse_ids("0/0"), edits=RowEdits(change))

    over(tmp_path, test)


def test_a_topic_of_dead_letters_with_fewer_columns_is_listed_and_extended(tmp_path):
    """Dead letters that are older than a column have no value in it."""
    older = pa.schema(
        [column for column in DEAD_LETTER_SCHEMA if column.name not in {"offset", "attempt"}]
    )

    async def main():
        async with asyncio.timeout(60), EmbeddedTopics(tmp_path) as topics:
            await put(topics, [LETTERS[:1]], columns=older)
            _, letters = await told(topics, whole=True)
            assert [(one.offset, one.attempt) for one in letters] == [("", None)]
            found = letter({"id": 9, "value": "x"}, failed_at=9_000_000, offset="17", attempt=0)
            await put(topics, [[found]], epoch=2)
            _, letters = await told(topics, whole=True)
            assert [(one.offset, one.attempt) for one in letters] == [("17", 0), ("", None)]
            assert [json.loads(one.row)["id"] for one in letters] == [9, 0]

    asyncio.run(main())


def test_a_missing_topic_has_no_dead_letters(tmp_path):
    async def test(topics):
        reader = DeadLetterReader(topics, Offsets())
        parts = [part async for part in reader.read(DeadLetterQuery("nothing", "orders"))]
        assert [(part.counts, part.letters) for part in parts] == [((), ())]

    over(tmp_path, test)


def plan(*offsets, done=()):
    letters = [DeadLetterId(0, offset).to_partition(TOPIC) for offset in offsets]
    at = {DeadLetterId(0, offset).to_partition(TOPIC).id: REPLAYED for offset in done}
    return [Partition(one.key, at.get(one.id), bounded=True) for one in letters]


async def read(stream):
    """Read a stream to its end; returns its events, and each row with its dataset."""
    events, rows, schemas, batches = [], [], {}, []
    await stream.open()
    async for event in stream:
        events.append(event)
        match event:
            case SchemaVersion():
                schemas[event.schema.schema_id] = event.schema
            case BatchReady():
                batches.append(event)
            case Checkpoint():
                for batch in batches:
                    place = stream.ticket([batch.seq], batch.schema_id)
                    found = source_reader.read_replay(json.loads(json.dumps(place)))
                    dataset = schemas[batch.schema_id].dataset
                    rows += [(dataset, row) for one in found for row in one.to_pylist()]
                batches = []
                await stream.release(event.last_seq)
    return events, rows


def test_dead_letters_are_read_as_their_rows_with_their_edits_and_then_the_stream_ends(tmp_path):
    async def test(topics):
        changes = RowEdits({"value": "7"}, {DeadLetterId(0, 5): {"value": None}})
        stream = ReplayReader(topics.rows(TOPIC), plan(5, 0, 2), changes)
        events, rows = await read(stream)
        values = [{"id": 0, "value": "7"}, {"id": 2, "value": "7"}, {"id": 5, "value": None}]
        assert rows == [("d", value) for value in values]
        assert isinstance(events[-1], EndOfStream)
        (checkpoint,) = [one for one in events if isinstance(one, Checkpoint)]
        assert checkpoint.rows == 3
        assert set(checkpoint.offsets) == {one.id for one in plan(0, 2, 5)}

    over(tmp_path, test)


def test_rows_keep_their_datasets_columns_and_keys(tmp_path):
    async def test(topics):
        stream = ReplayReader(topics.rows(TOPIC), plan(0, 1), RowEdits())
        events, rows = await read(stream)
        assert rows == [("d", {"id": 0, "value": "x"}), ("e", {"name": "n"})]
        seen = {one.schema.dataset: one.schema for one in events if isinstance(one, SchemaVersion)}
        assert (seen["d"].key_columns, seen["e"].key_columns) == ((), ("name",))
        assert seen["e"].arrow.equals(OTHERS, check_metadata=True)

    over(tmp_path, test)


def test_replayed_dead_letters_are_not_read_again(tmp_path):
    async def test(topics):
        events, rows = await read(
            ReplayReader(topics.rows(TOPIC), plan(0, 2, done=[0]), RowEdits())
        )
        assert [row["id"] for _, row in rows] == [2]
        events, rows = await read(ReplayReader(topics.rows(TOPIC), plan(0, done=[0]), RowEdits()))
        assert [type(one) for one in events] == [EndOfStream]

    over(tmp_path, test)


@pytest.mark.parametrize(("offset", "code"), [(4, "letters.no_row"), (6, "topic.no_row")])
def test_a_dead_letter_without_a_row_is_refused_before_any_row_moves(tmp_path, offset, code):
    async def test(topics):
        stream = ReplayReader(topics.rows(TOPIC), plan(0, offset), RowEdits())
        with pytest.raises(ConfigError, match=code.replace(".", r"\.")):
            await stream.open()

    over(tmp_path, test)


def test_no_more_is_announced_than_fits_into_a_ticket(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "MAX_UNRELEASED", 2)
    monkeypatch.setattr(replay, "MAX_PER_CHECKPOINT", 1)

    async def test(topics):
        stream = ReplayReader(topics.rows(TOPIC), plan(0, 1, 2, 5), RowEdits())
        await stream.open()
        batches, events = 0, aiter(stream)
        while batches < 2:
            batches += isinstance(await anext(events), BatchReady)
        rest = asyncio.ensure_future(_rest(events))
        done, _ = await asyncio.wait({rest}, timeout=0.1)
        assert not done, "two are held"
        rest.cancel()

    over(tmp_path, test)


async def _rest(events):
    return [event async for event in events]


def test_a_partition_names_its_dead_letter():
    one = DeadLetterId(1, 17)
    assert dead_letter_id(one.to_partition(TOPIC).key) == one
