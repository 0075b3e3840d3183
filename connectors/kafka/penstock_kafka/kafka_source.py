"""Messages of topics as rows. The host keeps the offsets: no consumer group is needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock_connector import (
    Batch,
    ConfigError,
    Partition,
    Pattern,
    Source,
    key,
)
from penstock_connector.messages import MessageDecoder
from penstock_kafka.broker import (
    CHECK_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    Broker,
    MessageConfig,
    to_connector_error,
)
from penstock_kafka.messages import messages_of

_QUEUE_KIB: Final = 65_536
"""Messages that are fetched ahead, for all partitions of a task together."""


_FETCH_BYTES: Final = 8 << 20
"""Bytes of one answer for a partition. Kafka's default of 1 MiB asks eight times as often."""


@dataclass(frozen=True)
class KafkaSourceConfig(MessageConfig):
    """Which topics, and from where."""

    topics: tuple[str, ...] = key((), doc="Topics, separated by commas.", group="Reading")
    topics_regex: str = key(
        "",
        doc="Regular expression for the whole name of a topic, instead of `topics`.",
        group="Reading",
    )
    auto_offset_reset: str = key(
        "earliest",
        doc="Where a partition begins that was never read, and one whose offset is gone: at its "
        "first message, or behind its last one; `none` makes the latter an error.",
        choices=("earliest", "latest", "none"),
        group="Reading",
    )
    batch_rows: int = key(50_000, doc="Most messages of a batch.", group="Reading")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        if bool(self.topics) == bool(self.topics_regex):
            raise ConfigError(
                "config.missing" if not self.topics else "config.conflict",
                "`topics` or `topics.regex` must be set, and not both",
                fix="Set `topics` to names, or `topics.regex` to a regular expression.",
                config_path="topics",
            )
        if self.batch_rows < 1:
            raise ConfigError(
                "config.invalid_value",
                f"`batch.rows` is {self.batch_rows}",
                fix="Use a number above 0.",
                config_path="batch.rows",
            )
        if self.topics_regex:
            Pattern.compile(self.topics_regex, "topics.regex")


