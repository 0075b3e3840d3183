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
    DEFAULT,
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


@dataclass(frozen=True, slots=True)
class EmbeddedTopicRules:
    """What a connector does with topics.

    Attributes:
        partitions: Partitions of a new topic, where `creation` says nothing.
        least_partitions: A topic with fewer ones gets as many.
        retention: Retention of new topics and of those that exist; None leaves it.
        creation: What else new topics have.
    """

    partitions: int = 1
    least_partitions: int = 1
    retention: Retention | None = None
    creation: TopicCreation = field(default_factory=lambda: TopicCreation({}, Pattern))

    def new_topic(self, topic: str) -> NewTopic:
        """Return what a topic is created with, where `retention` is None."""
        found = self.creation.settings(topic)
        partitions = self.partitions if found.partitions == NOT_SAID else found.partitions
        return NewTopic(partitions, _retention(found))


NO_TOPIC_RULES: Final = EmbeddedTopicRules()
"""Those of a connector that says nothing."""


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
    try:
        creation = TopicCreation(keys, Pattern)
        for one in creation.all_settings():
            _retention(one)
    except ConfigError as error:
        return rules, [error.diagnostic]
    return replace(rules, creation=creation), list(_without_effect(keys, creation, settings))


def without_creation_keys(sections: ConfigSections) -> ConfigSections:
    """Return the sections of a connector whose keys `topic.creation.…` have an effect."""
    unused = tuple(key for key in sections.unused_keys if not key.startswith(PREFIX))
    return replace(sections, unused_keys=unused)


def _retention(settings: TopicSettings) -> Retention | None:
    if not settings.config.keys() & {_TIME, _SIZE}:
        return None
    limits = [_limit(name, settings.config.get(name, "")) for name in (_TIME, _SIZE)]
    return Retention(limits[0] / 1000, limits[1])


def _limit(name: str, text: str) -> int:
    """Return a limit; 0 where there is none, which Kafka writes as -1."""
    try:
        number = int(text or NOT_SAID)
    except ValueError:
        number = 0
    if number < 1 and number != NOT_SAID:
        raise ConfigError(
            "config.invalid_value",
            f"`{name}` of `{PREFIX}…` is {text[:200]!r}",
            fix="Use a number above 0, or -1 for no limit.",
            config_path=f"{PREFIX}{DEFAULT}.{name}",
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
