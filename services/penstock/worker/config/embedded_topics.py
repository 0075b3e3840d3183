"""How a source makes embedded topics: the keys `topic.partitions`, `topic.retention`, and
`topic.creation.…` of Kafka Connect (KIP-158). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.connector_config.sections import ConfigSections
from penstock.connector_config.settings import ConnectorSettings
from penstock.model.config_def import no_effect_warning
from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.pattern import Pattern
from penstock.model.topic import NewTopic, Retention
from penstock_values.topic_creation import (
    NOT_SAID,
    PREFIX,
    TopicCreation,
    TopicSettings,
)

KINDS: Final = frozenset({ConnectorKind.SOURCE, ConnectorKind.MIRROR})
"""Connectors that make topics."""

_TIME: Final = "retention.ms"
_SIZE: Final = "retention.bytes"
_POLICY: Final = "cleanup.policy"
_REPLICAS: Final = "replication.factor"
_ENABLE: Final = "enable"
_MAX_LIMIT: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class EmbeddedTopicRules:
    """What a connector does with topics.

    Attributes:
        partitions: Partitions of a new topic, where `creation` has none.
        least: A topic with fewer partitions gets as many, where `creation` has none.
        retention: Retention of new topics and of those that exist; None leaves it.
        creation: What else new topics have.
    """

    partitions: int = 1
    least: int = 1
    retention: Retention | None = None
    creation: TopicCreation = field(default_factory=lambda: TopicCreation({}, Pattern))

    def new_topic(self, topic: str) -> NewTopic:
        """Return what a topic is created with, where `retention` is None."""
        found = self.creation.settings(topic)
        partitions = self.partitions if found.partitions == NOT_SAID else found.partitions
        return NewTopic(partitions, _retention(found))

    def least_partitions(self, topic: str) -> int:
        """Return how many partitions a topic has at least, also one that exists."""
        return self.least if self.creation.settings(topic).partitions == NOT_SAID else 1


NO_TOPIC_RULES: Final = EmbeddedTopicRules()
"""Those of a connector without keys."""


def read_topic_rules(
    sections: ConfigSections, settings: ConnectorSettings, config: Mapping[str, str]
) -> tuple[EmbeddedTopicRules, list[Diagnostic]]:
    """Return the rules of a connector of `KINDS`, and errors and warnings about its keys."""
    wanted = settings.topic_partitions
    rules = EmbeddedTopicRules(
        wanted,
        wanted if "topic.partitions" in sections.framework else 1,
        settings.topic_retention,
    )
    keys = {k.removeprefix(PREFIX): v for k, v in config.items() if k.startswith(PREFIX)}
    enable = keys.pop(_ENABLE, None)
    try:
        creation = TopicCreation(keys, Pattern)
        for key, value in keys.items():
            if creation.setting_of(key) in {_TIME, _SIZE}:
                _limit(value, PREFIX + key)
    except ConfigError as error:
        return rules, [error.diagnostic]
    findings = list(_without_effect(keys, creation, settings))
    if enable is not None:
        why = "embedded topics are always created where they are missing"
        findings.append(no_effect_warning(PREFIX + _ENABLE, why))
    return replace(rules, creation=creation), findings


def without_creation_keys(sections: ConfigSections) -> ConfigSections:
    """Return the sections of a connector whose keys `topic.creation.…` have an effect."""
    unused = tuple(key for key in sections.unused_keys if not key.startswith(PREFIX))
    return replace(sections, unused_keys=unused)


def _retention(settings: TopicSettings) -> Retention | None:
    if not settings.config.keys() & {_TIME, _SIZE}:
        return None
    limits = [_limit(settings.config.get(name, ""), name) for name in (_TIME, _SIZE)]
    return Retention(limits[0] / 1000, limits[1])


def _limit(text: str, key: str) -> int:
    """Return a limit; 0 where there is none, which Kafka writes as -1."""
    try:
        number = int(text or NOT_SAID)
    except ValueError:
        number = 0
    if not 0 < number <= _MAX_LIMIT and number != NOT_SAID:
        raise ConfigError(
            "config.invalid_value",
            f"`{key}` is {text[:200]!r}",
            fix=f"Use a number from 1 to {_MAX_LIMIT}, or -1 for no limit.",
            config_path=key,
        )
    return max(number, 0)


def _without_effect(
    keys: Mapping[str, str], creation: TopicCreation, settings: ConnectorSettings
) -> Iterator[Diagnostic]:
    for key, value in sorted(keys.items()):
        name = creation.setting_of(key)
        if name in {"", "include", "exclude", "partitions"}:
            continue
        if name in {_TIME, _SIZE}:
            if settings.topic_retention is not None:
                yield no_effect_warning(PREFIX + key, "`topic.retention` is set", "")
        elif name == _REPLICAS:
            why = "embedded topics are replicated by their storage"
            yield no_effect_warning(PREFIX + key, why)
        elif name != _POLICY or value.strip() != "delete":
            why = "embedded topics keep every row until its retention is over"
            yield no_effect_warning(PREFIX + key, why, f"Use `{_TIME}` and `{_SIZE}`.")
