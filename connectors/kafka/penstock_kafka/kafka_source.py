"""Messages of topics as rows. The host keeps the offsets: no consumer group is needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock_connector import (
    BadRow,
    Batch,
    ConfigError,
    ConnectorError,
    Partition,
    Pattern,
    Source,
    key,
)
from penstock_connector.messages import MessageDecoder
from penstock_kafka.broker import (
    OFFSET_LOST,
    REQUEST_TIMEOUT_S,
    Broker,
    MessageConfig,
    to_connector_error,
)
from penstock_kafka.client_settings import LOGIN_PREFIXES, translate
from penstock_kafka.group_mirror import GroupMirror
from penstock_kafka.messages import messages_of

_QUEUE_KIB: Final = 65_536
"""Messages that are fetched ahead, for all partitions of a task together."""


_QUEUED: Final = 1_000_000
"""Messages that are fetched ahead of a partition; `_QUEUE_KIB` bounds them first."""

_QUEUE_BACKOFF_MS: Final = 5
"""Time until a partition is fetched again whose queue was full. The client's default of a second is
longer than its queue lasts.
"""

_BATCH_ROWS: Final = 50_000
"""Most messages of a batch, without `consumer.max.poll.records`."""

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics, which a pattern of a consumer leaves out (`exclude.internal.topics`)."""

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
    positions: bool = key(
        False,
        doc="Whether rows have `__partition` and `__offset`: where their messages are. Transforms "
        "see them, sinks do not.",
        group="Reading",
    )
    consumer: Mapping[str, str] = key(
        doc="Settings of the consumer, by the names that they have in Kafka: "
        "`consumer.max.poll.records`, `consumer.isolation.level`.",
        group="Reading",
    )

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
        if self.topics_regex:
            Pattern.compile(self.topics_regex, "topics.regex")
        translate("consumer", self.consumer)

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        return {**super().unused_keys(), **translate("consumer", self.consumer).unused}

    def require_reach(self) -> None:
        """Refuse brokers and files of the consumer, too."""
        super().require_reach()
        self.login("consumer", self.consumer)

    def login_keys(self) -> dict[str, str]:
        """Return the keys of the consumer's connection."""
        keys = self.consumer.items()
        return {name: text for name, text in keys if name.startswith(LOGIN_PREFIXES)}

    @property
    def batch_rows(self) -> int:
        """Most messages of a batch."""
        return int(self.consumer.get("max.poll.records", _BATCH_ROWS))


class KafkaSource(Source[KafkaSourceConfig]):
    """Messages of Kafka's topics.

    A partition of a topic is a partition here; its offset is that of the next message. Messages of
    aborted transactions are never read.
    """

    name = "kafka-source"
    needs_commit = True
    monitor_every = 10.0

    @classmethod
    def check(cls, config: KafkaSourceConfig) -> None:
        """Ask the brokers for their topics."""
        _partitions(config)

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
        self._group = GroupMirror(self.config.consumer.get("group.id", ""), partitions)
        self._broker = Broker(self.config, "consumer", self.config.consumer)
        self._batch_rows = self.config.batch_rows
        settings = self._broker.settings(
            group_id=self._group.name or "penstock",  # required, also where nothing is committed
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            isolation_level="read_committed",
            auto_offset_reset="error",
            queued_max_messages_kbytes=_QUEUE_KIB,
            queued_min_messages=_QUEUED,
            fetch_queue_backoff_ms=_QUEUE_BACKOFF_MS,
            fetch_message_max_bytes=_FETCH_BYTES,
        )
        settings["on_commit"] = self._group.note
        with self._broker.errors("settings of the consumer"):
            self._consumer = Consumer(settings)
        with self._broker.errors("offsets"):
            places = [self._beginning(one) for one in partitions]
            self._consumer.assign(places)
        keys = [(one.topic, one.partition) for one in places]
        self._partitions = dict(zip(keys, partitions, strict=True))
        self._next = {key: one.offset for key, one in zip(keys, places, strict=True)}

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
        self._group.commit(self._consumer)
        self._poll(min(timeout, 0.1))

    def ack(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Commit to the consumer group how far all rows are durable."""
        self._group.add(offsets)
        self._group.commit(self._consumer)

    def _poll(self, timeout: float) -> None:
        if self._pending:
            return
        polled: dict[tuple[str, int], list[Any]] = {}
        with self._broker.errors("consume"):
            found = self._consumer.consume(1, timeout=timeout) if timeout else []
            found += self._consumer.consume(self._batch_rows - len(found), timeout=0)
        for message in found:
            place = (message.topic(), message.partition())
            if (error := message.error()) is None:
                polled.setdefault(place, []).append(message)
            elif error.code() in OFFSET_LOST and place in self._partitions:
                self._go_on(*place)
            else:
                raise to_connector_error(error, "consume")
        for (topic, number), messages in polled.items():
            self._pending.extend(self._batches(topic, number, messages))
            self._next[topic, number] = messages[-1].offset() + 1

    def _go_on(self, topic: str, number: int) -> None:
        """Go on where `auto.offset.reset` says: retention was faster than this task.

        Raises:
            OffsetLostError: as at the beginning of a run.
        """
        lost = TopicPartition(topic, number, max(self._next[topic, number], 0))
        with self._broker.errors("offsets"):
            place = self._within(lost, self._partitions[topic, number])
            self._consumer.incremental_unassign([lost])
            self._consumer.incremental_assign([place])

    def _batches(self, topic: str, number: int, messages: Sequence[Any]) -> list[Batch]:
        decoder = self._decoders.get(topic)
        if decoder is None:
            sides = self.config.open_key_converter(), self.config.open_value_converter()
            decoder = MessageDecoder("kafka", topic, *sides)
            self._decoders[topic] = decoder
        decoded, bad = decoder.decode(messages_of(messages, positions=self.config.positions))
        partition = {"topic": topic, "partition": number}
        batches = [
            Batch(one.rows, partition, dataset=topic, key_columns=one.key_columns)
            for one in decoded
        ] or [Batch(partition=partition, dataset=topic)]
        batches[-1].bad_rows = [_bad_row(messages[one.index], one.error) for one in bad]
        batches[-1].offset = {"offset": messages[-1].offset() + 1}
        return batches

    def close(self) -> None:
        """Leave the brokers."""
        if consumer := getattr(self, "_consumer", None):
            self._group.commit(consumer, at_end=True)
            consumer.close()
        for decoder in getattr(self, "_decoders", {}).values():
            decoder.close()


def _bad_row(message: Any, error: ConnectorError) -> BadRow:
    raw = message.value() or message.key() or b""
    return BadRow(raw, error, {"offset": message.offset()})


def _partitions(config: KafkaSourceConfig) -> list[Partition]:
    broker = Broker(config, "admin", config.login_keys())
    admin = AdminClient(broker.settings())
    known = broker.topics(admin, "topics")
    if config.topics_regex:
        pattern = Pattern.compile(config.topics_regex, "topics.regex")
        left_out = _INTERNAL if config.consumer.get("exclude.internal.topics") != "false" else ()
        names = pattern.filter(name for name in known if name not in left_out)
    else:
        names = [name for name in config.topics if name in known]
    return [
        Partition({"topic": name, "partition": number}, datasets=(name,))
        for name in sorted(names)
        for number in sorted(known[name].partitions)
    ]
