"""Topics of the target: as many partitions as those of the source, and the same settings."""

from __future__ import annotations

import logging
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

log = logging.getLogger(__name__)

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
        replication_factor: Copies of a new topic; -1: the default of the brokers.
        sync_configs: Whether settings are those of the source.
        excluded: Names of settings that never are.
    """

    source: Broker
    target: Broker
    replication_factor: int
    sync_configs: bool
    excluded: Sequence[Pattern]

    def ensure(self, names: Mapping[str, str]) -> None:
        """Create topics, and add partitions and settings that they lack. Settings that the target
        refuses are logged, and stop nothing.

        Args:
            names: Names in the target by names in the source.
        """
        admins = self.source.admin(), self.target.admin()
        of_source = self.source.topics(admins[0], "topics of the source")
        of_target = self.target.topics(admins[1], "topics of the target")
        known = {name: remote for name, remote in names.items() if name in of_source}
        settings: Mapping[str, Mapping[str, str]] = {}
        if self.sync_configs and known:
            settings = self._settings(self.source, admins[0], list(known))
        for name, remote in known.items():
            wanted, topic = len(of_source[name].partitions), of_target.get(remote)
            with self.target.errors(f"topic {remote} of the target", admins[1]):
                if topic is None:
                    self._create(admins[1], remote, wanted, settings.get(name, {}))
                elif len(topic.partitions) < wanted:
                    self._grow(admins[1], remote, wanted)
        there = {name: remote for name, remote in known.items() if remote in of_target}
        if self.sync_configs and there:
            self._configure(admins[1], there, settings)

    def _settings(
        self, broker: Broker, admin: AdminClient, topics: Sequence[str]
    ) -> dict[str, dict[str, str]]:
        """Return the settings of topics that somebody has set."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        found: dict[str, dict[str, str]] = {}
        with broker.errors("settings of topics", admin):
            asked = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
            for resource, answer in asked.items():
                found[resource.name] = {
                    entry.name: entry.value
                    for entry in answer.result(REQUEST_TIMEOUT_S).values()
                    if entry.source == _OF_TOPIC
                    and not (entry.is_sensitive or entry.is_read_only)
                    and entry.value is not None
                    and not any(pattern.matches(entry.name) for pattern in self.excluded)
                }
        return found

    def _configure(
        self,
        admin: AdminClient,
        names: Mapping[str, str],
        settings: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Give topics of the target the settings that they have not got yet."""
        current = self._settings(self.target, admin, list(names.values()))
        resources = [
            ConfigResource(
                ResourceType.TOPIC,
                remote,
                incremental_configs=[
                    ConfigEntry(one, value, incremental_operation=AlterConfigOpType.SET)
                    for one, value in settings.get(name, {}).items()
                    if current.get(remote, {}).get(one) != value
                ],
            )
            for name, remote in names.items()
        ]
        changed = [one for one in resources if one.incremental_configs]
        if not changed:
            return
        asked = admin.incremental_alter_configs(changed, request_timeout=REQUEST_TIMEOUT_S)
        for resource, answer in asked.items():
            try:
                answer.result(REQUEST_TIMEOUT_S)
            except KafkaException as failure:
                log.warning("settings of topic %s of the target: %s", resource.name, failure)

    def _create(
        self, admin: AdminClient, topic: str, partitions: int, settings: Mapping[str, str]
    ) -> None:
        new = NewTopic(topic, partitions, self.replication_factor, config=dict(settings))
        _done(admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S), _EXISTS)

    @staticmethod
    def _grow(admin: AdminClient, topic: str, partitions: int) -> None:
        asked = [NewPartitions(topic, partitions)]
        _done(admin.create_partitions(asked, request_timeout=REQUEST_TIMEOUT_S), _HAS_THEM)


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
