"""Topics of the target: as many partitions as those of the source, and the same settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from penstock_connector import Pattern
from penstock_kafka.broker import REQUEST_TIMEOUT_S, Broker

EXCLUDED: Final = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
    r"exclude\.internal\.topics",
    r"uncleanable\.partitions",
)
"""Settings that are those of a cluster, and not of what is in a topic
(`DefaultConfigPropertyFilter` of MirrorMaker 2).
"""


@dataclass(frozen=True, slots=True)
class TargetTopics:
    """Makes topics of the target fit those of the source.

    Attributes:
        source: Where topics are mirrored from.
        target: Where they are mirrored to.
        replication_factor: Copies of a new topic; -1: as the brokers say.
        sync_configs: Whether settings are those of the source.
        excluded: Names of settings that never are.
    """

    source: Broker
    target: Broker
    replication_factor: int
    sync_configs: bool
    excluded: Sequence[Pattern]

    def ensure(self, names: Mapping[str, str]) -> None:
        """Create topics, and add partitions and settings that they lack.

        Args:
            names: Names in the target by names in the source.
        """
        admins = AdminClient(self.source.settings()), AdminClient(self.target.settings())
        of_source = self.source.topics(admins[0], "topics of the source")
        of_target = self.target.topics(admins[1], "topics of the target")
        for name, remote in names.items():
            if name not in of_source:
                continue
            wanted, topic = len(of_source[name].partitions), of_target.get(remote)
            settings = self._settings(admins[0], name) if self.sync_configs else {}
            with self.target.errors(f"topic {remote} of the target", admins[1]):
                if topic is None:
                    self._create(admins[1], remote, wanted, settings)
                    continue
                if len(topic.partitions) < wanted:
                    self._grow(admins[1], remote, wanted)
                if settings:
                    self._configure(admins[1], remote, settings)

    def _settings(self, admin: AdminClient, topic: str) -> dict[str, str]:
        """Return the settings of a topic that somebody has set."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        with self.source.errors(f"settings of topic {topic}", admin):
            found = _result(admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S))
        return {
            entry.name: entry.value
            for entry in found.values()
            if not (entry.is_default or entry.is_sensitive or entry.is_read_only)
            and entry.source == _OF_TOPIC
            and entry.value is not None
            and not any(pattern.matches(entry.name) for pattern in self.excluded)
        }

    def _create(
        self, admin: AdminClient, topic: str, partitions: int, settings: Mapping[str, str]
    ) -> None:
        new = NewTopic(topic, partitions, self.replication_factor, config=dict(settings))
        _done(admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S), _EXISTS)

    @staticmethod
    def _grow(admin: AdminClient, topic: str, partitions: int) -> None:
        asked = [NewPartitions(topic, partitions)]
        _done(admin.create_partitions(asked, request_timeout=REQUEST_TIMEOUT_S), _HAS_THEM)

    @staticmethod
    def _configure(admin: AdminClient, topic: str, settings: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        asked = admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        _done(asked, None)


_OF_TOPIC: Final = 1  # ConfigSource.DYNAMIC_TOPIC_CONFIG
_EXISTS: Final = KafkaError.TOPIC_ALREADY_EXISTS
_HAS_THEM: Final = KafkaError.INVALID_PARTITIONS
"""What another task was faster with."""


def _result(futures: Mapping[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(REQUEST_TIMEOUT_S)


def _done(futures: Mapping[Any, Any], tolerated: int | None) -> None:
    try:
        _result(futures)
    except KafkaException as failure:
        if failure.args[0].code() != tolerated:
            raise
