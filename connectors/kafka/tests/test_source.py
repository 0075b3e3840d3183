"""Messages as rows: what they hold, where reading begins, and what is no row."""

import json
import time

import pytest
from confluent_kafka import Producer
from penstock_kafka import KafkaSource
from penstock_kafka.topic_reader import TopicReader

from penstock_connector.raw_messages import RawMessage
from penstock_connector.testing import RemoteError, plan, source_task
from penstock_kit.testing import wait_until

PLAIN = {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}
DELETE, UPSERT = 3, 5


def config(kafka, topic, **more):
    return {"bootstrap.servers": kafka.bootstrap, "topics": topic, **PLAIN, **more}


def data(row):
    return {name: value for name, value in row.items() if not name.startswith("__")}


def test_messages_are_rows_with_their_key_time_and_headers(kafka, topic):
    kafka.create_topic(topic)
    now_ms, headers = time.time_ns() // 1_000_000, [("h", b"1"), ("h", b"2")]  # kept by retention
    message = (b'{"id": 7}', b'{"id": 7, "name": "x"}')
    kafka.produce(topic, [message], timestamp=now_ms, headers=headers)
    with source_task(KafkaSource, config(kafka, topic)) as task:
        (row,) = task.rows(1)
    assert row == {
        "id": 7, "name": "x", "__key": {"id": 7}, "__ts_us": now_ms * 1000,
        "__headers": [("h", b"1"), ("h", b"2")],
    }  # fmt: skip


def test_a_tombstone_is_a_delete_with_the_columns_of_its_key(kafka, topic):
    kafka.create_topic(topic)
    key = b'{"id": 7}'
    kafka.produce(topic, [(key, b'{"id": 7, "name": "x"}'), (key, None)])
    with source_task(KafkaSource, config(kafka, topic)) as task:
        rows = task.rows(2)
    assert [data(row) for row in rows] == [{"id": 7, "name": "x"}, {"id": 7, "name": None}]
    assert [row["__op"] for row in rows] == [UPSERT, DELETE]


def test_a_read_goes_on_at_its_offset(kafka, topic):
    kafka.create_topic(topic, 2)
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(5)], partition=1)
    with source_task(
        KafkaSource, config(kafka, topic, **{"consumer.max.poll.records": "2"})
    ) as task:
        first = task.rows(2)
        task.until("checkpoint")
        task.commit()
        offsets = task.offsets
    assert {json.loads(id_)["partition"]: at for id_, at in offsets.items()} == {1: {"offset": 2}}
    with source_task(KafkaSource, config(kafka, topic), offsets=offsets) as task:
        rest = task.rows(3)
    assert [row["n"] for row in [*first, *rest]] == list(range(5))


def test_a_copy_ends_behind_the_last_message(kafka, topic):
    """Also where a partition is empty, and where marks of transactions stand behind messages."""
    kafka.create_topic(topic, 3)
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(5)], partition=1)
    writer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    writer.init_transactions(30)
    for number, end in ((5, writer.commit_transaction), (99, writer.abort_transaction)):
        writer.begin_transaction()
        writer.produce(topic, b'{"n": %d}' % number, partition=2)
        writer.flush(30)
        end(30)
    with source_task(KafkaSource, config(kafka, topic), until_caught_up=True) as task:
        assert sorted(row["n"] for row in task.all_rows()) == list(range(6))
        task.commit()
    kafka.produce(topic, [(None, b'{"n": 6}')])
    with source_task(
        KafkaSource, config(kafka, topic), offsets=task.offsets, until_caught_up=True
    ) as task:
        assert [row["n"] for row in task.all_rows()] == [6]


def test_a_group_is_told_how_far_rows_are_durable(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(3)])
    group = {"consumer.group.id": f"connect-{topic}"}
    with source_task(KafkaSource, config(kafka, topic, **group)) as task:
        task.rows(3)
        task.until("checkpoint")
        assert kafka.group_offset(f"connect-{topic}", topic) is None, "nothing is durable yet"
        task.commit()
        wait_until(
            lambda: kafka.group_offset(f"connect-{topic}", topic) == 3, 30, "the group's offset"
        )


def test_a_group_that_others_use_is_left_alone(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(3)])
    group = {"consumer.group.id": f"used-{topic}"}
    with kafka.member(f"used-{topic}", topic):
        with source_task(KafkaSource, config(kafka, topic, **group)) as task:
            rows = task.rows(3)
            task.until("checkpoint")
            task.commit()
            kafka.produce(topic, [(None, b'{"n": 3}')])
            rows += task.rows(1)
        assert [row["n"] for row in rows] == [0, 1, 2, 3]
        assert kafka.group_offset(f"used-{topic}", topic) is None


def test_messages_that_are_no_json_are_bad_rows_with_all_their_parts(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(b"{", b'{"n": 1}'), (None, b"{"), (None, b'{"n": 2}')])
    with source_task(KafkaSource, config(kafka, topic)) as task:
        bad = [task.until("bad_row").bad_row for _ in range(2)]
        rows = task.rows(1)
    kept = [RawMessage.from_bytes(one.raw) for one in bad]
    assert [(one.key, one.value, one.offset) for one in kept] == [
        (b"{", b'{"n": 1}', 0), (None, b"{", 1),
    ]  # fmt: skip
    assert {one.reason.code for one in bad} == {"converter.not_json"}
    assert [one.reason.message.partition(":")[0] for one in bad] == [
        "KEY_CONVERTER",
        "VALUE_CONVERTER",
    ]
    assert [row["n"] for row in rows] == [2]


