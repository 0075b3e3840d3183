"""Signals that come by a file and by a topic of Kafka: obeyed once, over restarts."""

import json
import logging

import pytest
from confluent_kafka import Producer

from penstock_connector import Op
from support.kafka import KafkaServer

KEYS = {"table_include_list": r"public\.t", "signal_poll_interval_ms": "50ms"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with KafkaServer(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def filled(database):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(1, 100)",
    )
    return database


def line(id_, kind, **data):
    return json.dumps({"id": id_, "type": kind, "data": data}) + "\n"


AGAIN = {"data-collections": ["public.t"]}
SOME = {**AGAIN, "additional-conditions": [{"data-collection": "public.t", "filter": "id <= 7"}]}


def reads(reader):
    return sum(row["__op"] == Op.SNAPSHOT for _, row in reader.rows)


def place_of(reader, channel):
    for fields in reader.offsets[-1].values():
        return fields.get("signals", {}).get(channel)
    return None


def test_lines_of_a_file_are_obeyed_once_over_restarts(filled, follow, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / "signals.txt"
    keys = {**KEYS, "signal_enabled_channels": "source,file", "signal_file": str(path)}
    with follow(**keys) as reader:
        reader.settled()
        path.write_text(
            line("1", "execute-snapshot", **SOME) + "\n" + line("2", "log", message="a")
        )
        reader.until(lambda r: reads(r) == 107 and place_of(r, "file"), "the rows of the signal")
        reader.caught_up(filled)
        offsets = reader.offsets[-1]
    with follow(offsets, **keys) as reader:
        with path.open("a") as file:
            file.write(line("3", "execute-snapshot", **AGAIN))
        reader.until(lambda r: reads(r) == 100, "all rows")
        reader.caught_up(filled)
    assert reads(reader) == 100
    assert caplog.text.count("signal: a") == 1


def test_a_signal_whose_offset_was_not_stored_is_obeyed_by_the_next_task(filled, follow, tmp_path):
    path = tmp_path / "signals.txt"
    keys = {**KEYS, "signal_enabled_channels": "file", "signal_file": str(path)}
    with follow(**keys) as reader:
        reader.settled()
        offsets, reader.commits = reader.offsets[-1], False
        path.write_text(line("1", "execute-snapshot", **AGAIN))
        reader.until(lambda r: reads(r) >= 200 or r.task.seen[-1].HasField("checkpoint"))
    with follow(offsets, **keys) as reader:
        reader.until(lambda r: reads(r) == 100, "the rows of the signal")


def test_a_file_that_is_written_anew_is_read_from_its_first_line(filled, follow, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / "signals.txt"
    path.write_text(line("1", "log", message="first"))
    keys = {**KEYS, "signal_enabled_channels": "file", "signal_file": str(path)}
    with follow(**keys) as reader:
        reader.until(lambda _: "signal: first" in caplog.text, "the first signal")
        path.write_text(line("2", "log", message="other"))
        reader.until(lambda _: "signal: other" in caplog.text, "the second signal")
        path.write_text("no JSON\n" + line("3", "log", message="third").rstrip())  # without an end
        reader.until(lambda _: "signal: third" in caplog.text, "the third signal")
    assert "'no JSON' is not a JSON object" in caplog.text
    assert caplog.text.count("signal: ") == 3 + caplog.text.count("a signal: ")


def test_a_file_that_is_too_large_has_a_warning_and_is_asked_again(
    filled, follow, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    path = tmp_path / "signals.txt"
    path.write_text("x" * (1 << 20) + "\n")
    keys = {**KEYS, "signal_enabled_channels": "file", "signal_file": str(path)}
    with follow(**keys) as reader:
        reader.until(lambda _: "has more than 1048576 bytes" in caplog.text, "a warning")
        path.write_text(line("1", "log", message="small"))
        reader.until(lambda _: "signal: small" in caplog.text, "the signal")
    assert caplog.text.count("has more than") == 1


def send(kafka, topic, key, value):
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, json.dumps(value).encode(), key.encode(), partition=0)
    assert producer.flush(30) == 0


def test_messages_of_a_topic_are_obeyed_once_over_restarts(filled, follow, kafka, caplog):
    """Those from before the first start, and those of other connectors, are not."""
    caplog.set_level(logging.INFO)
    kafka.create_topic("db-signal")
    send(kafka, "db-signal", "db", {"type": "log", "data": {"message": "too early"}})
    keys = {
        **KEYS, "signal_enabled_channels": "kafka", "topic_prefix": "db",
        "signal_kafka_bootstrap_servers": kafka.bootstrap,
    }  # fmt: skip
    with follow(**keys) as reader:
        reader.until(lambda r: place_of(r, "kafka") == 1, "the end of the topic")
        reader.settled()
        send(kafka, "db-signal", "other", {"type": "log", "data": {"message": "of another"}})
        send(kafka, "db-signal", "db", {"type": "execute-snapshot", "data": SOME})
        reader.until(lambda r: reads(r) == 107 and place_of(r, "kafka") == 3, "the rows")
        reader.caught_up(filled)
        offsets = reader.offsets[-1]
    send(kafka, "db-signal", "db", {"type": "log", "data": {"message": "while it was stopped"}})
    with follow(offsets, **keys) as reader:
        reader.until(lambda r: place_of(r, "kafka") == 4, "the message from meanwhile")
        reader.caught_up(filled)
    assert reads(reader) == 0
    assert [r.message for r in caplog.records if "signal: " in r.message] == [
        "signal: these tables are read again: public.t",
        "signal: while it was stopped",
    ]


def test_brokers_that_do_not_answer_stop_no_rows(filled, follow, kafka, caplog):
    keys = {
        **KEYS, "signal_enabled_channels": "kafka", "topic_prefix": "down",
        "signal_kafka_bootstrap_servers": kafka.bootstrap,
    }  # fmt: skip
    kafka.create_topic("down-signal")
    kafka.kill()
    try:
        with follow(**keys) as reader:
            reader.until(lambda r: reads(r) == 100, "the rows of the table")
            reader.until(lambda _: "signals cannot be read of the topic down-signal" in caplog.text)
            reader.settled()
    finally:
        kafka.start()
    with follow(reader.offsets[-1], **keys) as reader:
        reader.until(lambda r: place_of(r, "kafka") == 0, "the end of the topic")
        filled.sql("INSERT INTO t VALUES (101)")
        reader.until(lambda r: len(r.rows) == 1, "a change")
