"""Messages of topics as rows. The host keeps the offsets: no consumer group is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import (
    Batch,
    ConfigError,
    ConnectorError,
    Partition,
    Pattern,
    RawRow,
    Source,
    key,
)
from penstock_connector.raw_message_reader import RawMessageReader
from penstock_connector.raw_messages import RawMessage
from penstock_kafka.broker import Broker, MessageConfig
from penstock_kafka.client_settings import LOGIN_PREFIXES, translate
from penstock_kafka.originals import Originals
from penstock_kafka.time_offsets import require_reset, resolve_offsets
from penstock_kafka.topic_reader import Reading, TopicReader

RESETS: Final = ("earliest", "latest", "none")
_BATCH_ROWS: Final = 50_000
"""Most messages of a batch, without `consumer.max.poll.records`."""

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics, which a pattern of a consumer leaves out (`exclude.internal.topics`)."""


@dataclass(frozen=True)
class KafkaSourceConfig(MessageConfig):
    """Which topics, and from where."""

    topics: tuple[str, ...] = key(
        (), doc="Topics, separated by commas.", group="Reading", importance="high"
    )
    topics_regex: str = key(
        "",
        doc="Regular expression for the whole name of a topic, instead of `topics`.",
        group="Reading",
    )
    auto_offset_reset: str = key(
        "earliest",
        doc="Where a partition begins that was never read, and one whose offset is gone: "
        "`earliest`, at its first message; `latest`, behind its last one; `by_duration:PT1H`, at "
        "the first message of the last hour; `timestamp:2026-01-31T12:00:00Z`, at the first one of "
        "a time. With `none`, an offset that is gone is an error.",
        group="Reading",
    )
    positions: bool = key(
        False,
        doc="Whether rows have `__partition` and `__offset`: where their messages are. Transforms "
        "see them, sinks do not. In a topic of another system, rows keep their partition.",
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
        require_reset(self.auto_offset_reset, RESETS, "auto.offset.reset")
        if self.topics_regex:
            Pattern.compile(self.topics_regex, "topics.regex")
        translate("consumer", self.consumer)

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        return {
            **super().unused_keys(),
            **translate("consumer", self.consumer).unused,
            **self.unused_client_keys("consumer", self.consumer),
        }

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

    @classmethod
    def alter_offsets(
        cls, config: KafkaSourceConfig, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Refuse offsets that partitions do not have; times become offsets."""
        return resolve_offsets(Broker(config, "consumer", config.consumer), partitions)

    @classmethod
    def parse_rows(
        cls, config: KafkaSourceConfig, rows: Sequence[RawRow]
    ) -> Iterator[Batch | ConnectorError]:
        """Read messages again that could not be read."""
        originals = Originals(Broker(config, "consumer", config.consumer), "read_committed")

        def read_neighbours(key: Mapping[str, Any]) -> Sequence[RawMessage]:
            topic, number = key.get("topic"), key.get("partition")
            if not isinstance(topic, str) or type(number) is not int:
                return ()
            return originals.read_newest(topic, number)

        reader = RawMessageReader(
            "kafka",
            config.open_converters,
            read_neighbours,
            number="partition",
            positions=config.positions,
        )
        try:
            yield from reader.read(rows)
        finally:
            reader.close()
            originals.close()

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Read from the offsets of the partitions."""
        config = self.config
        reading = Reading(
            Broker(config, "consumer", config.consumer),
            config.open_converters,
            config.auto_offset_reset,
            config.batch_rows,
            config.positions,
            config.consumer.get("group.id", ""),
            tells_end=self.until_caught_up,
        )
        self._reader = TopicReader(reading, partitions)

    def read_batch(self) -> Batch | None:
        """Return the rows of one partition and schema."""
        return self._reader.read_batch()

    def wait(self, timeout: float) -> None:
        """Block until there are messages."""
        self._reader.wait(timeout)

    def caught_up(self) -> bool:
        """Return whether every partition was read to its end."""
        return self._reader.caught_up()

    def ack(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Commit to the consumer group how far all rows are durable."""
        self._reader.ack(offsets)

    def close(self) -> None:
        """Leave the brokers."""
        if reader := getattr(self, "_reader", None):
            reader.close()


def _partitions(config: KafkaSourceConfig) -> list[Partition]:
    broker = Broker(config, "admin", config.login_keys())
    admin = broker.admin()
    if config.topics_regex:
        all_topics = broker.topics(admin, "topics")
        known = {name: sorted(found.partitions) for name, found in all_topics.items()}
        pattern = Pattern.compile(config.topics_regex, "topics.regex")
        left_out = _INTERNAL if config.consumer.get("exclude.internal.topics") != "false" else ()
        names = pattern.filter(name for name in known if name not in left_out)
    else:
        known = broker.describe(admin, config.topics, "topics")
        names = list(known)
    return [
        Partition({"topic": name, "partition": number}, datasets=(name,))
        for name in sorted(names)
        for number in known[name]
    ]