class KafkaSource(Source[KafkaSourceConfig]):
    """Messages of Kafka's topics.

    A partition of a topic is a partition here; its offset is that of the next message. Messages of
    aborted transactions are never read.
    """

    name = "kafka-source"
    monitor_every = 10.0

    @classmethod
    def check(cls, config: KafkaSourceConfig) -> None:
        """Ask the brokers for their topics."""
        _partitions(config, CHECK_TIMEOUT_S)

    @classmethod
    def plan(
        cls, config: KafkaSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return the partitions of the topics; a topic that does not exist has none yet."""
        return _partitions(config)

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Read from the offsets of the partitions."""
        self._pending: deque[Batch] = deque()
        self._decoders: dict[str, MessageDecoder] = {}
        self._broker = Broker(self.config)
        settings = self._broker.settings(
            group_id="penstock",  # required, and not used: nothing is committed
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            isolation_level="read_committed",
            auto_offset_reset="error",
            queued_max_messages_kbytes=_QUEUE_KIB,
            fetch_message_max_bytes=_FETCH_BYTES,
        )
        self._consumer = Consumer(settings)
        with self._broker.errors("offsets"):
            self._consumer.assign([self._beginning(one) for one in partitions])

    def _beginning(self, partition: Partition) -> TopicPartition:
        topic, number = str(partition.key["topic"]), int(partition.key["partition"])
        if partition.offset is not None:
            place = TopicPartition(topic, number, int(partition.offset["offset"]))
            return self._within(place, partition)
        if self.config.auto_offset_reset == "latest":
            return self._at_end(topic, number, partition)
        return TopicPartition(topic, number, OFFSET_BEGINNING)

    def _within(self, place: TopicPartition, partition: Partition) -> TopicPartition:
        """Return a place that the partition has."""
        low, high = self._bounds(place.topic, place.partition)
        if low <= place.offset <= high:
            return place
        if self.config.auto_offset_reset == "none" or place.offset > high:
            raise to_connector_error(
                KafkaError(
                    KafkaError.OFFSET_OUT_OF_RANGE,
                    f"{place.topic}-{place.partition} has the offsets {low} to {high}, and "
                    f"{place.offset} is the next one to be read",
                ),
                "offsets",
            )
        if self.config.auto_offset_reset == "latest":
            return self._at_end(place.topic, place.partition, partition)
        self._decide(low, partition)
        return TopicPartition(place.topic, place.partition, low)

    def _at_end(self, topic: str, number: int, partition: Partition) -> TopicPartition:
        _, high = self._bounds(topic, number)
        self._decide(high, partition)
        return TopicPartition(topic, number, high)

    def _bounds(self, topic: str, number: int) -> tuple[int, int]:
        """Return the first offset of a partition, and the one after its last message."""
        place = TopicPartition(topic, number)
        low, high = self._broker.ask(
            f"offsets of {topic}-{number}",
            lambda: self._consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S),
        )
        return low, high

    def _decide(self, offset: int, partition: Partition) -> None:
        """Make a decided beginning durable before any row: a restart must not decide again."""
        self._pending.append(
            Batch(partition=partition, offset={"offset": offset}, dataset=partition.key["topic"])
        )

    def read_batch(self) -> Batch | None:
        """Return the rows of one partition and schema."""
        if not self._pending:
            self._poll(0.0)
        return self._pending.popleft() if self._pending else None

    def wait(self, timeout: float) -> None:
        """Block until there are messages."""
        self._poll(min(timeout, 0.1))

    def _poll(self, timeout: float) -> None:
        if self._pending:
            return
        polled: dict[tuple[str, int], list[Any]] = {}
        with self._broker.errors("consume"):
            found = self._consumer.consume(1, timeout=timeout) if timeout else []
            found += self._consumer.consume(self.config.batch_rows - len(found), timeout=0)
        for message in found:
            if (error := message.error()) is not None:
                raise to_connector_error(error, "consume")
            polled.setdefault((message.topic(), message.partition()), []).append(message)
        for (topic, number), messages in polled.items():
            self._pending.extend(self._batches(topic, number, messages))

    def _batches(self, topic: str, number: int, messages: Sequence[Any]) -> list[Batch]:
        decoder = self._decoders.get(topic)
        if decoder is None:
            sides = self.config.key_side(), self.config.value_side()
            decoder = MessageDecoder("kafka", topic, *sides)
            self._decoders[topic] = decoder
        decoded, bad = decoder.decode(messages_of(messages))
        partition = {"topic": topic, "partition": number}
        batches = [
            Batch(one.rows, partition, dataset=topic, key_columns=one.key_columns)
            for one in decoded
        ] or [Batch(partition=partition, dataset=topic)]
        batches[-1].bad_rows = [
            (messages[one.index].value() or messages[one.index].key() or b"", one.error)
            for one in bad
        ]
        batches[-1].offset = {"offset": messages[-1].offset() + 1}
        return batches

    def close(self) -> None:
        """Leave the brokers."""
        if consumer := getattr(self, "_consumer", None):
            consumer.close()


def _partitions(config: KafkaSourceConfig, timeout_s: float = REQUEST_TIMEOUT_S) -> list[Partition]:
    broker = Broker(config)
    admin = AdminClient(broker.settings())
    with broker.errors("topics", admin):
        known = admin.list_topics(timeout=timeout_s).topics
    if config.topics_regex:
        pattern = Pattern.compile(config.topics_regex, "topics.regex")
        names = pattern.filter(known)
    else:
        names = [name for name in config.topics if name in known]
    return [
        Partition({"topic": name, "partition": number}, datasets=(name,))
        for name in sorted(names)
        for number in sorted(known[name].partitions)
    ]
