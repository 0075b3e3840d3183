"""CloudEvents through a broker: rows to events, events to rows, and messages that are none."""

import json

from penstock_kafka import KafkaSink, KafkaSource

from penstock_connector.raw_messages import RawMessage
from penstock_connector.testing import sink_task, source_task

CONVERTERS = {
    "key.converter": "string",
    "value.converter": "io.debezium.converters.CloudEventsConverter",
    "value.converter.json.schemas.enable": "false",
    "value.converter.event.type": "com.shop.order",
}
EVENT = {"id": "1", "source": "/s", "specversion": "1.0", "type": "t", "data": {"n": 1}}


def source(kafka, topic):
    return {"bootstrap.servers": kafka.bootstrap, "topics": topic, **CONVERTERS}


def test_rows_become_events_and_rows_of_events_again(kafka, topic):
    given = {
        "bootstrap.servers": kafka.bootstrap, "topic": topic, **CONVERTERS,
        "offsets.storage.topic": f"{topic}-offsets",
    }  # fmt: skip
    with sink_task(KafkaSink, given) as task:
        task.write([{"n": 1}, {"n": 2}], dataset="d")
    events = [json.loads(message.value()) for message in kafka.read(topic)]
    assert [event["data"] for event in events] == [{"n": 1}, {"n": 2}]
    assert {event["type"] for event in events} == {"com.shop.order"}
    assert len({event["id"] for event in events}) == 2
    with source_task(KafkaSource, source(kafka, topic)) as task:
        rows = task.rows(2)
    found = [{name: row[name] for name in event} for row, event in zip(rows, events, strict=True)]
    assert found == events


def test_a_message_that_is_no_event_is_a_rejected_row_with_its_value(kafka, topic):
    kafka.create_topic(topic)
    bad = json.dumps(EVENT | {"specversion": "0.3"}).encode()
    kafka.produce(topic, [(None, bad), (None, json.dumps(EVENT).encode())])
    with source_task(KafkaSource, source(kafka, topic)) as task:
        rejected = task.until("bad_row").bad_row
        (row,) = task.rows(1)
    assert row["data"] == {"n": 1}
    assert (RawMessage.from_bytes(rejected.raw).value, rejected.reason.code) == (
        bad,
        "converter.cloudevent",
    )
    assert rejected.reason.message.startswith("VALUE_CONVERTER: ")
