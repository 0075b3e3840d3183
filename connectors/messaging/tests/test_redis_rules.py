"""Places in streams, what a stream lost, entries as rows, rows as commands: without a server."""

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from penstock_connector import Op
from penstock_connector._config import parse_config
from penstock_messaging import RedisSink, RedisSource
from penstock_messaging.redis.commands import CommandEncoder
from penstock_messaging.redis.entries import MOST_FIELDS, ColumnDecoder, Entry, EntryDecoder
from penstock_messaging.redis.server import to_connector_error
from penstock_messaging.redis.source import next_count
from penstock_messaging.redis.streams import (
    FIRST,
    EntryId,
    Place,
    Stream,
    find_loss,
    is_start,
    next_place,
    parse_id,
    start_place,
)
from penstock_messaging.redis.values import texts_of

NOW = 1_800_000_000.0
MOST = 2**64 - 1


def e(ms, number=0):
    return EntryId(ms, number)


def test_ids():
    assert parse_id("12-3") == e(12, 3)
    assert parse_id("12") == e(12)
    assert str(e(12, 3)) == "12-3"
    for bad in ("", "a", "1-", "-1", "1-2-3", "1 ", str(MOST + 1), "\uff11"):
        assert parse_id(bad) is None


STREAM = Stream(length=3, added=10, first=e(8), last=e(10))
"""Ten entries of the ids 1 to 10, of which the oldest seven are trimmed."""


@pytest.mark.parametrize(
    ("place", "stream", "told"),
    [
        (Place(e(7), 7), STREAM, ""),
        (Place(e(8), 8), STREAM, ""),
        (Place(e(10), 10), STREAM, ""),
        (Place(e(6), 6), STREAM, "1 entries"),
        (Place(FIRST, 0), STREAM, "7 entries"),
        (Place(FIRST, 7), STREAM, ""),
        (Place(e(8)), STREAM, ""),
        (Place(e(5)), STREAM, "entries behind"),
        (Place(e(5), 5), None, ""),
        (Place(e(11), 11), STREAM, "another one"),
        (Place(e(7), 11), STREAM, "another one"),
        # it was made anew, and has got more entries than were read of the old one
        (Place(e(7), 3), Stream(10, 10, e(20), e(30)), "another one"),
        (Place(e(10), 10), Stream(0, 10, FIRST, e(10)), ""),
        (Place(e(9), 9), Stream(0, 10, FIRST, e(10)), "1 entries"),
        (Place(e(10)), Stream(0, 10, FIRST, e(10)), ""),
        (Place(e(9)), Stream(0, 10, FIRST, e(10)), "entries behind"),
    ],
)
def test_what_a_stream_lost_is_known(place, stream, told):
    found = find_loss(place, stream)
    assert (told in found) if told else found == ""


@pytest.mark.parametrize(
    ("start", "place"),
    [
        ("earliest", Place(FIRST, 7)),
        ("latest", Place(e(10), 10)),
        ("0-0", Place(FIRST, 7)),
        ("7", Place(e(7), 7)),
        ("8", Place(e(8))),
        ("9-5", Place(e(9, 5))),
        ("timestamp:1970-01-01T00:00:00.009+00:00", Place(e(8, MOST))),
        ("by_duration:PT1H", Place(e(int(NOW * 1000) - 3_600_001, MOST))),
    ],
)
def test_where_a_stream_begins(start, place):
    assert is_start(start)
    found = start_place(start, STREAM, NOW)
    assert found == place
    assert find_loss(found, STREAM) == "" or found.after > STREAM.last
    assert Place.of(found.offset()) == found


def test_a_stream_that_is_not_there_begins_at_its_first_entry():
    for start in ("earliest", "latest"):
        assert start_place(start, None, NOW) == Place(FIRST, 0)
    for bad in ("first", "", "by_duration:x", "timestamp:2026-01-31"):
        assert not is_start(bad)


def test_the_count_is_the_servers_at_the_end_and_else_goes_on():
    assert next_place(Place(e(7), 7), STREAM, e(9), 2, is_end=False) == Place(e(9), 9)
    # entries between were deleted: at the end that does not matter
    assert next_place(Place(e(7), 7), STREAM, e(10), 2, is_end=True) == Place(e(10), 10)
    assert next_place(Place(e(7)), STREAM, e(9), 2, is_end=False) == Place(e(9))


# ── entries as rows ──────────────────────────────────────────────────────────────────────────────


