"""Dead letters as the messages that they were."""

import json
import time

import pyarrow as pa
import pytest
from penstock_kafka import KafkaSink, KafkaSource

from penstock.model.dead_letter import DEAD_LETTER_SCHEMA
from penstock_connector.raw_messages import RawMessage
from penstock_connector.testing import sink_task, source_task
from penstock_values.messages import offset_from_proto

REASON = "__connect.errors."


def sink(kafka, topic, **more):
    return {
        "bootstrap.servers": kafka.bootstrap, "topic": f"{topic}.dead", "dead.letters": "messages",
        "offsets.storage.topic": f"{topic}-offsets", "transactional.id.prefix": f"{topic}-", **more,
    }  # fmt: skip


def place(topic, offset, **more):
    """A dead letter of the message at an offset of partition 0."""
    key = json.dumps({"partition": 0, "topic": topic})
    why = [(f"{REASON}partition", key.encode()), (f"{REASON}offset", b"?"), (f"{REASON}x", b"y")]
    return {"dataset": topic, "partition": key, "offset": offset, "__headers": why, **more}


def send(kafka, topic, *letters, **more):
    """Write dead letters, and return the messages that they are."""
    with sink_task(KafkaSink, sink(kafka, topic, **more)) as task:
        rows = pa.RecordBatch.from_pylist(list(letters), DEAD_LETTER_SCHEMA)
        task.write(rows, dataset=f"{topic}.dead")
    return kafka.read(f"{topic}.dead")


def test_key_value_time_and_headers_are_those_of_the_message(kafka, topic):
    kafka.create_topic(topic)
    now_ms = time.time_ns() // 1_000_000 - 1000
    kafka.produce(topic, [(b"k0", b"\xff0")], timestamp=now_ms, headers=[("h", b"1"), ("h", b"2")])
    kafka.produce(topic, [(None, b"1"), (b"k2", None), (b"k3", b"3")])
    unread = place(topic, '{"offset":2}', raw=b"")
    found = send(kafka, topic, place(topic, "0", row="{}"), unread, place(topic, "3", row="{}"))
    assert [(one.key(), one.value()) for one in found] == [
        (b"k0", b"\xff0"), (b"k2", None), (b"k3", b"3"),
    ]  # fmt: skip
    assert found[0].timestamp()[1] == now_ms
    assert found[0].headers() == [
        ("h", b"1"), ("h", b"2"), (f"{REASON}partition", b"0"), (f"{REASON}offset", b"0"),
        (f"{REASON}x", b"y"),
    ]  # fmt: skip
    assert dict(found[1].headers())[f"{REASON}offset"] == b"2"


def test_messages_that_are_gone_have_their_rows(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(b"k", b"%d" % number) for number in range(5)])
    kafka.delete_before(topic, 2)
    gone = [place(topic, "0", row='{"n":0}'), place(topic, "1", raw=b"1"), place(topic, "3")]
    beyond = place(topic, "7", row='{"n":7}')
    elsewhere = place(f"{topic}.none", "0", row='{"n":8}')
    row = {"dataset": topic, "partition": '{"file":"f"}', "offset": "3", "row": '{"n":9}'}
    found = send(kafka, topic, *gone, beyond, elsewhere, row)
    assert [(one.key(), one.value()) for one in found] == [
        (None, b'{"n":0}'), (None, b"1"), (b"k", b"3"), (None, b'{"n":7}'), (None, b'{"n":8}'),
        (None, b'{"n":9}'),
    ]  # fmt: skip


def test_messages_that_are_gone_are_what_their_source_kept(kafka, topic):
    kafka.create_topic(topic)
    kept = RawMessage(b"k\xff", b"no", 1_700_000_000_000, [("h", b"1")], 7)
    at = '{"offset":7}'
    for place_of in ("messages", "rows"):  # of these brokers, and of others
        storage = {"offsets.storage.topic": f"{topic}-{place_of}", "dead.letters": place_of}
        found = send(kafka, topic, place(topic, at, raw=kept.to_bytes()), **storage)[-1]
        assert (found.key(), found.value()) == (kept.key, kept.value)
        assert (found.timestamp()[1], found.headers()[0]) == (kept.timestamp_ms, ("h", b"1"))
        assert dict(found.headers())[f"{REASON}x"] == b"y"
    line = {"partition": '{"file":"f"}', "offset": at, "raw": kept.to_bytes()}
    assert send(kafka, topic, line, **{"offsets.storage.topic": f"{topic}-l"})[-1].key() is None


def test_messages_far_from_each_other_and_of_a_transaction_are_found(kafka, topic):
    kafka.create_topic(topic, 2)
    for number in range(2):
        many = [(None, b"%d" % offset) for offset in range(3000)]
        kafka.produce(topic, many, partition=number)
    wanted = [(number, offset) for number in (1, 0) for offset in (0, 1, 1500, 2999)]
    letters = [
        {
            **place(topic, str(offset)),
            "partition": json.dumps({"partition": number, "topic": topic}),
        }
        for number, offset in wanted
    ]
    assert [one.value() for one in send(kafka, topic, *letters)] == [
        b"%d" % offset for _, offset in wanted
    ]


def test_rows_that_were_no_messages_of_these_brokers_are_sent_as_json(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(b"k", b"another")])
    behind = place(topic, '{"offset":0}', row='{"n":1}')
    elsewhere = place(topic, "0", row='{"n":2}')
    elsewhere["partition"] = json.dumps({"cluster": "A", "partition": 0, "topic": topic})
    found = send(kafka, topic, behind, elsewhere)
    assert [(one.key(), one.value()) for one in found] == [(None, b'{"n":1}'), (None, b'{"n":2}')]
    ours = place(topic, "0", row='{"n":3}')
    again = {"offsets.storage.topic": f"{topic}-again", "dead.letters": "rows"}
    last = send(kafka, topic, ours, **again)[-1]
    assert (last.key(), last.value()) == (None, b'{"n":3}')


def test_other_rows_are_refused(kafka, topic):
    with (
        sink_task(KafkaSink, sink(kafka, topic)) as task,
        pytest.raises(ValueError, match="no column `partition`"),
    ):
        task.write([{"n": 1}], dataset="any")


def test_rows_and_bad_rows_say_where_their_messages_are(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": 0}'), (None, b"{"), (None, b'{"n": 2}')])
    given = {"bootstrap.servers": kafka.bootstrap, "topics": topic, "positions": "true"}
    plain = {"value.converter.schemas.enable": "false"}
    with source_task(KafkaSource, {**given, **plain}) as task:
        bad = task.until("bad_row").bad_row
        rows = task.rows(2)
    assert [(row["__partition"], row["__offset"], row["n"]) for row in rows] == [
        (0, 0, 0), (0, 2, 2),
    ]  # fmt: skip
    assert offset_from_proto(bad.offset) == {"offset": 1}
