"""Messages that could not be read are read again from what was kept of them."""

import json

from confluent_kafka import Producer
from penstock_kafka import KafkaSource

from penstock_connector import RawRow
from penstock_connector.testing import parse_rows, source_task

PLAIN = {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}


def config(kafka, topic, **more):
    return {"bootstrap.servers": kafka.bootstrap, "topics": topic, **PLAIN, **more}


def bad_rows(keys, count):
    """Return the bad rows of a topic, and the schema of the others."""
    with source_task(KafkaSource, keys) as task:
        bad = [task.until("bad_row").bad_row for _ in range(count)]
        task.rows(2)
        (schema,) = task.schemas.values()
    return bad, schema


def raw_row(bad, raw=None, **changes):
    return RawRow(raw or bad.raw, json.loads(bad.partition_id), bad.dataset, changes)


def send(kafka, topic):
    """Send good messages with bad ones between them."""
    kafka.create_topic(topic)
    kafka.produce(topic, [(b'{"id": 1}', b'{"id": 1, "share": 0.5}')], headers=[("h", b"0")])
    kafka.produce(topic, [(b"{", b'{"id": 2}')], headers=[("h", b"1"), ("h", b"\xff")])
    kafka.produce(topic, [(b'{"id": 3}', b'{"id": 3, "share": "half"')])
    kafka.produce(topic, [(b'{"id": 4}', b'{"id": 4}')], headers=[("h", b"4")])


def test_a_corrected_message_is_the_row_that_a_read_gives(kafka, topic):
    send(kafka, topic)
    keys = config(kafka, topic, positions="true")
    (of_key, of_value), schema = bad_rows(keys, 2)
    text = json.loads(of_value.raw)["value"].replace('"half"', "1}")
    again, keyed, valued = parse_rows(
        KafkaSource,
        keys,
        [
            raw_row(of_key),
            raw_row(of_key, __raw_key='{"id": 2}', share=2),
            raw_row(of_value, __raw_value=text),
        ],
    )
    assert (again.code, again.message.partition(":")[0]) == (
        "converter.not_json", "KEY_CONVERTER",
    )  # fmt: skip
    ((row,), (other,)) = keyed.to_pylist(), valued.to_pylist()
    assert row | {"__ts_us": 0} == {
        "id": 2, "share": 2.0, "__key": {"id": 2}, "__ts_us": 0, "__partition": 0, "__offset": 1,
        "__headers": [("h", b"1"), ("h", b"\xff")],
    }  # fmt: skip
    assert (other["id"], other["share"], other["__key"]) == (3, 1.0, {"id": 3})
    assert (other["__headers"], other["__offset"]) == (None, 2)
    assert keyed.schema == valued.schema == schema


def test_a_topic_that_is_gone_keeps_no_row_from_being_read(kafka, topic):
    gone = RawRow(b'{"n": 1}', {"topic": topic, "partition": 0}, topic, {"__raw_key": None})
    (found,) = parse_rows(KafkaSource, config(kafka, "other"), [gone])
    assert found.to_pylist() == [{"n": 1, "__ts_us": None}]


def test_messages_of_aborted_transactions_are_no_neighbours(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": 1}')])
    writer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(topic, b'{"never": 1}')
    writer.flush(30)
    writer.abort_transaction(30)
    one = RawRow(b'{"n": 2}', {"topic": topic, "partition": 0}, topic, {"__raw_key": None})
    (found,) = parse_rows(KafkaSource, config(kafka, topic), [one])
    assert found.to_pylist() == [{"n": 2, "__ts_us": None}]
