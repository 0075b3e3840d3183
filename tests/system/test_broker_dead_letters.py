"""Rejected messages of a broker's topic become dead letters in another topic there, byte for byte;
and transforms insert where messages come from.

Kafka's ErrorHandlingIntegrationTest, with RocketMQ's topics beside Kafka's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from penstock_rocketmq.properties import decode_properties

from support.kafka import KafkaServer
from support.processes import PLAIN
from support.rocketmq import RocketmqCluster
from support.standalone import Standalone

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
REASON: Final = "__connect.errors."
GOOD: Final = b'{"n": 1, "x": "5"}'
NO_JSON: Final = b"{\xff"
NO_NUMBER: Final = b'{"x":"many",  "n": 2}'
KEYED: Final = b'{"n": 4,"x": "1"}'
HEADED: Final = b'{"n": 5,"x": "1"}'
LAST: Final = b'{"n": 3, "x": "7"}'


def sink(folder: Path, **more: object) -> dict[str, object]:
    """A sink that cannot write two of the four messages."""
    return {
        "connector.class": "file-sink",
        "topics": "orders",
        "path": folder,
        "format": "jsonl",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "cast,where",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "x:int32",
        "transforms.where.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.where.partition.field": "p",
        "transforms.where.offset.field": "o",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "orders-dead",
        "errors.deadletterqueue.context.headers.enable": "true",
        **more,
    }


def rows(folder: Path) -> list[object]:
    """Return the rows that a sink has written."""
    lines = [line for file in folder.glob("**/*.jsonl") for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


Read = Callable[[], dict[bytes, tuple[bytes | None, Mapping[str, bytes]]]]


def send_to(kafka: KafkaServer) -> None:
    """Send messages of which some cannot be read: the value, the key, a header, or a field."""
    kafka.create_topic("orders")
    kafka.produce("orders", [(None, GOOD), (b"k1", NO_JSON)])
    kafka.produce("orders", [(b"k2", NO_NUMBER)], headers=[("h", b"1"), ("h", b"2")])
    kafka.produce("orders", [(None, LAST)])
    kafka.create_topic("keys")
    kafka.produce("keys", [(b"1", GOOD), (NO_JSON, KEYED)])
    kafka.produce("keys", [(b"2", HEADED)], headers=[("h", NO_JSON)])


def check_key_and_header(dead: Mapping[bytes, tuple[bytes | None, Mapping[str, bytes]]]) -> None:
    """Check the dead letters of a key, and of a header, that no converter can read."""
    keyed, headed = dead[KEYED], dead[HEADED]
    assert (keyed[0], headed[0], headed[1]["h"]) == (NO_JSON, b"2", NO_JSON)
    for (_, headers), offset, stage in (
        (keyed, b"1", b"KEY_CONVERTER"),
        (headed, b"2", b"HEADER_CONVERTER"),
    ):
        assert headers[f"{REASON}stage"] == stage
        assert headers[f"{REASON}topic"] == b"keys"
        assert headers[f"{REASON}offset"] == offset


@pytest.mark.timeout(600)
def test_rejected_messages_are_in_a_topic_of_their_broker(tmp_path: Path) -> None:
    with KafkaServer(tmp_path / "kafka") as kafka, RocketmqCluster(tmp_path / "mq") as rocketmq:
        send_to(kafka)
        rocketmq.create_topic("orders")
        found = b"KEYS\x01k2\x02TAGS\x01paid\x02"
        rocketmq.send("orders", (GOOD, b""), (NO_JSON, b"KEYS\x01k1\x02"), (NO_NUMBER, found))
        rocketmq.send("orders", (LAST, b""))

        def in_kafka(
            topic: str = "orders-dead",
        ) -> dict[bytes, tuple[bytes | None, Mapping[str, bytes]]]:
            there = kafka.admin().list_topics(timeout=10).topics
            messages = kafka.read(topic) if topic in there else []
            return {one.value(): (one.key(), dict(one.headers())) for one in messages}

        def in_rocketmq() -> dict[bytes, tuple[bytes | None, Mapping[str, bytes]]]:
            client = rocketmq.client()
            route = client.route("orders-dead")
            client.close()
            dead: dict[bytes, tuple[bytes | None, Mapping[str, bytes]]] = {}
            for queue in route.readable if route is not None else ():
                stored = rocketmq.read("orders-dead", queue.number)
                parts = decode_properties(stored.properties)
                headers = [dict(one or ()) for one in parts.headers.to_pylist()]
                dead |= dict(
                    zip(
                        map(bytes, stored.bodies),
                        zip(parts.keys, headers, strict=True),
                        strict=True,
                    )
                )
            return dead

        places: dict[str, tuple[Path, Read]] = {
            "kafka": (tmp_path / "of-kafka", in_kafka),
            "rocketmq": (tmp_path / "of-rocketmq", in_rocketmq),
        }
        login = {f"rocketmq.{name}": value for name, value in rocketmq.login.items()}
        node = {"bootstrap.servers": kafka.bootstrap, "namesrv.addr": rocketmq.namesrv, **login}
        node["topics.backend"] = "kafka"
        connectors = {
            backend: sink(folder, **{"topics.backend": backend})
            for backend, (folder, _) in places.items()
        }
        plain = {f"{part}.converter.schemas.enable": "false" for part in ("key", "header")}
        plain |= {f"{part}.converter": JSON for part in ("key", "header")}
        other = {"topics": "keys", "errors.deadletterqueue.topic.name": "keys-dead"}
        connectors["keys"] = sink(tmp_path / "of-keys", **other, **plain)
        connectors["kafka"]["errors.deadletterqueue.topic.replication.factor"] = "1"
        with Standalone(tmp_path / "node", node, module=PLAIN, **connectors) as running:
            for backend, (folder, read) in places.items():
                running.wait_for(lambda at=folder: len(rows(at)) == 2, f"rows of {backend}")
                running.wait_for(lambda see=read: len(see()) == 2, f"dead letters of {backend}")
                assert rows(folder) == [
                    {"n": 1, "x": 5, "p": 0, "o": 0},
                    {"n": 3, "x": 7, "p": 0, "o": 3},
                ]
                dead = read()
                assert {value: key for value, (key, _) in dead.items()} == {
                    NO_JSON: b"k1",
                    NO_NUMBER: b"k2",
                }
                for value, offset, stage in (
                    (NO_JSON, b"1", b"VALUE_CONVERTER"),
                    (NO_NUMBER, b"2", b"TRANSFORMATION"),
                ):
                    headers = dead[value][1]
                    assert headers[f"{REASON}topic"] == b"orders"
                    assert headers[f"{REASON}partition"] == b"0"
                    assert headers[f"{REASON}offset"] == offset
                    assert headers[f"{REASON}stage"] == stage
                    assert headers[f"{REASON}connector.name"] == backend.encode()
                    assert headers[f"{REASON}task.id"] == b"0"
            running.wait_for(lambda: len(in_kafka("keys-dead")) == 2, "dead letters of keys")
            assert rows(tmp_path / "of-keys") == [{"n": 1, "x": 5, "p": 0, "o": 0}]
            check_key_and_header(in_kafka("keys-dead"))
            assert in_kafka()[NO_NUMBER][1]["h"] == b"2"
            assert in_rocketmq()[NO_NUMBER][1]["TAGS"] == b"paid"
        output = running.process.output
        assert "replication.factor" not in output, "a key that is in force has no warning"