def decode(*entries, id_column=""):
    decoder = ColumnDecoder("orders", id_column)
    decoded = decoder.decode([Entry(e(at + 1), parts) for at, parts in enumerate(entries)])
    rows = [row for batch in decoded.batches for row in batch.rows.to_pylist()]
    return rows, [(one.error.code, one.offset["id"]) for one in decoded.bad]


def test_entries_that_have_no_row_are_named_one_by_one():
    rows, bad = decode(
        [b"a", b"1"],
        [b"a", b"\xff"],
        [b"\xff", b"1"],
        [b"__op", b"3"],
        [b"a", b"1", b"a", b"2"],
        [b"id", b"1"],
        [b"b", "é".encode()],
        id_column="id",
    )
    assert [(row["id"], row["a"], row["b"], row["__ts_us"]) for row in rows] == [
        ("1-0", "1", None, 1000), ("7-0", None, "é", 7000),
    ]  # fmt: skip
    assert bad == [
        ("redis.not_text", "2-0"), ("redis.not_text", "3-0"), ("redis.reserved_column", "4-0"),
        ("redis.duplicate_field", "5-0"), ("redis.duplicate_field", "6-0"),
    ]  # fmt: skip


def test_columns_are_only_added_up_to_a_bound():
    decoder = ColumnDecoder("orders", "")
    (first,) = decoder.decode([Entry(e(1), [b"a", b"1"])]).batches
    (second,) = decoder.decode([Entry(e(2), [b"b", b"1"])]).batches
    assert first.rows.schema.names == ["a", "__ts_us"]
    assert second.rows.schema.names == ["a", "b", "__ts_us"]
    many = [part for n in range(MOST_FIELDS) for part in (b"f%d" % n, b"")]
    (bad,) = decoder.decode([Entry(e(3), many)]).bad
    assert bad.error.code == "redis.too_many_fields"


def test_a_field_of_a_message_that_comes_twice_is_not_lost():
    config = parse_config(
        RedisSource.config_type, {"redis.uri": "redis://h", "redis.stream.name": "s",
                                  "redis.entry": "message", "value.converter": "string"},
    )  # fmt: skip
    decoder = EntryDecoder("s", "", config.open_converters())
    (batch,) = decoder.decode([Entry(e(1), [b"value", b"a", b"value", b"b"])]).batches
    assert batch.rows.to_pylist()[0]["value"] == "a"
    assert batch.rows.to_pylist()[0]["__headers"] == [("value", b"b")]


def test_large_entries_are_asked_for_few_at_a_time():
    large, small = Entry(e(1), [b"a", bytes(4 << 20)]), Entry(e(1), [b"a", b"b"])
    assert next_count(100, [large] * 100, 5000) == 1
    assert next_count(100, [small] * 100, 5000) == 200
    assert next_count(4000, [small] * 4000, 5000) == 5000
    assert next_count(1, [], 5000) == 2


# ── rows as commands ─────────────────────────────────────────────────────────────────────────────

UTC = dt.UTC
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
GOLDEN = [
    (pa.int8(), -128, b"-128"),
    (pa.int64(), 9_007_199_254_740_993, b"9007199254740993"),
    (pa.uint64(), 2**64 - 1, b"18446744073709551615"),
    (pa.float32(), 0.1, b"0.1"),
    (pa.float64(), 0.1, b"0.1"),
    (pa.float64(), 1e300, b"1e+300"),
    (pa.decimal128(38, 2), decimal.Decimal("12345678901234567890.10"), b"12345678901234567890.10"),
    (pa.bool_(), True, b"true"),
    (pa.string(), "é\n", "é\n".encode()),
    (pa.large_string(), "", b""),
    (pa.dictionary(pa.int8(), pa.string()), "a", b"a"),
    (pa.binary(), b"\xff\x00", b"\xff\x00"),
    (pa.binary(2), b"\xff\x00", b"\xff\x00"),
    (pa.date32(), dt.date(1969, 12, 31), b"1969-12-31"),
    (pa.time64("us"), dt.time(1, 2, 3, 4), b"01:02:03.000004"),
    (pa.timestamp("us"), AT.replace(tzinfo=None), b"2026-01-02T03:04:05.000006"),
    (
        pa.timestamp("ms", "Europe/Zurich"),
        dt.datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
        b"2026-01-02T03:04:05.006Z",
    ),
    (pa.list_(pa.int64()), [1, None], b"[1,null]"),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], b'[["a",1]]'),
    (pa.struct([("a", pa.date32())]), {"a": dt.date(2026, 1, 2)}, b'{"a":"2026-01-02"}'),
    (pa.int64(), None, None),
    (pa.null(), None, None),
]


