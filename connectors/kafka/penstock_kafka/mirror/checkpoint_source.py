"""Offsets of consumer groups in the target, so that consumers can move there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from penstock_connector import Batch, ConfigError, Partition, Source, key
from penstock_connector.messages import KEY, VALUE
from penstock_kafka.broker import REQUEST_TIMEOUT_S, Broker, to_connector_error
from penstock_kafka.mirror.config import MirrorConfig
from penstock_kafka.mirror.keys_without_effect import AclKeysWithoutEffect
from penstock_kafka.mirror.offset_syncs import OffsetSyncStore
from penstock_kafka.mirror.policy import NameFilter
from penstock_kafka.mirror.records import ROWS, Checkpoint, OffsetSync

_PIECE: Final = 1_000
_QUIET_S: Final = 0.2
"""Time without a new offset sync after which the topic counts as read."""


@dataclass(frozen=True)
class CheckpointConfig(AclKeysWithoutEffect, MirrorConfig):
    """Which groups, and how often."""

    groups: tuple[str, ...] = key(
        (".*",),
        doc="Consumer groups: names or regular expressions, separated by commas.",
        group="Groups",
    )
    groups_exclude: tuple[str, ...] = key(
        ("console-consumer-.*", "connect-.*", "__.*"),
        doc="Groups that are left out, as `groups`.",
        group="Groups",
    )
    emit_checkpoints_enabled: bool = key(True, doc="Whether there are any.", group="Groups")
    emit_checkpoints_interval_seconds: float = key(
        60.0, doc="Seconds between two; 0 or less: there are none.", group="Groups"
    )
    sync_group_offsets_enabled: bool = key(
        False,
        doc="Whether groups of the target that have no members get the translated offsets.",
        group="Groups",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        self.names()
        if self.target_login() is None:
            raise ConfigError(
                "config.missing",
                "`target.cluster.bootstrap.servers` has no value and needs one: offset syncs are "
                "there",
                fix="Name brokers of the cluster that has the mirror, as host:port.",
                config_path="target.cluster.bootstrap.servers",
            )

    def names(self) -> NameFilter:
        """Return which groups have checkpoints."""
        return NameFilter(self.groups, self.groups_exclude, "groups")


class CheckpointSource(Source[CheckpointConfig]):
    """Checkpoints of consumer groups."""

    name = "mirror-checkpoint-source"
    replayable = False
    aliases = (
        "MirrorCheckpointConnector",
        "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
    )

    @classmethod
    def check(cls, config: CheckpointConfig) -> None:
        """Ask both clusters who they are."""
        for broker in (config.source_admin_broker(), _target(config)):
            broker.topics(broker.admin(), "topics")

    @classmethod
    def plan(
        cls, config: CheckpointConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return the only partition."""
        dataset = config.checkpoints_topic
        key = {"cluster": config.source_cluster_alias}
        is_on = config.emit_checkpoints_enabled and config.emit_checkpoints_interval_seconds > 0
        return [Partition(key, datasets=(dataset,))] if is_on else []

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Begin to read offset syncs."""
        config = self.config
        self._names, self._policy = config.names(), config.policy
        self._source, self._target = config.source_admin_broker(), _target(config)
        self._source_admin = self._source.admin()
        self._target_admin = self._target.admin()
        self._syncs, self._told = OffsetSyncStore(), set[Checkpoint]()
        self._next = time.monotonic()
        settings = self._target.for_offsets().settings(
            group_id="penstock-mirror",  # required, and not used: nothing is committed
            enable_auto_commit=False,
            enable_partition_eof=True,
            isolation_level="read_committed",
        )
        self._consumer = self._target.open(Consumer, settings)
        self._assigned = False

    def read_batch(self) -> Batch | None:
        """Return the checkpoints that have changed, when it is time for them."""
        if time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + self.config.emit_checkpoints_interval_seconds
        self._read_syncs()
        current = set(self._checkpoints())
        if self.config.sync_group_offsets_enabled:
            self._move_groups(current)
        changed, self._told = sorted(current - self._told), current
        if not changed:
            return None
        rows = [dict(zip((KEY, VALUE), one.encode(), strict=True)) for one in changed]
        return Batch(
            pa.RecordBatch.from_pylist(rows, ROWS),
            offset={"at": time.time_ns() // 1_000_000},
            dataset=self.config.checkpoints_topic,
        )

    def wait(self, timeout: float) -> None:
        """Block until it is time."""
        self.stopping.wait(min(timeout, max(self._next - time.monotonic(), 0)))

    def _read_syncs(self) -> None:
        """Read what is new in the topic of offset syncs. Before the first one it does not exist."""
        topic = self.config.syncs_topic
        if not self._assigned:
            found = self._target.topics(self._target_admin, f"topic {topic}").get(topic)
            if found is None:
                return
            self._consumer.assign(
                [TopicPartition(topic, number, OFFSET_BEGINNING) for number in found.partitions]
            )
            self._assigned, self._unread = True, set(found.partitions)
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        with self._target.errors(f"reading {topic}"):
            while True:
                messages = self._consumer.consume(_PIECE, timeout=_QUIET_S)
                self._take(messages)
                is_read = not messages and not self._unread
                if is_read or time.monotonic() > deadline:
                    return

    def _take(self, messages: Sequence[Any]) -> None:
        for message in messages:
            if (error := message.error()) is None:
                sync = OffsetSync.decode(message.key(), message.value())
                if sync is not None:
                    self._syncs.add(sync)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._unread.discard(message.partition())
            else:
                raise to_connector_error(error, f"reading {self.config.syncs_topic}")

    def _checkpoints(self) -> Iterator[Checkpoint]:
        with self._source.errors("consumer groups", self._source_admin):
            names = self._source.ask("consumer groups", self._list_groups)
            for group in sorted(filter(self._names.takes, names)):
                for place in _committed(self._source, group, self._syncs.places()):
                    found = self._syncs.translate(place.topic, place.partition, place.offset)
                    if found is not None:
                        remote = self._policy.remote_name(place.topic)
                        yield Checkpoint(group, remote, place.partition, place.offset, found)

    def _list_groups(self) -> list[str]:
        listed = self._source_admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S)
        found = listed.result(REQUEST_TIMEOUT_S)
        if found.errors:
            raise found.errors[0]
        return [one.group_id for one in found.valid]

    def _move_groups(self, checkpoints: set[Checkpoint]) -> None:
        """Give groups of the target without members the translated offsets, as far as these are
        ahead of their own.
        """
        by_group: dict[str, list[Checkpoint]] = {}
        for one in checkpoints:
            by_group.setdefault(one.group, []).append(one)
        with self._target.errors("consumer groups of the target", self._target_admin):
            for group, wanted in by_group.items():
                if self._has_members(group):
                    continue
                places = [TopicPartition(one.topic, one.partition) for one in wanted]
                own = {
                    (one.topic, one.partition): one.offset
                    for one in _committed(self._target, group, places)
                }
                ahead = _ahead(wanted, own)
                if ahead:
                    self._alter(group, ahead)

    def _has_members(self, group: str) -> bool:
        asked = self._target_admin.describe_consumer_groups(
            [group], request_timeout=REQUEST_TIMEOUT_S
        )
        try:
            state = asked[group].result(REQUEST_TIMEOUT_S).state
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise
            return False
        return state not in {ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}

    def _alter(self, group: str, places: list[TopicPartition]) -> None:
        asked = [ConsumerGroupTopicPartitions(group, places)]
        answers = self._target_admin.alter_consumer_group_offsets(
            asked, request_timeout=REQUEST_TIMEOUT_S
        )
        for place in answers[group].result(REQUEST_TIMEOUT_S).topic_partitions:
            if place.error is not None and place.error.code() not in _TAKEN:
                raise KafkaException(place.error)

    def close(self) -> None:
        """Leave the brokers."""
        if consumer := getattr(self, "_consumer", None):
            consumer.close()


_TAKEN: Final = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP})
"""A group that got members a moment ago keeps its own offsets."""


def _committed(
    broker: Broker, group: str, places: Sequence[TopicPartition]
) -> list[TopicPartition]:
    """Return the offsets that a group has. The client's call for groups of others ends the process
    while a coordinator is just beginning; so a consumer of the group is asked, which never joins.
    """
    if not places:
        return []
    consumer = broker.open(Consumer, broker.settings(group_id=group, enable_auto_commit=False))

    def ask() -> list[TopicPartition]:
        found: list[TopicPartition] = consumer.committed(list(places), timeout=REQUEST_TIMEOUT_S)
        for one in found:
            if one.error is not None:
                raise KafkaException(one.error)
        return found

    try:
        found = broker.ask(f"offsets of group {group}", ask)
    finally:
        consumer.close()
    return [one for one in found if one.offset >= 0]


def _ahead(
    wanted: Sequence[Checkpoint], own: Mapping[tuple[str, int], int]
) -> list[TopicPartition]:
    return [
        TopicPartition(one.topic, one.partition, one.downstream)
        for one in wanted
        if one.downstream > own.get((one.topic, one.partition), -1)
    ]


def _target(config: MirrorConfig) -> Broker:
    broker = config.target_admin_broker()
    assert broker is not None  # noqa: S101 - the configuration requires it
    return broker
