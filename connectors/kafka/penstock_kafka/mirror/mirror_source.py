"""Messages of one cluster for another one: bytes, partitions, times and headers as they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import Batch, Op, Partition, Pattern, Source, key
from penstock_connector.messages import KEY, OP, Converters
from penstock_converters.registry import create_converter
from penstock_kafka.broker import Broker
from penstock_kafka.client_settings import translate
from penstock_kafka.kafka_source import RESETS
from penstock_kafka.mirror.config import MirrorConfig, unused_client_keys
from penstock_kafka.mirror.policy import NameFilter
from penstock_kafka.mirror.target_topics import EXCLUDED, TargetTopics
from penstock_kafka.mirror.topic_acls import TopicAcls
from penstock_kafka.time_offsets import require_reset, resolve_offsets
from penstock_kafka.topic_reader import Naming, Reading, TopicReader

_OF_TARGET: Final = ("replication.factor", "sync.topic.", "config.properties.exclude")
_NO_TARGET: Final = "without `target.cluster.bootstrap.servers`, topics are created by the sink"
_ACLS_EVERY_S: Final = 600
_RESET: Final = "auto.offset.reset"
_BATCH_ROWS: Final = 50_000
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"

TOPICS: Final = (".*",)
TOPICS_EXCLUDED: Final = (r"mm2.*\.internal", r".*[-.]internal", r".*\.replica", "__.*")
"""MirrorMaker's defaults."""


@dataclass(frozen=True)
class MirrorSourceConfig(MirrorConfig):
    """Which topics are mirrored."""

    topics: tuple[str, ...] = key(
        TOPICS, doc="Topics: names or regular expressions, separated by commas.", group="Topics"
    )
    topics_exclude: tuple[str, ...] = key(
        TOPICS_EXCLUDED, doc="Topics that are left out, as `topics`.", group="Topics"
    )
    replication_factor: int = key(
        -1, doc="Copies of a topic that is created in the target; -1: the default of its brokers.",
        group="Topics",
    )  # fmt: skip
    sync_topic_configs_enabled: bool = key(
        True,
        doc="Whether topics of the target get the settings of those of the source.",
        group="Topics",
    )
    sync_topic_configs_interval_seconds: int = key(
        600, doc="Seconds after which topics and settings are compared again.", group="Topics"
    )
    sync_topic_acls_enabled: bool = key(
        True,
        doc="Whether users get the rights to topics of the target that they have to those of the "
        "source, but for writing.",
        group="Topics",
    )
    sync_topic_acls_interval_seconds: int = key(
        _ACLS_EVERY_S, doc="Seconds after which rights are compared again.", group="Topics"
    )
    config_properties_exclude: tuple[str, ...] = key(
        EXCLUDED, doc="Settings that are left out: regular expressions.", group="Topics"
    )
    consumer: Mapping[str, str] = key(
        doc="Settings of the consumer: `consumer.auto.offset.reset`.", group="Other"
    )
    source_consumer: Mapping[str, str] = key(doc="As `consumer.*`.", group="Other")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        self.names()
        self.target_topics()
        translate("consumer", self.consumer_keys)
        require_reset(self.reset, RESETS, f"consumer.{_RESET}")

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        of_target = self._changed_keys_of_target() if self.target_login() is None else ()
        return {
            **super().unused_keys(),
            **unused_client_keys("consumer", "consumer", _without_reset(self.consumer)),
            **unused_client_keys(
                "consumer", "source.consumer", _without_reset(self.source_consumer)
            ),
            **self._unused_acl_keys(),
            **dict.fromkeys(of_target, _NO_TARGET),
        }

    def _unused_acl_keys(self) -> Mapping[str, str]:
        is_default = self.sync_topic_acls_interval_seconds == _ACLS_EVERY_S
        if self.sync_topic_acls_enabled or is_default:
            return {}
        why = "`sync.topic.acls.enabled` is false"
        return {"sync.topic.acls.interval.seconds": why}

    def _changed_keys_of_target(self) -> list[str]:
        """Return the keys about topics of the target that have another value than the default."""
        changed = (one.name for one in fields(self) if getattr(self, one.name) != one.default)
        names = [name.replace("_", ".") for name in changed]
        return [name for name in names if name.startswith(_OF_TARGET)]

    @property
    def consumer_keys(self) -> dict[str, str]:
        """Settings of the consumer, but for where it begins."""
        return _without_reset({**self.consumer, **self.source_consumer})

    @property
    def reset(self) -> str:
        """Where a partition begins that was never read."""
        return {**self.consumer, **self.source_consumer}.get(_RESET, "earliest")

    def names(self) -> NameFilter:
        """Return which topics are mirrored."""
        return NameFilter(self.topics, self.topics_exclude, "topics")

    def target_topics(self) -> TargetTopics | None:
        """Return what makes topics of the target fit; None where the target is not configured."""
        path = "config.properties.exclude"
        excluded = [Pattern.compile(one, path) for one in self.config_properties_exclude]
        target = self.target_admin_broker()
        if target is None:
            return None
        return TargetTopics(
            self.source_admin_broker(),
            target,
            self.replication_factor,
            self.sync_topic_configs_enabled,
            excluded,
        )

    def topic_acls(self) -> TopicAcls | None:
        """Return what gives users their rights in the target; None where nothing does."""
        target = self.target_admin_broker()
        if target is None or not self.sync_topic_acls_enabled:
            return None
        return TopicAcls(self.source_admin_broker(), target)

    def mirrored(self) -> dict[str, int]:
        """Return the number of partitions of each topic of the source that is mirrored."""
        broker, names, policy = self.source_admin_broker(), self.names(), self.policy
        known = broker.topics(broker.admin(), "topics of the source")
        target = self.target_cluster_alias
        return {
            topic: len(found.partitions)
            for topic, found in sorted(known.items())
            if policy.mirrors(topic, target, names)
        }


