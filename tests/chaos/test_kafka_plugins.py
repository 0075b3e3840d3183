"""kill -9 of each plugin between two ends and a broker: rows go on, each once, in order."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Final

import pytest

from chaos.test_kill_processes import SINK, SOURCE, gone, plugin
from penstock_kit.testing import Spans, check_delivery, check_delivery_so_far, read_ledger
from support.kafka import KafkaServer
from support.processes import PLAIN
from support.standalone import Standalone

pytestmark = pytest.mark.timeout(600)

PRODUCER, CONSUMER = plugin("kafka/kafka-sink"), plugin("kafka/kafka-source")
VICTIMS: Final = {
    "the producer": PRODUCER,
    "the consumer": CONSUMER,
    "the source": SOURCE,
    "the sink": SINK,
    "the second producer": PRODUCER,
    "the second consumer": CONSUMER,
}


def test_a_plugin_that_is_killed_beside_a_broker_is_replaced(tmp_path: Path) -> None:
    """Each of the four, while rows go into a topic and out of it in small transactions, so that
    most kills come within one. The rows have no end then; the next start sets one.
    """
    ledger = tmp_path / "ledger"
    write = {
        "connector.class": "verifiable-source",
        "rate": 300,
        "batch.rows": 10,
        "batch.max.rows": 20,
        "prune": "true",
        "state.dir": tmp_path / "told",
        "topic": "numbers",
    }
    read = {
        "connector.class": "verifiable-sink",
        "topics": "numbers",
        "ledger": ledger,
        "batch.max.rows": 20,
    }

    def arrived() -> int:
        return read_ledger(ledger).rows if ledger.exists() else 0

    with KafkaServer(tmp_path / "kafka") as kafka:

        def sent() -> list[int]:
            return [json.loads(one.value())["payload"]["seq"] for one in kafka.read("numbers")]

        def node(**more: object) -> Standalone:
            keys = {"bootstrap.servers": kafka.bootstrap, "topics.backend": "kafka"}
            info = {"PENSTOCK_LOG_LEVEL": "INFO"}
            both = {"write": write | more, "read": read}
            return Standalone(tmp_path / "node", keys, info, PLAIN, **both)

        with node() as running:
            running.wait_for(lambda: arrived() > 500, "the first rows")
            for name, find in VICTIMS.items():
                victim = find(running.process)
                os.kill(victim.pid, signal.SIGKILL)
                running.wait_for(lambda v=victim: gone(v), f"the end of {name}")
                before = sent()
                assert before == list(range(len(before)))
                reached, count = kafka.count("numbers"), len(before)
                running.wait_for(
                    lambda n=reached: kafka.count("numbers") > n, f"messages after {name}"
                )
                running.wait_for(lambda n=count: arrived() > n, f"rows after {name}")
                check_delivery_so_far(read_ledger(ledger).entries).require()
        rows = len(sent()) + 100
        with node(rows=rows) as running:
            running.wait_for(lambda: arrived() >= rows, "all rows")
        check_delivery({"0": Spans([(0, rows - 1)])}, read_ledger(ledger).entries).require()
        assert sent() == list(range(rows))
