"""Dead letters of a topic: listed, and read again as the rows that they were."""

import asyncio
import json

import pyarrow as pa
import pytest

from penstock.model.connector import CommitMode, Connector, Partition
from penstock.model.dead_letter import DEAD_LETTER_SCHEMA, with_key_columns
from penstock.model.dead_letter_queue import (
    REPLAYED,
    DeadLetterId,
    DeadLetterQuery,
    RowEdits,
    dead_letter_id,
    parse_ids,
)
from penstock.model.errors import ConfigError, DataError, Diagnostic, ErrorClass
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
from penstock.worker.dead_letters.raw_rows import ParsedLetter
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


def test_waiting_dead_letters_are_the_oldest_that_were_not_replayed(tmp_path):
    async def test(topics):
        query = {"replays": "r", "waiting": True}
        counts, letters = await told(topics, Offsets(0), **query, limit=2)
        assert [str(one.id) for one in letters] == ["0/1", "0/2"]
        assert sum(one.replayed for one in counts) == 1
        _, letters = await told(topics, Offsets(0, 1, 2, 5), **query)
        assert [(str(one.id), one.has_row) for one in letters] == [("0/4", False)]

    over(tmp_path, test)


def test_named_dead_letters_are_returned_whole_with_their_edits(tmp_path):
    async def test(topics):
        changes = RowEdits({"value": "1"}, {DeadLetterId(0, 2): {"id": None}})
        _, letters = await told(topics, ids=parse_ids("0/2,0/0"), whole=True, edits=changes)
        assert [json.loads(one.row) for one in letters] == [{"id": 0, "value": "1"}, {"value": "1"}]
        for ids in ("0/6", "1/0", "0/3"):  # the last one is another connector's
            with pytest.raises(ConfigError, match=r"letters\.not_found"):
                await told(topics, ids=parse_ids(ids))
        _, (found,) = await told(topics, ids=parse_ids("0/0"), edits=RowEdits({"value": 0}))
        assert json.loads(found.row) == {"id": 0, "value": "0"}
        for change in ({"id": "x"}, {"other": "1"}):
            with pytest.raises(ConfigError, match=r"letters\.bad_edit"):
                await told(topics, ids=parse_ids("0/0"), edits=RowEdits(change))

    over(tmp_path, test)


class Parser:
    """Parses `x=…`; the value may be set."""

    def __init__(self):
        self.parsed = []

    async def parse(self, letters):
        return {one.id: self._parse(one) for one in letters}

    def _parse(self, letter):
        row = letter.row
        self.parsed.append(str(letter.id))
        value = row.changes.get("x", row.raw.decode().partition("=")[2])
        if not value.isdigit():
            return ParsedLetter(reason=Diagnostic("x.none", f"{value!r} is none", ErrorClass.DATA))
        schema = StreamSchema(1, row.dataset, pa.schema([("x", pa.int64())]), ("x",))
        return ParsedLetter(f'{{"x":{value}}}', schema)


RAW = [
    letter(None, stage="read", row=None, schema=None, raw=b"x=%d" % n if n != 1 else b"x=")
    for n in range(3)
]


async def parsed_by(parser, topics, **query):
    async def open_parser(connector):
        assert connector.name == "orders"
        return parser

    reader = DeadLetterReader(topics, Offsets(6), open_parser=open_parser)
    query = DeadLetterQuery(TOPIC, "orders", replays="r", parse_as=Connector("orders", {}), **query)
    parts = [part async for part in reader.read(query)]
    return {str(one.id): one for part in parts for one in part.letters}


def test_bytes_are_parsed_by_the_source_with_the_edits_and_told_where_they_are_no_row(tmp_path):
    async def test(topics):
        await put(topics, [RAW], epoch=2)
        found = await parsed_by(Parser(), topics, ids=parse_ids("0/0,0/6-8"))
        assert {id_: one.has_row for id_, one in found.items()} == {
            "0/0": True, "0/6": False, "0/7": False, "0/8": True,
        }  # fmt: skip
        assert found["0/8"].row == '{"x":2}'
        assert found["0/7"].unparsed.code == "x.none"
        assert found["0/6"].unparsed is None, "what was replayed is not parsed"
        edits = RowEdits({}, {DeadLetterId(0, 7): {"x": "7"}, DeadLetterId(0, 8): "x=8"})
        found = await parsed_by(Parser(), topics, ids=parse_ids("0/7-8"), edits=edits, whole=True)
        assert [one.row for one in found.values()] == ['{"x":7}', '{"x":8}']
        assert found["0/7"].raw == b"x=", "as it was"
        text = RowEdits({}, {DeadLetterId(0, 0): "x=1"})
        with pytest.raises(ConfigError, match="not the bytes of one"):
            await parsed_by(Parser(), topics, ids=parse_ids("0/0"), edits=text)

    over(tmp_path, test)


def test_rows_from_bytes_are_replayed_between_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "MAX_PER_CHECKPOINT", 2)

    async def test(topics):
        await put(topics, [RAW], epoch=2)
        edits = RowEdits({}, {DeadLetterId(0, 7): {"x": "7"}})
        reader = ReplayReader(topics.rows(TOPIC), plan(0, 6, 7, 8, done=[6]), edits, Parser())
        events, rows = await read(reader)
        assert rows == [("d", {"id": 0, "value": "x"}), ("d", {"x": 7}), ("d", {"x": 2})]
        (schema,) = [one.schema for one in events if isinstance(one, SchemaVersion)][1:]
        assert schema.key_columns == ("x",)
        batches = [one for one in events if isinstance(one, BatchReady)]
        assert [one.seq for one in batches] == [1, 2, 3]
        replayed = [one.offsets for one in events if isinstance(one, Checkpoint)]
        assert [set(one) for one in replayed] == [
            {one.id for one in plan(0, 7)}, {one.id for one in plan(8)},
        ]  # fmt: skip

    over(tmp_path, test)


def test_bytes_that_are_no_row_end_a_replay_before_they_count_as_replayed(tmp_path):
    async def test(topics):
        await put(topics, [RAW], epoch=2)
        stream = ReplayReader(topics.rows(TOPIC), plan(7), RowEdits(), Parser())
        with pytest.raises(DataError, match="dead letter 0/7") as caught:
            await read(stream)
        assert caught.value.code == "x.none"

    over(tmp_path, test)


def test_bytes_are_parsed_some_at_a_time_and_let_go_when_they_are_released(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "MAX_BYTES", 4)

    async def test(topics):
        await put(topics, [RAW], epoch=2)
        parser, edits = Parser(), RowEdits({"x": "5"})
        stream = ReplayReader(topics.rows(TOPIC), plan(6, 7, 8), edits, parser)
        await stream.open()
        events = aiter(stream)
        while not isinstance(await anext(events), Checkpoint):
            pass
        assert parser.parsed == ["0/6", "0/7"], "three of them have more bytes than may wait"
        rest = asyncio.ensure_future(_rest(events))
        done, _ = await asyncio.wait({rest}, timeout=0.1)
        assert not done
        await stream.release(2)
        assert isinstance((await rest)[-1], EndOfStream)
        assert parser.parsed == ["0/6", "0/7", "0/8"]

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
