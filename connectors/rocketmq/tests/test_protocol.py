"""Frames and what name servers say: right ones are read, all others are refused by a code."""

import base64
import contextlib
import hashlib
import hmac
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock_rocketmq.cluster import Queue, parse_members, parse_route, parse_topics
from penstock_rocketmq.frames import (
    MAX_FRAME_BYTES,
    FrameReader,
    ProtocolError,
    Request,
    Signer,
    encode_request,
    parse_frame,
)

from support.rocketmq_peer import answer


def test_a_request_has_the_form_of_rocketmq():
    frame = encode_request(Request.GET_MAX_OFFSET, 7, {"topic": "t"}, b"body", None)
    length, header_length = struct.unpack_from(">ii", frame)
    header = json.loads(frame[8 : 8 + header_length])
    assert length == len(frame) - 4
    assert (header["code"], header["opaque"], header["flag"]) == (30, 7, 0)
    assert header["extFields"] == {"topic": "t"}
    assert frame[8 + header_length :] == b"body"


def test_a_signature_is_that_of_rocketmqs_clients():
    # the value of their own test: "RocketMQ" signed with 12345678
    assert hmac.digest(b"12345678", b"RocketMQ", hashlib.sha1) == base64.b64decode(
        "IUc8rrO/0gDch8CjObLQsW2rsiA="
    )
    signed = Signer("Mq", "12345678").sign({"b": "et", "A": "Rock"}, b"")  # A, AccessKey, b
    digest = hmac.digest(b"12345678", b"RockMqet", hashlib.sha1)
    assert signed == {
        "A": "Rock", "b": "et", "AccessKey": "Mq", "Signature": base64.b64encode(digest).decode(),
    }  # fmt: skip


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 40))
def test_answers_are_read_however_they_are_cut(bodies, size):
    data = b"".join(answer(number, body=body) for number, body in enumerate(bodies))
    reader = FrameReader()
    found = [one for at in range(0, len(data), size) for one in reader.feed(data[at : at + size])]
    assert [(one.opaque, one.body) for one in found] == list(enumerate(bodies))


def test_requests_of_a_broker_are_left_out():
    reader = FrameReader()
    found = list(reader.feed(answer(1, code=40, flag=0) + answer(2)))
    assert [one.opaque for one in found] == [2]


@pytest.mark.parametrize("length", [-1, 0, 3, MAX_FRAME_BYTES + 1, 0x48545450])
def test_no_length_is_believed_that_a_frame_does_not_have(length):
    with pytest.raises(ProtocolError, match="a frame has"):
        list(FrameReader().feed(struct.pack(">i", length) + b"rest"))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frame_are_refused_by_one_error(data):
    reader = FrameReader()
    try:
        for one in reader.feed(data):
            assert isinstance(one.code, int)
    except ProtocolError:
        pass


@given(st.integers(0, 400), st.integers(0, 255))
def test_damaged_frames_are_refused_by_one_error(at, value):
    frame = bytearray(answer(5, body=b"body", queueOffset="1")[4:])
    frame[at % len(frame)] = value
    try:
        found = parse_frame(bytes(frame))
    except ProtocolError:
        return
    if found is not None:
        with pytest.raises(ProtocolError):
            found.number("never there")


ROUTE = {
    "brokerDatas": [
        {"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": "h:1", "1": "slave:1"}},
        {"brokerName": "a", "cluster": "c", "brokerAddrs": {"1": "slave:2"}},
    ],
    "queueDatas": [
        {"brokerName": "b", "readQueueNums": 2, "writeQueueNums": 1, "perm": 6},
        {"brokerName": "a", "readQueueNums": 1, "writeQueueNums": 1, "perm": 4},
        {"brokerName": "gone", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6},
    ],
}


def test_a_route_has_queues_by_permission_and_masters():
    route = parse_route(json.dumps(ROUTE).encode())
    assert route.readable == (Queue("a", 0), Queue("b", 0), Queue("b", 1))
    assert route.writable == (Queue("b", 0),)
    assert route.masters == {"b": "h:1"}


def test_keys_of_objects_may_be_numbers_without_quotes():
    body = (
        b'{"brokerAddrTable":{"a,{1:":{"brokerName":"a,{1:","brokerAddrs":{0:"h:1", 1:"s:1"}}},'
        b'"clusterAddrTable":{"c":["a"]}}'
    )
    assert parse_members(body) == ({"a,{1:": "h:1"}, ["c"])


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("queueDatas", "readQueueNums", 10**9),
        ("queueDatas", "readQueueNums", "many"),
        ("queueDatas", "perm", None),
        ("brokerDatas", "brokerAddrs", {"0": "http://evil/"}),
        ("brokerDatas", "brokerAddrs", {"0": "h:99999"}),
        ("brokerDatas", "brokerAddrs", []),
        ("brokerDatas", "brokerName", "x" * 300),
    ],
)
def test_a_route_that_cannot_be_is_refused(part, key, value):
    lie = json.loads(json.dumps(ROUTE))
    lie[part][0][key] = value
    with pytest.raises(ProtocolError):
        parse_route(json.dumps(lie).encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["brokerDatas", "queueDatas", "brokerName", "brokerAddrs", "perm", "readQueueNums",
             "writeQueueNums", "brokerAddrTable", "clusterAddrTable", "topicList", "0"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_what_a_name_server_says_is_read_or_refused_by_one_error(value):
    for parse in (parse_route, parse_members, parse_topics):
        with contextlib.suppress(ProtocolError):
            parse(json.dumps(value).encode())
