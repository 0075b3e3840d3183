"""Dead letters as the messages that they were, at a real broker."""

import json

import pyarrow as pa
import pytest
from penstock_rocketmq import RocketmqSink, RocketmqSource
from penstock_rocketmq.properties import decode_properties

from penstock.model.dead_letter import DEAD_LETTER_SCHEMA
from penstock_connector.testing import sink_task, source_task
from penstock_values.messages import offset_from_proto

REASON = "__connect.errors."
BORN_MS = 1_700_000_000_123


def place(broker, topic, offset, **more):
    """A dead letter of the message at an offset of queue 0."""
    key = json.dumps({"broker": broker, "queue": 0, "topic": topic})
    why = [(f"{REASON}partition", key.encode()), (f"{REASON}exception.message", b"a\x01b")]
    why += [(f"{REASON}exception.stacktrace", b""), (f"{REASON}class.name", b"c" * 40_000)]
    return {"dataset": topic, "partition": key, "offset": offset, "__headers": why, **more}


@pytest.fixture
def broker(rocketmq, topic):
    """The name of the broker, which has the topic."""
    rocketmq.create_topic(topic)
    cluster = rocketmq.client()
    (name,) = cluster.list_masters()
    cluster.close()
    return name


def send(rocketmq, topic, *letters):
    """Write dead letters, and return the messages that they are, of all queues."""
    given = {"namesrv.addr": rocketmq.namesrv, "topic": f"{topic}-dead", "dead.letters": "messages"}
    given |= {"topic.queues": "1", **rocketmq.login}
    with sink_task(RocketmqSink, given) as task:
        rows = pa.RecordBatch.from_pylist(list(letters), DEAD_LETTER_SCHEMA)
        task.write(rows, dataset=f"{topic}-dead")
    return rocketmq.read(f"{topic}-dead")


def test_body_keys_tags_and_properties_are_those_of_the_message(rocketmq, broker, topic):
    properties = b"KEYS\x01k\x02TAGS\x01paid\x02h\x01v\x02BORN_TIMESTAMP\x01%d\x02" % BORN_MS
    rocketmq.send(topic, (b"zero", b""), (b"\xff", properties), (b"", b"KEYS\x01gone\x02"))
    found = send(
        rocketmq,
        topic,
        place(broker, topic, '{"offset":1}', raw=b"?"),
        place(broker, topic, "2", row="{}"),
        place(broker, topic, "9", row='{"n":9}'),
        place(broker, f"{topic}-none", "0", raw=b"raw"),
    )
    assert found.bodies == [b"\xff", b"", b'{"n":9}', b"raw"]
    of_each = decode_properties(found.properties)
    assert (of_each.keys, of_each.tags) == (
        [b"k", b"gone", None, None],
        [b"paid", None, None, None],
    )
    headers = dict(of_each.headers[0].as_py())
    assert (headers["h"], headers["TAGS"]) == (b"v", b"paid")
    assert headers[f"{REASON}partition"] == b"0"
    assert headers[f"{REASON}exception.message"] == b"a b"
    assert len(headers[f"{REASON}class.name"]) == 2000
    assert of_each.born_ms[0] == BORN_MS


def test_rows_and_bad_rows_say_where_their_messages_are(rocketmq, broker, topic):
    rocketmq.send(topic, (b'{"n": 0}', b""), (b"{", b""), (b'{"n": 2}', b""))
    given = {"namesrv.addr": rocketmq.namesrv, "topics": topic, "positions": "true"}
    plain = {"value.converter.schemas.enable": "false"}
    with source_task(RocketmqSource, {**given, **plain, **rocketmq.login}) as task:
        bad = task.until("bad_row").bad_row
        rows = task.rows(2)
    assert [(row["__partition"], row["__offset"], row["n"]) for row in rows] == [
        (0, 0, 0), (0, 2, 2),
    ]  # fmt: skip
    assert offset_from_proto(bad.offset) == {"offset": 1}
