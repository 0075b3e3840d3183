"""Messages that could not be read are kept whole, and corrected part by part."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_connector import Batch, ConnectorError, RawRow, RetriableError
from penstock_connector.converter_keys import open_converter
from penstock_connector.messages import Converters
from penstock_connector.raw_message_reader import RawMessageReader
from penstock_connector.raw_messages import RawMessage

PLAIN = {"schemas.enable": "false"}
PLACE = {"partition": 3, "topic": "t"}
BYTES = st.none() | st.binary(max_size=40) | st.text(max_size=40).map(str.encode)
NUMBERS = st.none() | st.integers(0, (1 << 53) - 1)
WHOLE = RawMessage(b"k", b'{"n": 1}', 7_000, [("h", b"1"), ("h", None)], 17)


def converters():
    key = open_converter("key.converter", "string", {}, is_key=True)
    return Converters(key, open_converter("value.converter", "json", PLAIN, is_key=False))


def read(*raw, neighbours=(), positions=False, **changes):
    """Return what becomes of some rows, which all have the same changes."""
    reader = RawMessageReader(
        "kafka", converters, lambda _: neighbours, number="partition", positions=positions
    )
    found = list(reader.read([RawRow(one, PLACE, "t", changes) for one in raw]))
    reader.close()
    return found


def row(found):
    assert isinstance(found, Batch), found
    ((values),) = found.rows.to_pylist()
    return values


def refused(found, code):
    assert isinstance(found, ConnectorError), found
    assert (found.code, bool(found.fix)) == (code, True)
    return found.message


@given(BYTES, BYTES, NUMBERS, st.lists(st.tuples(st.text(max_size=9), BYTES)), NUMBERS)
def test_every_part_comes_back_as_it_was(key, value, at_ms, headers, offset):
    message = RawMessage(key, value, at_ms, headers, offset)
    found = RawMessage.from_bytes(message.to_bytes())
    assert (found.key, found.value, list(found.headers)) == (key, value, headers)
    assert (found.timestamp_ms, found.offset, found.damaged) == (at_ms, offset, False)


@given(st.binary(max_size=200))
def test_bytes_do_not_grow_by_more_than_a_half(value):
    size = len(RawMessage(None, value).to_bytes())
    assert size <= 120 + len(value) * 3 // 2


def test_any_other_bytes_are_no_message():
    for raw in (b"", b"{", b"\xff", b"[]", b'{"key": "k"}', b"[" * 100_000):
        assert RawMessage.from_bytes(raw) is None


@pytest.mark.parametrize(
    ("member", "value", "named"),
    [
        ("raw_message", 2, "`raw_message`"),
        ("topic", "t", "`topic` is unknown"),
        ("key", 7, "`key`"),
        ("key", "\ud800", "`key`"),
        ("value_base64", "?", "`value_base64`"),
        ("value_base64", "QQ==", "`value` and `value_base64`"),
        ("headers", {"h": "1"}, "`headers`"),
        ("headers", [["h", 1]], "`headers`"),
        ("headers", [["h", {"base64": 1}]], "headers of h"),
        ("timestamp_ms", "now", "`timestamp_ms`"),
        ("offset", -1, "`offset`"),
    ],
)
def test_a_wrong_member_is_named(member, value, named):
    members = json.loads(WHOLE.to_bytes()) | {member: value}
    (found,) = read(json.dumps(members).encode())
    assert named in refused(found, "kafka.not_a_message")


def test_a_message_is_a_row_with_its_key_time_and_headers():
    (found,) = read(WHOLE.to_bytes())
    assert row(found) == {
        "n": 1, "__key": "k", "__ts_us": 7_000_000, "__headers": [("h", b"1"), ("h", None)],
    }  # fmt: skip
    assert found.dataset == "t"
    (found,) = read(WHOLE.to_bytes(), positions=True)
    assert (row(found)["__partition"], row(found)["__offset"]) == (3, 17)


def test_a_row_has_the_columns_of_its_neighbours():
    near = [RawMessage(None, b'{"n": 0.5, "s": "x"}'), RawMessage(None, b"no")]
    found, _ = read(b'{"n": 2}', b'{"m": 1}', neighbours=near, __raw_key=None)
    assert row(found) == {"n": 2.0, "s": None, "__ts_us": None}
    assert found.rows.schema.field("n").type == pa.float64()


def test_the_parts_of_a_message_can_be_set():
    (found,) = read(WHOLE.to_bytes(), __raw_key="other", __raw_value='{"n": 2}')
    assert (row(found)["__key"], row(found)["n"]) == ("other", 2)
    (found,) = read(WHOLE.to_bytes(), __raw_value=None, neighbours=[WHOLE])
    assert (row(found)["__op"], row(found)["n"]) == (3, None)
    near = [RawMessage(None, b'{"n": 1, "zip": "x"}')]
    (found,) = read(WHOLE.to_bytes(), n="12", zip="0123", neighbours=near)
    assert (row(found)["n"], row(found)["zip"]) == (12, "0123")


def test_what_cannot_be_set_is_refused_by_name():
    (found,) = read(RawMessage(b"k", b"no").to_bytes(), n="1")
    assert "'n'" in refused(found, "kafka.value_not_set")
    (found,) = read(WHOLE.to_bytes(), __headers="{}")
    assert "'__headers'" in refused(found, "kafka.value_not_set")


def test_a_value_alone_needs_a_word_about_its_key():
    (found,) = read(b'{"n": 5}')
    refused(found, "kafka.key_unknown")
    (found,) = read(b'{"n": 5}', __raw_key="k")
    assert (row(found)["__key"], row(found)["n"]) == ("k", 5)
    (found,) = read(b'{"n": 5}', __raw_key=None)
    assert "__key" not in row(found)


def test_a_damaged_value_goes_on_only_when_it_was_corrected():
    damaged = RawMessage(b"k", b'{"n": 9}', damaged=True).to_bytes()
    (found,) = read(damaged)
    refused(found, "kafka.damaged")
    (found,) = read(damaged, __raw_value='{"n": 1}')
    assert row(found)["n"] == 1
    members = json.loads(damaged)
    del members["damaged"]
    (found,) = read(json.dumps(members).encode())
    assert row(found)["n"] == 9


def test_one_bad_row_does_not_stop_the_others_and_a_broker_that_is_away_does():
    bad, good = read(RawMessage(None, b"{").to_bytes(), WHOLE.to_bytes())
    refused(bad, "converter.not_json")
    assert row(good)["n"] == 1

    def away(_):
        raise RetriableError("kafka.unavailable", "away", fix="Start it.")

    reader = RawMessageReader("kafka", converters, away, number="partition", positions=False)
    with pytest.raises(RetriableError):
        list(reader.read([RawRow(WHOLE.to_bytes(), PLACE, "t")]))
    reader.close()
