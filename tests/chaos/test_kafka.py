"""Rows into Kafka while everything is killed: a plain consumer sees each once, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from chaos.test_kill_points import STEPS
from penstock_kit.testing import wait_until
from support.kafka import KafkaServer
from support.processes import PLAIN
from system.pipelines import Pipeline

pytestmark = pytest.mark.timeout(600)

ROWS: Final = 3000


def numbers(kafka: KafkaServer) -> list[int]:
    """Return what a consumer that is not ours reads."""
    return [json.loads(message.value())["seq"] for message in kafka.read("lines")]


def test_kills_of_the_worker_and_of_the_broker_lose_and_repeat_nothing(tmp_path: Path) -> None:
    with KafkaServer(tmp_path / "kafka") as kafka:
        kafka.create_topic("lines")
        source = {
            "connector.class": "verifiable-source",
            "partitions": 1,
            "rows": ROWS,
            "batch.rows": 50,
            "state.dir": str(tmp_path / "told"),
        }
        sink = {
            "connector.class": "kafka-sink",
            "bootstrap.servers": kafka.bootstrap,
            "topic": "lines",
            "value.converter.schemas.enable": False,
            "key.converter.schemas.enable": False,
        }
        document = {"source": source, "sink": sink, "batch": {"max.rows": 100}}
        pipeline = Pipeline(tmp_path / "pipeline", document, PLAIN)
        for step in STEPS:
            pipeline.kill_at(f"{step}=kill@4")
            found = numbers(kafka)
            assert found == list(range(len(found)))
        assert 0 < len(found) < ROWS
        with pipeline.running() as process:
            process.wait_for(lambda: len(numbers(kafka)) > len(found), 120, "more rows")
            kafka.kill()
            kafka.start()
            assert process.wait(240) == 0, process.output
        wait_until(lambda: len(numbers(kafka)) >= ROWS, 60, "all rows")
        assert numbers(kafka) == list(range(ROWS))
