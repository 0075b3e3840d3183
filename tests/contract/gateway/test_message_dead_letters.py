"""Messages that their source could not read: kept whole, exported, corrected, and replayed into the
sink once, with their keys and headers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from penstock_rocketmq.properties import decode_properties

from penstock.cli.__main__ import main
from penstock_kit.testing import wait_until
from support.gateway import READY
from support.kafka import KafkaServer
from support.rocketmq import RocketmqCluster

PLAIN = {
    f"{end}.{part}.converter{more}": value
    for end in ("source", "sink")
    for part in ("key", "value")
    for more, value in (("", "json"), (".schemas.enable", "false"))
}
GOOD = (b'{"id": 1}', b'{"id": 1, "share": 0.5}', b"1")
NO_KEY = (b"{", b'{"id": 2, "share": 2.5}', b"2")
NO_VALUE = (b'{"id": 3}', b'{"id": 3, "share": half}', b"3")
RESERVED = (b'{"id": 4}', b'{"id": 4, "__op": 3}', b"4")
LAST = (b'{"id": 5}', b'{"id": 5, "share": 5.5}', b"5")
SENT = (GOOD, NO_KEY, NO_VALUE, RESERVED, LAST)

Found = list[tuple[bytes, dict[str, Any], bytes]]
"""Key, value and the header `h` of messages, sorted."""


@pytest.fixture
def run(gateway, capfdbinary):
    """Run a command; returns its exit code, and what it printed, as bytes."""

    def call(*words: str):
        code = main(["dlq", *words, "--server", f"http://{gateway.address}"])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return call


def corrected(line: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a dead letter as a user corrects it."""
    message = line["raw_json"]
    if message["key"] == "{":
        message["key"] = '{"id": 2}'
    elif "half" in message["value"]:
        message["value"] = message["value"].replace("half", "3.5")
    else:
        line["set"] = {"__raw_value": '{"id": 4, "share": 4.5}'}
    return line


def replay_all(run, name: str, folder: Path, read: Callable[[], Found]) -> None:
    """Export, correct and replay the dead letters of a connector; each row is at its sink once."""
    wait_until(lambda: len(read()) == 2, READY, "the good rows")
    wait_until(lambda: run("export", name)[1].count(b"\n") == 4, READY, "the dead letters")
    code, _, err = run("replay", name, "--all")
    assert (code, err.count("not replayed")) == (1, 3), "none of them is a row as it is"
    _, out, _ = run("export", name)
    header, *lines = map(json.loads, out.splitlines())
    file = folder / "letters.jsonl"
    lines = [header, *map(corrected, lines)]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for _ in range(2):
        code, _, err = run("replay", name, "--edits", str(file))
        assert (code, err) == (0, "")
        assert read() == [
            (b'{"id":%d}' % n, {"id": n, "share": n + 0.5 if n > 1 else 0.5}, b"%d" % n)
            for n in range(1, 6)
        ]


def message(key: bytes | None, value: bytes, headers: Mapping[str, bytes]) -> tuple[Any, ...]:
    return key, json.loads(value), headers.get("h")


@pytest.mark.timeout(600)
def test_messages_of_kafka(gateway, made, run, tmp_path):
    with KafkaServer(tmp_path / "kafka") as kafka:
        kafka.create_topic("in")
        for key, value, header in SENT:
            kafka.produce("in", [(key, value)], headers=[("h", header)])

        def read() -> Found:
            known = "out" in kafka.admin().list_topics(timeout=10).topics
            messages = kafka.read("out") if known else []
            return sorted(
                (message(one.key(), one.value(), dict(one.headers())) for one in messages),
                key=lambda one: one[1]["id"],
            )

        made(
            "of-kafka",
            "RUNNING",
            **{
                "source.connector.class": "kafka-source",
                "source.bootstrap.servers": kafka.bootstrap,
                "source.topics": "in",
                "sink.connector.class": "kafka-sink",
                "sink.bootstrap.servers": kafka.bootstrap,
                "sink.topic": "out",
                "errors.tolerance": "all",
                **PLAIN,
            },
        )
        try:
            replay_all(run, "of-kafka", tmp_path, read)
        finally:
            gateway.delete("/connectors/of-kafka.replay")
            gateway.delete("/connectors/of-kafka")


@pytest.mark.timeout(600)
def test_messages_of_rocketmq(gateway, made, run, tmp_path):
    with RocketmqCluster(tmp_path / "mq") as rocketmq:
        for topic in ("in", "out"):
            rocketmq.create_topic(topic)
        pairs = "KEYS\x01{}\x02h\x01{}\x02"
        sent = [(value, pairs.format(key.decode(), h.decode())) for key, value, h in SENT]
        rocketmq.send("in", *((value, properties.encode()) for value, properties in sent))

        def read() -> Found:
            stored = rocketmq.read("out")
            parts = decode_properties(stored.properties)
            headers = [dict(one or ()) for one in parts.headers.to_pylist()]
            messages = zip(parts.keys, map(bytes, stored.bodies), headers, strict=True)
            return sorted((message(*one) for one in messages), key=lambda one: one[1]["id"])

        login = {
            f"{end}.{name}": value
            for end in ("source", "sink")
            for name, value in {"namesrv.addr": rocketmq.namesrv, **rocketmq.login}.items()
        }
        made(
            "of-rocketmq",
            "RUNNING",
            **{
                "source.connector.class": "rocketmq-source",
                "source.topics": "in",
                "sink.connector.class": "rocketmq-sink",
                "sink.topic": "out",
                "sink.topic.queues": "1",
                "errors.tolerance": "all",
                **login,
                **PLAIN,
            },
        )
        try:
            replay_all(run, "of-rocketmq", tmp_path, read)
        finally:
            gateway.delete("/connectors/of-rocketmq.replay")
            gateway.delete("/connectors/of-rocketmq")
