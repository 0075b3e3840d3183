"""Messages as rows, and rows as messages, at real brokers."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.model.dead_letter import DEAD_LETTER_SCHEMA
from penstock_amqp import ActivemqSink, ActivemqSource
from penstock_connector import RawRow
from penstock_connector.raw_messages import RawMessage
from penstock_connector.testing import RemoteError, parse_rows, sink_task, source_task
from penstock_kit.testing import wait_until

PLAIN = {"value.converter.schemas.enable": "false"}
DELETE, UPSERT, TRUNCATE = 3, 5, 7
HEADERS = pa.map_(pa.string(), pa.binary())


def keys(broker, queue, **more):
    """Keys of a connector, `_` for `.` in their names."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    plain = {} if "value_converter" in more else PLAIN
    return {**broker.login, "jms.destination.name": queue, **plain, **given}


def commit(task):
    """Commit what was read, and end the task."""
    task.until("checkpoint")
    task.commit()
    task.drain()


def data(row):
    return {name: value for name, value in row.items() if not name.startswith("__")}


def read(config, count):
    with source_task(ActivemqSource, config) as task:
        rows = task.rows(count)
        commit(task)
    return rows


def test_rows_are_messages_and_messages_rows(broker, queue):
    rows = [{"id": n, "text": f"grün: {n}\n", "share": n / 7} for n in range(5000)]
    with sink_task(ActivemqSink, keys(broker, queue, transaction_max_rows="1500")) as task:
        task.write(rows)
    assert [data(row) for row in read(keys(broker, queue), 5000)] == rows
    assert broker.rest(queue) == []


def test_what_is_not_committed_comes_again(broker, queue):
    broker.send(queue, *[b'{"n": %d}' % n for n in range(400)])
    config = keys(broker, queue, batch_size="150", max_pending_messages="150")
    with source_task(ActivemqSource, config) as task:
        first = task.rows(150)
        task.until("checkpoint")
        task.commit()
        assert [row["n"] for row in task.rows(150)] == list(range(150, 300))
        task.drain()
    done = {row["n"] for row in first}
    assert done == set(range(150))
    again = read(keys(broker, queue), 250)
    assert {row["n"] for row in again} == set(range(150, 400))
    assert broker.rest(queue) == []


def test_no_more_is_read_than_may_be_pending(broker, queue):
    broker.send(queue, *[b'{"n": %d}' % n for n in range(30)])
    config = keys(broker, queue, batch_size="10", max_pending_messages="10")
    with source_task(ActivemqSource, config) as task:
        for begin in (0, 10, 20):
            rows = task.rows(10)
            assert [row["n"] for row in rows] == list(range(begin, begin + 10))
            task.until("checkpoint")
            with pytest.raises(TimeoutError):
                task.until("ready", timeout=0.5)
            task.commit()
        task.drain()


def test_key_time_and_headers_are_those_of_the_message(broker, queue):
    broker.send(
        queue, b'{"n": 1}', correlation_id="k:1", colour="a\\b\nc", priority="7", type="order"
    )
    (row,) = read(keys(broker, queue), 1)
    assert row["n"] == 1
    assert row["__key"] == "k:1"
    assert row["__ts_us"] % 1000 == 0
    assert row["__ts_us"] > 1_700_000_000_000_000
    headers = dict(row["__headers"])
    assert headers["colour"] == b"a\\b\nc"
    assert headers["type"] == b"order"
    assert "priority" not in headers
    assert "message-id" not in headers


def test_rows_have_the_id_of_their_message_as_key_column(broker, queue):
    broker.send(queue, b'{"n": 1}', b"{", b'{"n": 2}')
    config = keys(broker, queue, message_id_column="message_id")
    with source_task(ActivemqSource, config) as task:
        first = task.rows(2)
        task.drain()
    again = read(config, 2)
    assert [row["n"] for row in again] == [1, 2]
    ids = [row["message_id"] for row in first]
    assert [row["message_id"] for row in again] == ids
    assert len(set(ids)) == 2


