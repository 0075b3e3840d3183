"""Properties: what rows have of them, and what rows may not make of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock_rocketmq.properties import (
    InvalidPropertyError,
    decode_properties,
    encode_properties,
    hash_keys,
    queue_of,
)

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=10)
NAMES = TEXT.map(lambda text: f"h-{text}")  # no name that is reserved


@given(st.none() | TEXT, st.none() | TEXT, st.integers(0, 10**14), st.dictionaries(NAMES, TEXT))
def test_properties_are_read_as_they_are_written(key, tag, at, headers):
    pairs = [(name, value.encode()) for name, value in headers.items()]
    block = encode_properties(None if key is None else key.encode(), tag, at, pairs)
    found = decode_properties([block, b"", block])
    assert found.keys == [key and key.encode(), None, key and key.encode()]
    assert found.tags[0] == (tag and tag.encode())
    assert found.born_ms == [at, None, at]
    wanted = ([("TAGS", tag.encode())] if tag else []) + pairs
    assert [one or [] for one in found.headers.to_pylist()] == [wanted, [], wanted]
    assert found.headers[1].as_py() is None


def test_what_rocketmq_says_for_itself_is_no_header():
    block = b"UNIQ_KEY\x01A1\x02CLUSTER\x01c\x02WAIT\x01true\x02color\x01red\x02TAGS\x01t\x02"
    found = decode_properties([block + b"__RMQ.TRANSIENT.X\x01y\x02no pair\x02\x01\x02x\x01\x02"])
    assert found.headers.to_pylist() == [[("color", b"red"), ("TAGS", b"t")]]


@given(st.binary(max_size=60))
def test_properties_of_any_bytes_are_read(block):
    decode_properties([block]).headers.validate(full=True)


@pytest.mark.parametrize(
    ("given_", "code"),
    [
        ({"key": b""}, "rocketmq.key"),
        ({"key": b"a\x01b"}, "rocketmq.key"),
        ({"key": b"\xff"}, "rocketmq.key"),
        ({"tag": ""}, "rocketmq.property"),
        ({"headers": [("", b"x")]}, "rocketmq.property"),
        ({"headers": [("a\x02", b"x")]}, "rocketmq.property"),
        ({"headers": [("a", b"x\x02")]}, "rocketmq.property"),
        ({"headers": [("a", b"\xff")]}, "rocketmq.property"),
        ({"headers": [("a", b"")]}, "rocketmq.property"),
        ({"headers": [("a", None)]}, "rocketmq.property"),
        ({"headers": [("a", b"1"), ("a", b"2")]}, "rocketmq.property"),
        ({"headers": [("DELAY", b"3")]}, "rocketmq.reserved_property"),
        ({"headers": [("__RMQ.TRANSIENT.X", b"3")]}, "rocketmq.reserved_property"),
    ],
)
def test_what_a_property_cannot_say_is_refused(given_, code):
    parts = {"key": None, "tag": None, "timestamp_ms": None, "headers": None} | given_
    with pytest.raises(InvalidPropertyError) as refused:
        encode_properties(**parts)
    assert refused.value.error.code == code


def test_a_tag_of_a_column_counts_before_the_header():
    headers = [("TAGS", b"of the header"), ("penstock_id", b"of another connector")]
    assert encode_properties(None, "mine", None, headers) == b"TAGS\x01mine\x02"
    assert encode_properties(None, None, None, headers[:1]) == b"TAGS\x01of the header\x02"


def java_hash(text):
    """Return `String.hashCode` of Java."""
    value = 0
    data = text.encode("utf-16-be")
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@given(st.lists(st.text(max_size=30), max_size=6))
def test_the_hash_of_a_key_is_javas(texts):
    encodable = [text for text in texts if text.isprintable()]
    found = hash_keys([text.encode() for text in encodable]).tolist()
    assert found == [java_hash(text) for text in encodable]


def test_a_queue_is_chosen_as_javas_clients_do():
    # Java: -7 % 4 is -3, and its absolute value 3
    assert [queue_of(hashed, 4) for hashed in (5, -7, -(1 << 31))] == [1, 3, 0]
