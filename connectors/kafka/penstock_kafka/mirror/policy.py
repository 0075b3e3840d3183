"""Names of mirrored topics, and which topics and groups are mirrored (`ReplicationPolicy`,
`DefaultTopicFilter` and `DefaultGroupFilter` of MirrorMaker 2). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock_connector import Pattern

HEARTBEATS: Final = "heartbeats"
_OURS: Final = frozenset({"penstock-offsets"})
"""Topics of a cluster that mean nothing elsewhere (`offsets.storage.topic` of `kafka-sink`)."""


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """How topics are named in the cluster that they are mirrored to.

    Attributes:
        separator: Between the alias of a cluster and the name of its topic.
        is_identity: Topics keep their names. So a cycle of mirrors cannot be seen.
        source: Alias of the cluster that they are mirrored from.
    """

    separator: str
    is_identity: bool
    source: str

    def remote_name(self, topic: str) -> str:
        """Return the name of a topic of the source in the target."""
        if self.is_identity and not self._is_heartbeats(topic):
            return topic
        return f"{self.source}{self.separator}{topic}"

    def source_of(self, topic: str) -> str:
        """Return the alias of the cluster that a topic was mirrored from; empty where its name says
        none.
        """
        alias, found, _ = topic.partition(self.separator)
        return alias if found else ""

    def upstream_name(self, topic: str) -> str:
        """Return the name that a mirrored topic has in the cluster that it came from."""
        _, found, rest = topic.partition(self.separator)
        return rest if found else ""

    def is_cycle(self, topic: str, target: str) -> bool:
        """Return whether a topic came from the target, maybe by way of others."""
        if self.is_identity and not self._is_heartbeats(topic):
            return False
        while topic:
            if self.source_of(topic) == target:
                return True
            topic = self.upstream_name(topic)
        return False

    def is_internal(self, topic: str) -> bool:
        """Return whether a topic is one of Kafka, Kafka Connect or a mirror itself."""
        ends = (".internal", "-internal", f"{self.separator}internal")
        return topic.startswith(("__", ".")) or topic.endswith(ends) or topic in _OURS

    def _is_heartbeats(self, topic: str) -> bool:
        return topic == HEARTBEATS or topic.endswith(f"{self.separator}{HEARTBEATS}")

    def mirrors(self, topic: str, target: str, names: NameFilter) -> bool:
        """Return whether a topic is mirrored. Heartbeats always are, as far as they make no
        cycle.
        """
        wanted = names.takes(topic) or self._is_heartbeats(topic)
        return wanted and not self.is_internal(topic) and not self.is_cycle(topic, target)


class NameFilter:
    """Names that match a pattern of one list, and none of another.

    Args:
        include: Regular expressions for whole names.
        exclude: As `include`, for names that are left out.
        path: Key with `include`; that with `exclude` is `<path>.exclude`.

    Raises:
        ConfigError: `config.invalid_value`: an expression is none.
    """

    def __init__(self, include: Sequence[str], exclude: Sequence[str], path: str) -> None:
        self._include = [Pattern.compile(one, path) for one in include]
        self._exclude = [Pattern.compile(one, f"{path}.exclude") for one in exclude]

    def takes(self, name: str) -> bool:
        """Return whether a name is one of them."""
        included = any(one.matches(name) for one in self._include)
        return included and not any(one.matches(name) for one in self._exclude)