def test_a_name_of_the_id_that_messages_have_is_refused(classic, queue):
    classic.send(queue, b'{"n": 1}')
    with (
        source_task(ActivemqSource, keys(classic, queue, message_id_column="n")) as task,
        pytest.raises(RemoteError, match=r"activemq\.message_id_column"),
    ):
        task.rows(1)


def test_what_cannot_be_read_is_a_bad_row_that_can_be_corrected(broker, queue):
    broker.send(queue, b'{"n": 1}', b"{ no", b"", b'{"__op": 3}', colour="red")
    given = keys(broker, queue, message_id_column="message_id")
    with source_task(ActivemqSource, given) as task:
        bad = [task.until("bad_row").bad_row for _ in range(3)]
        task.commit()
        task.drain()
    kept = [RawMessage.from_bytes(one.raw) for one in bad]
    assert [one.value for one in kept] == [b"{ no", b"", b'{"__op": 3}']
    assert bad[2].reason.code == "activemq.reserved_column"
    raw = RawRow(bad[0].raw, json.loads(bad[0].partition_id), bad[0].dataset, {})
    corrected = replace(raw, changes={"__raw_value": '{"n": 2}'})
    again, mended = parse_rows(ActivemqSource, given, [raw, corrected])
    assert again.message.startswith("VALUE_CONVERTER: ")
    (row,) = mended.to_pylist()
    assert (row["n"], dict(row["__headers"])["colour"]) == (2, b"red")
    assert row["message_id"] == dict(kept[0].headers)["JMSMessageID"].decode()
    assert "JMSMessageID" not in dict(row["__headers"])


def test_a_deleted_row_is_an_empty_message_with_a_key(broker, queue):
    schema = pa.schema([("id", pa.int64()), ("__op", pa.int8()), ("__key", pa.string())])
    rows = [
        {"id": 1, "__op": UPSERT, "__key": "a"},
        {"id": None, "__op": DELETE, "__key": "a"},
        {"id": None, "__op": DELETE, "__key": None},
        {"id": 2, "__op": TRUNCATE, "__key": "b"},
    ]
    with sink_task(ActivemqSink, keys(broker, queue)) as task:
        results = task.put(pa.RecordBatch.from_pylist(rows, schema), txn_id=1)
        codes = [one.reason.code for result in results for one in result.failed]
        assert codes == ["activemq.delete_without_key", "activemq.unsupported_change"]
        task.prepare(1, [(0, 0, 2)])
        task.commit(1)
    found = read(keys(broker, queue), 2)
    assert [(row["__key"], row["id"], row.get("__op", UPSERT)) for row in found] == [
        ("a", 1, UPSERT), ("a", None, DELETE),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "more", "code"),
    [
        ({"value": "a\0b"}, {"value_converter": "string"}, "activemq.not_text"),
        ({"value": "a" * 2000}, {"max_message_size": "1KiB"}, "activemq.too_large"),
        ({"__headers": [("priority", b"1")]}, {}, "activemq.reserved_header"),
        ({"__headers": [("a", b"\xff")]}, {}, "activemq.header"),
        ({"__headers": [("a", b"1"), ("a", b"2")]}, {}, "activemq.header"),
        ({"__key": "a\0"}, {}, "activemq.key"),
    ],
)
def test_a_row_that_no_message_can_have_is_rejected_and_the_others_are_written(
    artemis, queue, row, more, code
):
    schema = pa.schema([("value", pa.string()), ("__key", pa.string()), ("__headers", HEADERS)])
    rows = pa.RecordBatch.from_pylist([{"value": "1"}, {"value": "2", **row}], schema)
    with sink_task(ActivemqSink, keys(artemis, queue, **more)) as task:
        (result,) = task.put(rows, txn_id=1)
        assert [(one.row, one.reason.code) for one in result.failed] == [(1, code)]
        task.prepare(1, [(0, 0, 1)])
        task.commit(1)
    assert len(artemis.rest(queue)) == 1


def test_bytes_are_messages_of_bytes(broker, queue):
    rows = [{"value": b"\x00\xff\n"}, {"value": b""}]
    more = {"value_converter": "bytes", "message_type": "bytes"}
    with sink_task(ActivemqSink, keys(broker, queue, **more)) as task:
        task.write(rows)
    found = read(keys(broker, queue, value_converter="bytes"), 2)
    assert [data(row) for row in found] == rows


