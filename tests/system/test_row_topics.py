"""A topic chosen by each row, in all three places that have topics.

From Kafka into Kafka and RocketMQ by TimestampRouter with its defaults, and a rename of what it
made; from a file into embedded topics by a field. Beside them, a topic of Kafka moves to RocketMQ
by way of an embedded one, by a source and a sink that have `topics` and converters of their own.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.kafka import KafkaServer
from support.rocketmq import RocketmqCluster
from support.standalone import Standalone

NOW: Final = dt.datetime.now(dt.UTC)
FIRST, SECOND, THIRD = (f"{NOW - dt.timedelta(days=ago):%Y%m%d}" for ago in (3, 2, 1))
"""Days of which retention removes nothing."""
FIRST_MS: Final = {
    day: int((NOW - dt.timedelta(days=ago)).timestamp() * 1000)
    for day, ago in ((FIRST, 3), (SECOND, 2), (THIRD, 1))
}
SENT: Final = (
    (FIRST, range(25)),
    (THIRD, range(25, 40)),
    (FIRST, range(40, 65)),
    (SECOND, range(65, 95)),
    (THIRD, range(95, 100)),
)
"""Days in turns, with the numbers of their messages."""
JSON: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def copy(kafka: KafkaServer, to: str, sink: dict[str, object]) -> dict[str, object]:
    """A pipeline whose rows choose their topics by time."""
    source = {"connector.class": "kafka-source", "bootstrap.servers": kafka.bootstrap}
    source |= {"topics": "orders", **JSON}
    return {
        **{f"source.{key}": value for key, value in source.items()},
        **{f"sink.{key}": value for key, value in (sink | JSON).items()},
        "transforms": "by-day,name",
        "transforms.by-day.type": "org.apache.kafka.connect.transforms.TimestampRouter",
        "transforms.name.type": "RegexRouter",
        "transforms.name.regex": "orders-(.*)",
        "transforms.name.replacement": f"{to}-$1",
    }


def numbers(bodies: Iterator[bytes]) -> list[int]:
    """Return the numbers in messages, in order."""
    return [json.loads(body)["n"] for body in bodies]


def bodies_of(rocketmq: RocketmqCluster, topic: str) -> Iterator[bytes]:
    """Yield what the messages of a topic hold."""
    queues = rocketmq.client()
    route = queues.route(topic)
    queues.close()
    assert route is not None
    for queue in route.readable:
        yield from map(bytes, rocketmq.read(topic, queue.number).bodies)


@pytest.mark.timeout(600)
def test_rows_choose_their_topics_on_every_backend(tmp_path: Path) -> None:
    with KafkaServer(tmp_path / "kafka") as kafka, RocketmqCluster(tmp_path / "mq") as rocketmq:
        kafka.create_topic("orders")
        for day, those in SENT:
            bodies = [(None, json.dumps({"n": n}).encode()) for n in those]
            kafka.produce("orders", bodies, timestamp=FIRST_MS[day])
        order = {day: [n for at, those in SENT if at == day for n in those] for day in FIRST_MS}
        lines = tmp_path / "in.jsonl"
        lines.write_text(
            "".join(
                json.dumps({"n": n, "day": f"embedded-{day}"}) + "\n"
                for day, those in SENT
                for n in those
            )
        )
        files = tmp_path / "files"
        into_kafka = {"connector.class": "kafka-sink", "bootstrap.servers": kafka.bootstrap}
        into_rocketmq = {
            "connector.class": "rocketmq-sink",
            "namesrv.addr": rocketmq.namesrv,
            **rocketmq.login,
        }
        connectors: dict[str, dict[str, object]] = {
            "kafka": copy(kafka, "kafka", into_kafka),
            "rocketmq": copy(kafka, "rocketmq", into_rocketmq),
            "embedded": {
                "connector.class": "file-source",
                "file": lines,
                "format": "jsonl",
                "transforms": "by-field",
                "transforms.by-field.type": "io.confluent.connect.transforms.ExtractTopic$Value",
                "transforms.by-field.field": "day",
            },
            "kept": {
                "connector.class": "kafka-source",
                "bootstrap.servers": kafka.bootstrap,
                "topics": "orders",
                **JSON,
            },
            "moved": {**into_rocketmq, "topics": "orders", "topic": "moved", **JSON},
            "read": {
                "connector.class": "file-sink",
                "topics": ",".join(f"embedded-{day}" for day in FIRST_MS),
                "path": files,
                "format": "jsonl",
                "transforms": "where",
                "transforms.where.type": "InsertField",
                "transforms.where.topic.field": "topic",
            },
        }
        with Standalone(tmp_path / "node", None, **connectors) as running:
            for name in connectors:
                running.wait_for(lambda at=name: running.written(at) == 100, f"rows of {name}")
        assert sorted(numbers(bodies_of(rocketmq, "moved"))) == list(range(100))
        for day, wanted in order.items():
            found = (message.value() for message in kafka.read(f"kafka-{day}"))
            assert numbers(found) == wanted
            assert sorted(numbers(bodies_of(rocketmq, f"rocketmq-{day}"))) == sorted(wanted)
            read = [
                json.loads(line)
                for file in files.iterdir()
                if file.is_file()
                for line in file.open()
            ]
            assert [row["n"] for row in read if row["topic"] == f"embedded-{day}"] == wanted
