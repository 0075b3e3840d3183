"""Messages as brokers store them, made here after the description of their format."""

import contextlib
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock_rocketmq import storage
from penstock_rocketmq.frames import ProtocolError
from penstock_rocketmq.storage import decode_batch, decode_messages, encode_message

from support.rocketmq_peer import stored


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=60),
            st.binary(max_size=60),
            st.sampled_from([0, 16, 32, 48]),
            st.sampled_from([b"t", b"x" * 127, b"x" * 200]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_messages_come_out_as_they_were_stored(messages):
    data = b"".join(
        stored(body, properties, 7 + at, flags, topic)
        for at, (body, properties, flags, topic) in enumerate(messages)
    )
    found = decode_messages(data)
    assert found.offsets.tolist() == list(range(7, 7 + len(messages)))
    assert set(found.born_ms.tolist()) == {1_700_000_000_123}
    assert found.bodies == [body for body, *_ in messages]
    assert found.properties == [properties for _, properties, *_ in messages]
    assert found.raw == {}


def compressed(body, codec):
    if codec == "zlib":
        return zlib.compress(body)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("codec", "flags"), [("zlib", 1), ("zlib", 0x301), ("lz4", 0x101), ("zstd", 0x201)]
)
def test_compressed_bodies_are_decompressed(codec, flags):
    body = b"a text that comes again, a text that comes again" * 100
    assert decode_messages(stored(compressed(body, codec), flags=flags)).bodies == [body]


@pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd"])
def test_a_small_body_that_becomes_too_large_is_damaged(codec, monkeypatch):
    monkeypatch.setattr(storage, "MAX_BODY_BYTES", 1000)
    body = compressed(bytes(1001), codec)
    found = decode_messages(stored(body, flags={"zlib": 1, "lz4": 0x101, "zstd": 0x201}[codec]))
    assert (found.bodies, found.raw) == ([None], {0: body})


def test_bodies_are_decoded_up_to_a_number_of_bytes(monkeypatch):
    monkeypatch.setattr(storage, "MAX_DECODED_BYTES", 1000)
    data = b"".join(stored(zlib.compress(bytes(600)), offset=at, flags=1) for at in range(5))
    counts = []
    while data:
        found = decode_messages(data)
        counts.append(found.offsets.tolist())
        data = found.rest
    assert counts == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("flags", [1, 0x101, 0x201, 0x701])
def test_a_body_that_cannot_be_decompressed_is_damaged(flags):
    found = decode_messages(stored(b"no such thing", flags=flags))
    assert (found.bodies, found.raw) == ([None], {0: b"no such thing"})


def test_a_body_without_its_checksum_is_damaged_and_the_others_are_read():
    bad = bytearray(stored(b"body", offset=1))
    bad[-7] ^= 1  # within the body
    found = decode_messages(stored(b"good") + bytes(bad))
    assert found.bodies == [b"good", None]
    assert list(found.raw) == [1]


def test_a_batch_that_is_stored_whole_is_its_messages():
    inner = [(b"one", b"A\x01b\x02"), (b"", b""), (b"three", b"")]
    batch = b"".join(encode_message(*one) for one in inner)
    found = decode_messages(stored(b"alone") + stored(batch, offset=5, flags=64 | 128))
    assert found.bodies == [b"alone", b"one", b"", b"three"]
    assert found.offsets.tolist() == [0, 5, 6, 7]


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), max_size=5))
def test_batches_are_read_as_they_are_written(messages):
    assert decode_batch(b"".join(encode_message(*one) for one in messages)) == messages


@given(st.binary(min_size=1, max_size=300))
def test_bytes_that_are_no_messages_are_refused_by_one_error(data):
    for decode in (decode_messages, decode_batch):
        with contextlib.suppress(ProtocolError):
            decode(data)


@given(st.data())
def test_damaged_messages_are_read_or_refused_by_one_error(data):
    whole = stored(b"body", b"A\x01b\x02", flags=data.draw(st.sampled_from([0, 48, 192])))
    changed = bytearray(whole + stored(b"second", offset=1))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_messages(bytes(changed))
    except ProtocolError:
        return
    assert len(found.bodies) == len(found.offsets) == len(found.properties)
