"""Offsets by time: where reading begins, and what people set."""

import time

import pytest
from penstock_kafka import KafkaSource

from penstock_connector import Partition
from penstock_connector.testing import RemoteError, alter_offsets, source_task

HOUR_MS = 3_600_000


@pytest.fixture
def hours(kafka, topic):
    """A topic with messages of three, two and one hours ago; returns the time of now."""
    now_ms = time.time_ns() // 1_000_000
    kafka.create_topic(topic)
    for ago in (3, 2, 1):
        value = b'{"ago": %d}' % ago
        kafka.produce(topic, [(None, value)], timestamp=now_ms - ago * HOUR_MS)
    return now_ms


def config(kafka, topic, **more):
    plain = {"value.converter.schemas.enable": "false"}
    given = {"bootstrap.servers": kafka.bootstrap, "topics": topic, **plain}
    return given | {name.replace("__", "."): text for name, text in more.items()}


@pytest.mark.parametrize(("duration", "ago"), [("PT2H30M", [2, 1]), ("P1D", [3, 2, 1])])
def test_reading_begins_some_time_ago(kafka, topic, hours, duration, ago):
    given = config(kafka, topic, auto__offset__reset=f"by_duration:{duration}")
    with source_task(KafkaSource, given) as task:
        assert [row["ago"] for row in task.rows(len(ago))] == ago


def test_reading_begins_at_the_end_where_nothing_is_so_new(kafka, topic, hours):
    given = config(kafka, topic, auto__offset__reset="by_duration:PT1M")
    with source_task(KafkaSource, given) as task:
        task.until("checkpoint")
        task.commit()
        assert [offset["offset"] for offset in task.offsets.values()] == [3]


def test_reading_begins_at_a_time(kafka, topic, hours):
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((hours - 2.5 * HOUR_MS) / 1000))
    given = config(kafka, topic, auto__offset__reset=f"timestamp:{since}")
    with source_task(KafkaSource, given) as task:
        assert [row["ago"] for row in task.rows(2)] == [2, 1]


@pytest.mark.parametrize(
    "reset",
    [
        "timestamp:today",
        "timestamp:2026-01-31T12:00:00",
        "by_duration:1h",
        "by_duration:PT0S",
        "by_duration:",
        "first",
    ],
)
def test_another_beginning_is_refused(kafka, topic, reset):
    given = config(kafka, topic, auto__offset__reset=reset)
    with pytest.raises(RemoteError) as caught:
        alter_offsets(KafkaSource, given, [])
    assert caught.value.code == "config.invalid_choice"


def test_times_become_offsets(kafka, topic, hours):
    def altered(offset):
        wanted = [Partition({"topic": topic, "partition": 0}, offset)]
        (found,) = alter_offsets(KafkaSource, config(kafka, topic), wanted)
        return found.offset

    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((hours - 2.5 * HOUR_MS) / 1000))
    assert altered({"timestamp": since}) == {"offset": 1}
    assert altered({"timestamp": int(hours - 1.5 * HOUR_MS)}) == {"offset": 2}
    assert altered({"timestamp": hours}) == {"offset": 3}
    assert altered({"timestamp": 0}) == {"offset": 0}
    assert altered({"offset": 3}) == {"offset": 3}
    assert altered(None) is None


@pytest.mark.parametrize(
    ("place", "offset", "code"),
    [
        ({"partition": 1}, {"offset": 0}, "kafka.offset"),
        ({"topic": "none"}, {"offset": 0}, "kafka.offset"),
        ({"partition": "0"}, {"offset": 0}, "kafka.offset"),
        ({}, {"offset": 4}, "kafka.offset"),
        ({}, {"offset": -1}, "kafka.offset"),
        ({}, {"offset": "1"}, "kafka.offset"),
        ({}, {"row": 1}, "kafka.offset"),
        ({}, {"timestamp": "yesterday"}, "config.invalid_value"),
        ({}, {"timestamp": "2026-01-31T12:00:00"}, "config.invalid_value"),
    ],
)
def test_offsets_that_a_topic_does_not_have_are_refused(kafka, topic, hours, place, offset, code):
    wanted = [Partition({"topic": topic, "partition": 0} | place, offset)]
    with pytest.raises(RemoteError) as caught:
        alter_offsets(KafkaSource, config(kafka, topic), wanted)
    assert caught.value.code == code