def _without_reset(keys: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in keys.items() if name != _RESET}


class MirrorSource(Source[MirrorSourceConfig]):
    """Messages of a cluster's topics.

    Partitions and offsets are those of MirrorMaker: an offset is that of the last message.
    """

    name = "mirror-source"
    aliases = (
        "MirrorSourceConnector",
        "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    )
    needs_commit = False
    monitor_every = 10.0

    @classmethod
    def check(cls, config: MirrorSourceConfig) -> None:
        """Ask both clusters for their topics."""
        config.mirrored()
        if (target := config.target_admin_broker()) is not None:
            target.topics(target.admin(), "topics of the target")

    @classmethod
    def plan(
        cls, config: MirrorSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return the partitions of the topics that are mirrored."""
        remote_name = config.policy.remote_name
        return [
            Partition(_key(config, topic, number), datasets=(remote_name(topic),))
            for topic, partitions in config.mirrored().items()
            for number in range(partitions)
        ]

    @classmethod
    def alter_offsets(
        cls, config: MirrorSourceConfig, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Refuse offsets that partitions do not have; times become offsets. Those of MirrorMaker
        are of the last message.
        """
        broker = Broker(config.source_login(), "consumer", config.consumer_keys)
        wanted = [_moved(one, 1) for one in partitions]
        found = resolve_offsets(broker, wanted)
        pairs = zip(partitions, found, strict=True)
        return [Partition(one.key, _moved(at, -1).offset) for one, at in pairs]

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Make the topics of the target fit, and read from the offsets of the partitions."""
        config = self.config
        topics = sorted({str(one.key["topic"]) for one in partitions})
        names = {topic: config.policy.remote_name(topic) for topic in topics}
        self._syncs = []
        if (target := config.target_topics()) is not None:
            every_s = config.sync_topic_configs_interval_seconds
            self._syncs.append(_Periodic(partial(target.ensure, names), every_s))
        if (rights := config.topic_acls()) is not None:
            every_s = config.sync_topic_acls_interval_seconds
            self._syncs.append(_Periodic(partial(rights.sync, names), every_s))
        self._sync_target()
        keys = config.consumer_keys
        reading = Reading(
            Broker(config.source_login(), "consumer", keys),
            _as_bytes,
            config.reset,
            int(keys.get("max.poll.records", _BATCH_ROWS)),
            positions=True,
        )
        naming = Naming(
            key=lambda topic, number: _key(config, topic, number),
            offset=lambda following: {"offset": following - 1},
            following=lambda offset: int(offset["offset"]) + 1,
            dataset=config.policy.remote_name,
            rows=_without_nameless_deletes,
        )
        self._reader = TopicReader(reading, partitions, naming)

    def _sync_target(self) -> None:
        for sync in self._syncs:
            sync.run_when_due()

    def read_batch(self) -> Batch | None:
        """Return the messages of one partition."""
        self._sync_target()
        return self._reader.read_batch()

    def wait(self, timeout: float) -> None:
        """Block until there are messages."""
        self._reader.wait(timeout)

    def close(self) -> None:
        """Leave the brokers."""
        if reader := getattr(self, "_reader", None):
            reader.close()


class _Periodic:
    """Something that is done at once, and again after some seconds; 0 or less: only once."""

    def __init__(self, action: Callable[[], None], every_s: int) -> None:
        self._action, self._every_s = action, every_s if every_s > 0 else float("inf")
        self._due_at = 0.0

    def run_when_due(self) -> None:
        now = time.monotonic()
        if now >= self._due_at:
            self._due_at = now + self._every_s
            self._action()


def _key(config: MirrorConfig, topic: str, number: int) -> dict[str, Any]:
    return {"cluster": config.source_cluster_alias, "topic": topic, "partition": number}


def _moved(partition: Partition, count: int) -> Partition:
    """Return a partition of the source with an offset that is some messages further."""
    key = {name: value for name, value in partition.key.items() if name != "cluster"}
    offset = partition.offset
    if offset is not None and type(offset.get("offset")) is int:
        offset = {**offset, "offset": offset["offset"] + count}
    return Partition(key, offset)


def _as_bytes() -> Converters:
    return Converters(create_converter(_BYTES, {}, is_key=True), create_converter(_BYTES, {}))


def _without_nameless_deletes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of which those without a key delete nothing: their messages have no value, and
    nothing more is known of them.
    """
    if OP not in rows.schema.names:
        return rows
    upsert = pa.scalar(int(Op.UPSERT), pa.int8())
    op = rows.column(OP)
    keys = rows.column(KEY) if KEY in rows.schema.names else pa.nulls(rows.num_rows)
    changed = pc.if_else(keys.is_null(), upsert, op)
    return rows.set_column(rows.schema.get_field_index(OP), OP, changed)
