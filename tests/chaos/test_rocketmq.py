"""Rows into RocketMQ while everything is killed: none is missing, and a consumer that drops what it
has seen by `penstock_id` has each once, in order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from chaos.test_kill_points import STEPS
from penstock_kit.testing import wait_until
from support.processes import PLAIN
from support.rocketmq import RocketmqCluster
from system.pipelines import Pipeline

pytestmark = pytest.mark.timeout(600)

ROWS: Final = 3000


def messages(rocketmq: RocketmqCluster) -> list[tuple[bytes, int]]:
    """Return ids and numbers of all messages."""
    stored = rocketmq.read("lines")
    ids = [properties.split(b"penstock_id\x01")[1] for properties in stored.properties]
    return [
        (id_, json.loads(body)["seq"])
        for id_, body in zip(ids, stored.bodies, strict=True)
        if body is not None
    ]


def numbers_once(rocketmq: RocketmqCluster) -> list[int]:
    """Return the numbers that a consumer has which drops ids that it has seen."""
    return list(dict(reversed(messages(rocketmq))).values())[::-1]


def test_kills_of_the_worker_and_of_the_broker_lose_nothing(tmp_path: Path) -> None:
    with RocketmqCluster(tmp_path / "rocketmq") as rocketmq:
        rocketmq.create_topic("lines")
        source = {
            "connector.class": "verifiable-source",
            "partitions": 1,
            "rows": ROWS,
            "batch.rows": 50,
            "state.dir": str(tmp_path / "told"),
        }
        sink = {
            "connector.class": "rocketmq-sink",
            **rocketmq.login,
            "topic": "lines",
            "value.converter.schemas.enable": False,
        }
        document = {"source": source, "sink": sink, "batch": {"max.rows": 50}}
        pipeline = Pipeline(tmp_path / "pipeline", document, PLAIN)
        for step in STEPS:
            pipeline.kill_at(f"{step}=kill@4")
            found = numbers_once(rocketmq)
            assert found == list(range(len(found)))
        assert 0 < len(found) < ROWS
        assert len(messages(rocketmq)) > len(found)  # kills do make it send again
        with pipeline.running() as process:
            process.wait_for(lambda: len(numbers_once(rocketmq)) > len(found), 120, "more rows")
            rocketmq.kill()
            rocketmq.start()
            assert process.wait(240) == 0, process.output
        wait_until(lambda: len(numbers_once(rocketmq)) >= ROWS, 60, "all rows")
        assert numbers_once(rocketmq) == list(range(ROWS))
