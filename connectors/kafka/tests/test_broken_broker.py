"""A broker that is killed while a task writes and reads, that is away, and whose disk has changed
a message. It is a broker of its own: the others share one.
"""

import json

import pytest
from penstock_kafka import KafkaSink, KafkaSource, broker, kafka_sink

from penstock_connector.testing import RemoteError, plan, sink_task, source_task
from support.kafka import KafkaServer

PLAIN = {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    with KafkaServer(tmp_path_factory.mktemp("fragile")) as server:
        yield server


def sink(kafka, topic):
    return {
        "bootstrap.servers": kafka.bootstrap, "topic": topic, **PLAIN,
        "offsets.storage.topic": f"{topic}-offsets", "transactional.id.prefix": f"{topic}-",
    }  # fmt: skip


def source(kafka, topic, **more):
    return {"bootstrap.servers": kafka.bootstrap, "topics": topic, **PLAIN, **more}


def numbers(kafka, topic):
    return [json.loads(one.value())["n"] for one in kafka.read(topic)]


def put(task, txn_id, *numbers):
    task.put([{"n": number} for number in numbers], txn_id=txn_id)
    task.prepare(txn_id, [(0, 0, len(numbers))])


def test_a_broker_is_killed_between_prepare_and_commit_and_in_the_middle_of_a_read(fragile, topic):
    """The same tasks go on when it is back: each row is there once, and is read once."""
    with sink_task(KafkaSink, sink(fragile, topic)) as task:
        put(task, 1, 1, 2)
        task.commit(1)
        with source_task(KafkaSource, source(fragile, topic)) as reader:
            rows = reader.rows(2)
            put(task, 2, 3, 4)
            fragile.kill()
            fragile.start()
            task.commit(2)
            put(task, 3, 5)
            task.commit(3)
            rows += reader.rows(3)
    assert [row["n"] for row in rows] == [1, 2, 3, 4, 5]
    assert numbers(fragile, topic) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("checks", ["true", "false"])
def test_a_message_that_the_disk_changed_is_told_with_its_place(fragile, topic, checks):
    """Without the check, which is on by default as in Kafka, it is a row like others: the twin."""
    fragile.create_topic(topic)
    for n in range(3):
        fragile.produce(topic, [(None, b'{"n": 1%d}' % n)])
    fragile.stop()
    file = fragile.segment(topic)
    data = file.read_bytes()
    assert data.count(b'"n": 11') == 1
    file.write_bytes(data.replace(b'"n": 11', b'"n": 77'))
    fragile.start()
    with source_task(
        KafkaSource, source(fragile, topic, **{"consumer.check.crcs": checks})
    ) as task:
        if checks == "false":
            assert [row["n"] for row in task.rows(3)] == [10, 77, 12]
            return
        assert [row["n"] for row in task.rows(1)] == [10]
        task.until("checkpoint")
        task.commit()  # only then the error ends the task
        with pytest.raises(RemoteError, match=rf"consume {topic}-0: .*offset 1 ") as caught:
            task.rows(1)
    assert caught.value.code == "kafka.corrupt_record"
    (partition,) = plan(KafkaSource, source(fragile, topic))
    behind = {partition.id: {"offset": 2}}
    with source_task(KafkaSource, source(fragile, topic), offsets=behind) as task:
        assert [row["n"] for row in task.rows(1)] == [12]


def test_a_broker_that_is_away_is_named_with_what_to_do(fragile, topic, monkeypatch):
    """While nothing listens: at the start of a source and of a sink, and in a transaction."""
    fragile.create_topic(topic)
    with sink_task(KafkaSink, sink(fragile, topic)) as task:
        put(task, 1, 1)
        monkeypatch.setattr(broker, "REACH_TIMEOUT_S", 2.0)
        monkeypatch.setattr(kafka_sink, "REQUEST_TIMEOUT_S", 2.0)
        fragile.kill()
        try:
            with pytest.raises(RemoteError) as within:
                task.commit(1)
            with pytest.raises(RemoteError) as reading:
                plan(KafkaSource, source(fragile, topic))
            with (
                pytest.raises(RemoteError) as writing,
                sink_task(KafkaSink, sink(fragile, topic), epoch=2),
            ):
                pass
        finally:
            monkeypatch.undo()
            fragile.start()
    for caught in (within, reading, writing):
        assert caught.value.code == "kafka.unavailable"
        assert f" at {fragile.bootstrap}: " in str(caught.value)
    assert "topics at" in str(reading.value)
    assert f"topic {topic}-offsets at" in str(writing.value)
    assert f"commit_transaction to topic {topic} and topic {topic}-offsets at" in str(within.value)
    with sink_task(KafkaSink, sink(fragile, topic), epoch=2) as task:
        txn = task.opened.committed.txn_id + 1
        if txn == 1:  # what was not committed is written again
            put(task, 1, 1)
            task.commit(1)
    assert numbers(fragile, topic) == [1]
