"""A node whose topics are Kafka's: killed while rows go in and out, it loses and repeats none."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from penstock_kit.testing import Spans, check_delivery, read_ledger
from support.kafka import KafkaServer
from support.processes import PLAIN
from support.standalone import Standalone

pytestmark = pytest.mark.timeout(600)

ROWS: Final = 30_000


def test_a_node_that_is_killed_between_kafka_and_its_ends(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    write = {
        "connector.class": "verifiable-source",
        "partitions": 1,
        "rows": ROWS,
        "rate": 2000,
        "batch.rows": 50,
        "batch.max.rows": 100,
        "state.dir": tmp_path / "told",
        "topic": "numbers",
    }
    read = {
        "connector.class": "verifiable-sink",
        "topics.regex": "num.*",
        "ledger": ledger,
        "batch.max.rows": 100,
    }
    with KafkaServer(tmp_path / "kafka") as kafka:
        node = {"bootstrap.servers": kafka.bootstrap, "topics.backend": "kafka"}

        def arrived(least: int) -> bool:
            return ledger.exists() and read_ledger(ledger).rows >= least

        started = partial(Standalone, tmp_path / "node", node, module=PLAIN, write=write, read=read)
        for least in (1000, 3000):
            with started() as running:
                running.wait_for(partial(arrived, least), f"{least} rows")
                running.process.kill()
        assert not arrived(ROWS), "the kills came after the end"
        with started() as running:
            running.wait_for(partial(arrived, ROWS), "all rows")
        check_delivery({"0": Spans([(0, ROWS - 1)])}, read_ledger(ledger).entries).require()
        found = [json.loads(one.value())["payload"]["seq"] for one in kafka.read("numbers")]
        assert found == list(range(ROWS))
