"""Three brokers of Kafka for tests, each of them a controller, too.

with KafkaCluster(folder) as kafka:
    leader = kafka.leader("orders", 3)
    kafka.kill(leader); kafka.start(leader)
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException

from penstock_kit.testing import wait_until
from support.kafka import KafkaServer
from support.kafka_questions import KafkaQuestions

TRANSACTIONS: Final = "__transaction_state"
"""The topic of the coordinators. It has one partition here, whose leader coordinates all."""

_SIZE: Final = 3
_SOON: Final = 90.0
_PROPERTIES: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "1",
    "broker.session.timeout.ms": "6000",
}


class KafkaCluster(KafkaQuestions):
    """Brokers 1, 2 and 3. Leaving the `with` block kills them."""

    def __init__(self, folder: Path) -> None:
        self._brokers = {
            number: KafkaServer(folder / f"{number}", heap="256m") for number in range(1, _SIZE + 1)
        }
        self.bootstrap = ",".join(one.bootstrap for one in self._brokers.values())

    def __enter__(self) -> Self:
        """Start them."""
        voters = ",".join(f"{n}@127.0.0.1:{one.controller}" for n, one in self._brokers.items())
        for number, broker in self._brokers.items():
            own = {"node.id": str(number), "controller.quorum.voters": voters}
            broker.format(_PROPERTIES | own)
            broker.spawn()
        for number in self._brokers:
            self._wait(number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill them."""
        for number in self._brokers:
            self.kill(number)

    def kill(self, number: int) -> None:
        """Kill a broker with SIGKILL."""
        self._brokers[number].kill()

    def start(self, number: int) -> None:
        """Start a broker, and wait until it has all that it missed."""
        self._brokers[number].spawn()
        self._wait(number)

    def _wait(self, number: int) -> None:
        self._brokers[number].wait()
        wait_until(self._in_sync, _SOON, f"broker {number} to be in sync")

    def _in_sync(self) -> bool:
        try:
            found = self.admin().list_topics(timeout=5)
        except KafkaException:
            return False
        partitions = [one for topic in found.topics.values() for one in topic.partitions.values()]
        return all(len(one.isrs) == len(one.replicas) for one in partitions)

    def leader(self, topic: str, number: int) -> int:
        """Return the broker that leads a partition; -1: none does."""
        found = self.admin().list_topics(topic, timeout=10).topics[topic].partitions[number]
        return int(found.leader)
