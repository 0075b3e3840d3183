"""The last transaction of each task, in a topic of Kafka: written in the transaction itself.

A record has the task's id as its key, and JSON as its value. The topic is compacted, so that the
newest record of a task is all that stays.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from penstock_connector import RetriableError, SchemaError
from penstock_kafka.broker import NO_GROUP, REQUEST_TIMEOUT_S, Broker, to_connector_error
from penstock_values.topic_creation import TopicSettings

READ_TIMEOUT_S: Final = 150.0
"""Time for reading what a partition has. A transaction of another task that is open hides what
comes after it, and ends after two minutes (`transaction.timeout.ms`) when its task has died.
"""


def offsets_topic_settings(replication_factor: int) -> TopicSettings:
    """Return what a new topic for offsets is created with: as many partitions as Kafka Connect's
    has.
    """
    return TopicSettings(25, replication_factor, {"cleanup.policy": "compact"})


def ensure_topic(broker: Broker, topic: str, settings: TopicSettings, *, may_create: bool) -> int:
    """Create a topic unless it exists. Returns the number of its partitions. Only that topic is
    asked for: the brokers may have very many.

    Raises:
        SchemaError: `kafka.no_topic`: it does not exist, and must not be created.
    """
    admin = broker.admin()  # it is not kept: a process can have some 1,000 clients
    if numbers := broker.describe(admin, [topic], f"topic {topic}").get(topic):
        return len(numbers)
    with broker.errors(f"topic {topic}", admin):
        if not may_create:
            raise SchemaError(
                "kafka.no_topic",
                f"the topic {topic} does not exist, and `topic.creation.enable` is false",
                fix="Create it, or set `topic.creation.enable=true`.",
            )
        new = NewTopic(
            topic,
            settings.partitions,
            settings.replication_factor,
            config=dict(settings.config),
        )
        created = admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S)[topic]
        try:
            created.result(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    return broker.ask(f"partitions of {topic}", lambda: _count_partitions(broker, admin, topic))


def _count_partitions(broker: Broker, admin: AdminClient, topic: str) -> int:
    """Return the partitions of a topic that was just created: brokers hear of it one by one."""
    numbers = broker.describe(admin, [topic], f"partitions of {topic}").get(topic)
    if not numbers:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    return len(numbers)


class OffsetsTopic:
    """The record of one task."""

    def __init__(self, broker: Broker, topic: str, partitions: int, task_id: str) -> None:
        """`partitions` is the number of the topic's partitions."""
        self._broker, self._topic, self._task_id = broker, topic, task_id
        self._partition = zlib.crc32(task_id.encode()) % partitions

    def put(self, producer: Producer, txn_id: int, epoch: int, token: bytes) -> None:
        """Write the record into the open transaction."""
        record = {"txn": txn_id, "epoch": epoch, "token": base64.b64encode(token).decode()}
        producer.produce(
            self._topic, json.dumps(record).encode(), self._task_id.encode(), self._partition
        )

    def read(self) -> tuple[int, int, bytes] | None:
        """Return the number, epoch and token of the last committed transaction."""
        end = self._end()
        newest: bytes | None = None
        reader = self._consumer("read_committed")
        place = TopicPartition(self._topic, self._partition, OFFSET_BEGINNING)
        deadline = time.monotonic() + READ_TIMEOUT_S
        with self._broker.errors(f"reading {self._topic}"):
            try:
                reader.assign([place])
                reached = 0
                while reached < end and time.monotonic() < deadline:
                    for message in reader.consume(10_000, timeout=0.5):
                        if (error := message.error()) is not None:
                            if error.code() == NO_GROUP:
                                continue
                            if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                                raise to_connector_error(error, f"reading {self._topic}")
                            reached = message.offset()
                            continue
                        # while other tasks write all the time, the client never reports an end
                        reached = message.offset() + 1
                        if message.key() == self._task_id.encode():
                            newest = message.value()
            finally:
                reader.close()
        if reached < end:
            raise RetriableError(
                "kafka.offsets_topic",
                f"partition {self._partition} of {self._topic} has {end} records, and only "
                f"{reached} could be read within {READ_TIMEOUT_S:g} s",
                fix="Look for a producer whose transaction stays open "
                "(kafka-transactions.sh find-hanging).",
            )
        return None if newest is None else _parse(newest)

    def _end(self) -> int:
        """Return the offset after the last record, of open transactions, too."""
        reader = self._consumer("read_uncommitted")
        place = TopicPartition(self._topic, self._partition)

        def end() -> int:
            return int(reader.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S)[1])

        try:
            return self._broker.ask(f"end of {self._topic}", end)
        finally:
            reader.close()

    def _consumer(self, isolation: str) -> Consumer:
        settings = self._broker.settings(
            group_id="penstock-offsets",  # required, and not used: nothing is committed
            enable_auto_commit=False,
            enable_partition_eof=True,
            isolation_level=isolation,
        )
        return self._broker.open(Consumer, settings)


def _parse(record: bytes) -> tuple[int, int, bytes]:
    found = json.loads(record)
    return int(found["txn"]), int(found["epoch"]), base64.b64decode(found["token"])