@pytest.mark.parametrize(("kind", "value", "text"), GOLDEN)
def test_each_type_has_one_text(kind, value, text):
    assert texts_of(pa.array([value, None], kind)) == [text, None]


def commands(rows, schema, keys=(), template="k", **given):
    config = parse_config(
        RedisSink.config_type,
        {"redis.uri": "redis://h", "value.converter.schemas.enable": "false"} | given,
    )
    encoder = CommandEncoder(
        "orders", schema, keys, config.open_converters(), config.redis_command,
        as_columns=config.as_columns, template=template,
    )  # fmt: skip
    staged, refused = encoder.encode(pa.RecordBatch.from_pylist(rows, schema))
    return staged.to_pylist(), {index: error.code for index, error in refused.items()}


PLAIN = pa.schema([("id", pa.int64()), ("a", pa.string())])
CHANGES = PLAIN.append(pa.field("__op", pa.int8()))


def test_an_entry_of_columns_cannot_say_every_change():
    rows = [{"id": 1, "__op": int(op)} for op in (Op.CREATE, Op.DELETE, Op.TRUNCATE, Op.PATCH)]
    for template in ("k", "k:${key}"):
        staged, refused = commands(rows, CHANGES, ["id"], template)
        assert staged[0]["parts"] == [b"id", b"1"]
        assert refused == dict.fromkeys((1, 2, 3), "redis.unsupported_change")


def test_a_hash_loses_the_fields_that_became_null_and_goes_as_a_whole():
    rows = [{"id": 1, "a": None, "__op": 5}, {"id": 1, "a": "x", "__op": int(Op.DELETE)}]
    staged, refused = commands(
        rows, CHANGES, ["id"], "h:${key}!", **{"redis.command": "HSET"}
    )  # fmt: skip
    assert refused == {}
    assert staged[0]["key"] == b"h:1!"
    assert (staged[0]["parts"], staged[0]["removed"]) == ([b"id", b"1"], [b"a"])
    assert (staged[1]["is_delete"], staged[1]["parts"], staged[1]["removed"]) == (True, [], [])


def test_rows_that_have_no_command_are_named_one_by_one():
    schema = pa.schema(
        [("a", pa.string()), ("__key", pa.string()), ("__headers", pa.map_("string", "binary"))]
    )
    rows = [
        {"a": "x", "__key": "k"},
        {"a": "x", "__key": None},
        {"a": "x", "__key": ""},
        {"a": "x", "__key": "k", "__headers": [("value", b"")]},
    ]
    given = {"redis.entry": "message"}
    staged, refused = commands(rows, schema, (), "s:${key}", **given)
    assert refused == {1: "redis.no_key", 2: "redis.no_key", 3: "redis.header"}
    assert staged[0]["parts"] == [b"key", b"k", b"value", b'{"a":"x"}']
    _, refused = commands([{"id": None, "a": None}], PLAIN)
    assert refused == {0: "redis.empty_row"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", "redis.memory_full"),
        ("READONLY You can't write against a read only replica.", "redis.read_only"),
        ("LOADING Redis is loading the dataset in memory", "redis.loading"),
        ("MASTERDOWN Link with MASTER is down", "redis.loading"),
        ("BUSY Redis is busy running a script.", "redis.busy"),
        ("NOREPLICAS Not enough good replicas to write.", "redis.replicas"),
        ("MISCONF Errors writing to the AOF file: No space left on device", "redis.disk"),
        ("WRONGPASS invalid username-password pair", "redis.not_authorized"),
        ("NOPERM User u has no permissions to run the 'xadd' command", "redis.no_permission"),
        ("CROSSSLOT Keys in request don't hash to the same slot", "redis.cross_slot"),
        ("MOVED 3999 127.0.0.1:6381", "redis.moved"),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", "redis.wrong_type"),
    ],
)
def test_an_answer_means_what_its_first_word_says(text, code):
    error = to_connector_error(Exception(text), "h:1")
    assert error.code == code
    assert error.fix


def test_no_error_has_a_password():
    error = to_connector_error(Exception("WRONGPASS of pw1234"), "h:1", "pw1234")
    assert "pw1234" not in str(error)
