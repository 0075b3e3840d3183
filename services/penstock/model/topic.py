"""Topics, as a connector names and bounds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.model.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows are kept: `seconds` after their commit, and `bytes` of a topic's partition. 0
    means no limit.
    """

    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What a topic is created with. `retention` None: that of the node."""

    partitions: int
    retention: Retention | None = None


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The topics of a sink: by name, and those whose whole name matches a pattern."""

    names: tuple[str, ...] = ()
    pattern: Pattern | None = None

    def __bool__(self) -> bool:
        return bool(self.names) or self.pattern is not None

    def select(self, existing: Iterable[str]) -> list[str]:
        """Return the named topics, then the existing ones that match, in order of name.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        found = self.pattern.filter(existing) if self.pattern else ()
        return [*self.names, *sorted(set(found).difference(self.names))]