def test_a_message_cannot_say_that_its_row_is_deleted(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": 1, "__op": 3}'), (None, b'{"n": 2}')])
    with source_task(KafkaSource, config(kafka, topic)) as task:
        bad = task.until("bad_row").bad_row
        rows = task.rows(1)
    assert bad.reason.code == "kafka.reserved_column"
    assert [(row["n"], row.get("__op")) for row in rows] == [(2, None)]


def test_columns_are_only_added(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"a": 1}')])
    with source_task(KafkaSource, config(kafka, topic)) as task:
        rows = task.rows(1)
        kafka.produce(topic, [(None, b'{"b": 0.5}')])
        rows += task.rows(1)
    assert [data(row) for row in rows] == [{"a": 1}, {"a": None, "b": 0.5}]


def test_values_that_are_no_structs_are_the_column_value(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(b"k", b"text")])
    text = {"key.converter": "string", "value.converter": "string"}
    given = {"bootstrap.servers": kafka.bootstrap, "topics": topic, **text}
    with source_task(KafkaSource, given) as task:
        (row,) = task.rows(1)
    assert (row["value"], row["__key"]) == ("text", "k")


def test_latest_is_decided_once(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": 1}')])
    latest = config(kafka, topic, **{"auto.offset.reset": "latest"})
    with source_task(KafkaSource, latest) as task:
        task.until("checkpoint")
        task.commit()
        offsets = task.offsets
    kafka.produce(topic, [(None, b'{"n": 2}')])
    with source_task(KafkaSource, latest, offsets=offsets) as task:
        assert [row["n"] for row in task.rows(1)] == [2]


def test_an_offset_that_retention_removed_is_told_or_skipped(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(3)])
    kafka.delete_before(topic, 2)
    (partition,) = plan(KafkaSource, config(kafka, topic))
    old = {partition.id: {"offset": 0}}
    with (
        pytest.raises(RemoteError, match=r"kafka.offset_lost.*offsets 2 to 3.* 0 is the next"),
        source_task(
            KafkaSource, config(kafka, topic, **{"auto.offset.reset": "none"}), offsets=old
        ) as task,
    ):
        task.rows(1)
    with source_task(KafkaSource, config(kafka, topic), offsets=old) as task:
        assert [row["n"] for row in task.rows(1)] == [2]


@pytest.fixture
def overtaken(kafka, topic, monkeypatch):
    """Removes messages before an offset as soon as a reader has found its own."""
    begin = TopicReader._beginning

    def before(first):
        def beginning(reader, partition):
            place = begin(reader, partition)
            kafka.delete_before(topic, first)
            return place

        monkeypatch.setattr(TopicReader, "_beginning", beginning)

    return before


def test_retention_that_overtakes_a_running_read_is_told_or_skipped(kafka, topic, overtaken):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(5)])
    (partition,) = plan(KafkaSource, config(kafka, topic))
    old = {partition.id: {"offset": 0}}
    overtaken(2)
    with source_task(KafkaSource, config(kafka, topic), offsets=old) as task:
        assert [row["n"] for row in task.rows(3)] == [2, 3, 4]
    strict, later = config(kafka, topic, **{"auto.offset.reset": "none"}), {"offset": 2}
    overtaken(4)
    with (
        pytest.raises(RemoteError, match=r"kafka.offset_lost"),
        source_task(KafkaSource, strict, offsets={partition.id: later}) as task,
    ):
        task.rows(1)


def test_an_offset_beyond_the_end_is_always_an_error(kafka, topic):
    kafka.create_topic(topic)
    (partition,) = plan(KafkaSource, config(kafka, topic))
    with (
        pytest.raises(RemoteError, match=r"kafka.offset_lost"),
        source_task(
            KafkaSource, config(kafka, topic), offsets={partition.id: {"offset": 9}}
        ) as task,
    ):
        task.rows(1)


def test_topics_are_found_by_a_pattern(kafka, topic):
    for name in (f"{topic}-a", f"{topic}-b", f"x{topic}-a"):
        kafka.create_topic(name, 2)
    given = {k: v for k, v in config(kafka, topic).items() if k != "topics"}
    found = plan(KafkaSource, given | {"topics.regex": f"{topic}-.*"})
    assert [(one.key["topic"], one.key["partition"]) for one in found] == [
        (f"{topic}-a", 0), (f"{topic}-a", 1), (f"{topic}-b", 0), (f"{topic}-b", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"topics.regex": "x"}, "config.conflict"),
        ({"topics": ""}, "config.missing"),
        ({"bootstrap.servers": "broker"}, "kafka.bootstrap_servers"),
        ({"value.converter": "Jason"}, "converter.unknown"),
        ({"value.converter.schemas.enabled": "x"}, "config.unknown_key"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "config.missing"),
        ({"consumer.max.poll.records": "0"}, "config.invalid_value"),
        ({"sasl.username": "u"}, "config.conflict"),
        ({"ssl.truststore.location": "/x"}, "config.conflict"),
    ],
)
def test_what_cannot_be_meant_is_refused(more, code):
    given = {"bootstrap.servers": "127.0.0.1:1", "topics": "t", **more}
    with pytest.raises(RemoteError, match=code):
        plan(KafkaSource, given)
