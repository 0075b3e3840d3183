"""Three brokers, of which one dies, while rows go into a topic of three replicas and out of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from penstock_kit.testing import Spans, check_delivery, read_ledger
from support.kafka_cluster import TRANSACTIONS, KafkaCluster
from support.processes import PLAIN
from support.standalone import Standalone

pytestmark = pytest.mark.timeout(600)

PARTITIONS: Final = 6


def test_the_coordinator_and_a_leader_die_and_rows_go_on(tmp_path: Path) -> None:
    """The coordinator of all transactions first, then the leader of a partition, while rows come
    without end; the next start sets one.
    """
    ledger = tmp_path / "ledger"
    write = {
        "connector.class": "verifiable-source",
        "partitions": PARTITIONS,
        "rate": 50,
        "batch.rows": 10,
        "batch.max.rows": 100,
        "prune": "true",
        "state.dir": tmp_path / "told",
        "topic": "numbers",
        "topic.creation.default.partitions": PARTITIONS,
        "topic.creation.default.replication.factor": 3,
        "transforms": "key",
        "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
        "transforms.key.fields": "task",
        "exactly.once.support": "required",
    }
    read = {
        "connector.class": "verifiable-sink",
        "topics": "numbers",
        "ledger": ledger,
        "batch.max.rows": 100,
        "delivery": "exactly-once",
    }

    def arrived() -> int:
        return read_ledger(ledger).rows if ledger.exists() else 0

    with KafkaCluster(tmp_path / "kafka") as kafka:

        def sent() -> dict[int, list[int]]:
            """Return the numbers of each task, in the order in which the topic has them."""
            found: dict[int, list[int]] = defaultdict(list)
            for message in kafka.read("numbers"):
                row = json.loads(message.value())["payload"]
                found[row["task"]].append(row["seq"])
            return found

        def group_is_told() -> bool:
            ends = {one.partition(): one.offset() + 1 for one in kafka.read("numbers")}
            told = {
                number: kafka.group_offset("connect-read", "numbers", number) for number in ends
            }
            return told == ends

        def node(**more: object) -> Standalone:
            keys = {"bootstrap.servers": kafka.bootstrap, "topics.backend": "kafka"}
            both = {"write": write | more, "read": read}
            return Standalone(tmp_path / "node", keys, module=PLAIN, **both)

        with node() as running:

            def advance(stage: str) -> None:
                """Wait for rows that are not in the topic yet."""
                after = sum(map(len, sent().values()))
                running.wait_for(lambda: arrived() > after, stage)

            def move(leader: Callable[[], int], name: str) -> None:
                """Kill a leader, and start it again once there is another one."""
                old = leader()
                kafka.kill(old)
                running.wait_for(lambda: leader() not in {old, -1}, f"another {name}")
                advance(f"rows with another {name}")
                kafka.start(old)
                advance(f"rows after the start of the old {name}")

            running.wait_for(lambda: arrived() > 300, "the first rows")
            move(partial(kafka.leader, TRANSACTIONS, 0), "coordinator")
            move(partial(kafka.leader, "numbers", 0), "leader")
            assert "kafka.group_in_use" not in running.process.output
        rows = max(map(len, sent().values())) + 50
        with node(rows=rows) as running:
            running.wait_for(lambda: arrived() >= PARTITIONS * rows, "all rows")
            running.wait_for(group_is_told, "the consumer group to be told")
        expected = {f"{number}": Spans([(0, rows - 1)]) for number in range(PARTITIONS)}
        check_delivery(expected, read_ledger(ledger).entries).require()
        assert sent() == {number: list(range(rows)) for number in range(PARTITIONS)}