def test_keys_and_headers_of_rows_go_with_their_messages(broker, queue):
    schema = pa.schema([("value", pa.string()), ("__key", pa.string()), ("__headers", HEADERS)])
    row = {"value": "v", "__key": "k:\n", "__headers": [("a:b", b"c\\d"), ("penstock_id", b"x")]}
    rows = pa.RecordBatch.from_pylist([row], schema)
    text = {"value_converter": "string"}
    with sink_task(ActivemqSink, keys(broker, queue, **text)) as task:
        task.write(rows)
    with sink_task(
        ActivemqSink,
        keys(
            broker, queue, jms_forward_kafka_key="false", jms_forward_kafka_headers="false", **text
        ),
    ) as task:
        task.write(rows)
    first, second = read(keys(broker, queue, **text), 2)
    assert first["__key"] == "k:\n"
    assert dict(first["__headers"])["a:b"] == b"c\\d"
    assert second.get("__key") is None
    assert "a:b" not in dict(second.get("__headers") or ())


def test_datasets_have_queues_of_their_own(broker, queue):
    with sink_task(ActivemqSink, keys(broker, queue + ".${dataset}")) as task:
        task.write([{"n": 1}], dataset="a")
        task.write([{"n": 2}], dataset="b")
    assert broker.rest(f"{queue}.a") == [b'{"n":1}']
    assert broker.rest(f"{queue}.b") == [b'{"n":2}']


def test_a_selector_chooses_messages(broker, queue):
    broker.send(queue, b'{"n": 1}', colour="red")
    broker.send(queue, b'{"n": 2}', colour="blue")
    rows = read(keys(broker, queue, jms_message_selector="colour = 'blue'"), 1)
    assert [row["n"] for row in rows] == [2]
    assert broker.rest(queue) == [b'{"n": 1}']


def test_a_durable_subscription_keeps_what_is_sent_meanwhile(broker, queue):
    config = keys(
        broker, f"t{queue}", jms_destination_type="topic", jms_subscription_durable="true",
        jms_subscription_name=f"s{queue}",
    )  # fmt: skip
    sink = keys(broker, f"t{queue}", jms_destination_type="topic")
    with source_task(ActivemqSource, config) as task, sink_task(ActivemqSink, sink) as writer:
        wait_until(lambda: sends_what_is_read(task, writer), 30, "the subscription is there")
        commit(task)
    with sink_task(ActivemqSink, sink) as writer:
        writer.write([{"n": n} for n in range(300)])
    with source_task(ActivemqSource, config) as task:
        rows = task.rows(300)
        while rows[-1]["n"] != 299:
            rows += task.rows(1)
        commit(task)
    assert [row["n"] for row in rows if row["n"] >= 0] == list(range(300))


def sends_what_is_read(task, writer):
    """A topic forgets what nobody has subscribed to."""
    writer.write([{"n": -1}])
    try:
        task.until("ready", timeout=0.5)
    except TimeoutError:
        return False
    return True


def test_dead_letters_are_messages_with_the_bytes_that_they_had(broker, queue):
    rows = pa.RecordBatch.from_pylist(
        [{"dataset": "d", "raw": b"{ no", "__headers": [("__connect.errors.topic", b"d")]}],
        DEAD_LETTER_SCHEMA,
    )
    with sink_task(ActivemqSink, keys(broker, queue, dead_letters="rows")) as task:
        task.write(rows)
    (row,) = read(keys(broker, queue, value_converter="string"), 1)
    assert row["value"] == "{ no"
    assert dict(row["__headers"])["__connect.errors.topic"] == b"d"


def test_messages_of_rocketmq_connect_keys_are_read(classic, queue):
    classic.send(queue, b'{"n": 1}')
    login = classic.login
    config = {
        "activemqUrl": login["activemq.url"], "activemqUsername": login["activemq.username"],
        "activemqPassword": login["activemq.password"], "destinationType": "queue",
        "destinationName": queue, "messageSelector": "", **PLAIN,
    }  # fmt: skip
    assert [row["n"] for row in read(config, 1)] == [1]
