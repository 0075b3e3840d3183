"""How topics are created: Kafka Connect's keys `topic.creation.…` (KIP-158). Pure.

topic.creation.default.partitions=6
topic.creation.groups=compacted
topic.creation.compacted.include=state-.*
topic.creation.compacted.cleanup.policy=compact
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock_values.pattern import TimedPattern

PREFIX: Final = "topic.creation."
GROUPS: Final = "groups"
DEFAULT: Final = "default"
NOT_SAID: Final = -1

_MAX_GROUPS: Final = 100


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic is created with. Numbers of -1 are chosen where it is created."""

    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Group:
    """Topics whose names match, and what they are created with."""

    include: Sequence[TimedPattern]
    exclude: Sequence[TimedPattern]
    settings: TopicSettings

    def has(self, topic: str) -> bool:
        """Return whether a topic belongs to it."""
        included = any(one.matches(topic) for one in self.include)
        return included and not any(one.matches(topic) for one in self.exclude)


class TopicCreation:
    """The groups of a configuration, and the default for topics of none.

    Args:
        keys: What follows `topic.creation.`.
        pattern: Compiles regular expressions, and has the class of errors of the caller.

    Raises:
        ConfigError: `config.invalid_value`, `config.missing`, `config.unknown_key`,
            `config.bad_pattern`, with the whole key.
    """

    def __init__(self, keys: Mapping[str, str], pattern: type[TimedPattern]) -> None:
        self._pattern = pattern
        names = [name.strip() for name in keys.get(GROUPS, "").split(",") if name.strip()]
        if len(set(names)) < len(names) or DEFAULT in names or len(names) > _MAX_GROUPS:
            expected = f"different names, at most {_MAX_GROUPS}, and not `{DEFAULT}`"
            raise self._invalid(GROUPS, keys[GROUPS], expected)
        starts = tuple(f"{name}." for name in (DEFAULT, *names))
        for key in keys:
            if key != GROUPS and not key.startswith(starts):
                raise pattern.config_error(
                    "config.unknown_key",
                    f"`{PREFIX}{key}` belongs to a group that `{PREFIX}{GROUPS}` does not list",
                    fix=f"Add `{key.partition('.')[0]}` to `{PREFIX}{GROUPS}`.",
                    config_path=f"{PREFIX}{key}",
                )
        # the longest first: a name may have dots
        self._starts = sorted(starts, key=len, reverse=True)
        nothing = TopicSettings(NOT_SAID, NOT_SAID, {})
        self._default = self._settings(DEFAULT, keys, nothing)
        self._groups = [self._group(name, keys) for name in names]

    def settings(self, topic: str) -> TopicSettings:
        """Return what a topic is created with: of the first group that it belongs to."""
        for group in self._groups:
            if group.has(topic):
                return group.settings
        return self._default

    def setting_of(self, key: str) -> str:
        """Return the name of a key in its group: `cleanup.policy`; empty for `groups`."""
        return key.removeprefix(self._start(key))

    def _start(self, key: str) -> str:
        """Return the group of a key, with its dot."""
        return next((start for start in self._starts if key.startswith(start)), key)

    def _group(self, name: str, keys: Mapping[str, str]) -> _Group:
        include = self._patterns(f"{name}.include", keys)
        if not include:
            raise self._pattern.config_error(
                "config.missing",
                f"the group {name!r} of `{PREFIX}{GROUPS}` names no topics",
                fix=f"Set `{PREFIX}{name}.include` to regular expressions.",
                config_path=f"{PREFIX}{name}.include",
            )
        exclude = self._patterns(f"{name}.exclude", keys)
        return _Group(include, exclude, self._settings(name, keys, self._default))

    def _patterns(self, key: str, keys: Mapping[str, str]) -> list[TimedPattern]:
        texts = [text.strip() for text in keys.get(key, "").split(",") if text.strip()]
        return [self._pattern.parse(text, f"{PREFIX}{key}") for text in texts]

    def _settings(
        self, name: str, keys: Mapping[str, str], default: TopicSettings
    ) -> TopicSettings:
        start = f"{name}."
        own = {
            self.setting_of(key): value for key, value in keys.items() if self._start(key) == start
        }
        for key in ("include", "exclude"):
            if own.pop(key, None) is not None and name == DEFAULT:
                path = f"{start}{key}"
                raise self._invalid(path, keys[path], "the keys of a group for that")
        partitions, factor = own.pop("partitions", ""), own.pop("replication.factor", "")
        return TopicSettings(
            self._number(f"{start}partitions", partitions, default.partitions),
            self._number(f"{start}replication.factor", factor, default.replication_factor),
            own,
        )

    def _number(self, key: str, text: str, default: int) -> int:
        if not text:
            return default
        try:
            number = int(text)
        except ValueError:
            number = 0
        if number < 1 and number != NOT_SAID:
            raise self._invalid(key, text, "a number above 0, or -1 for what the brokers say")
        return number

    def _invalid(self, key: str, text: str, expected: str) -> Exception:
        return self._pattern.config_error(
            "config.invalid_value",
            f"`{PREFIX}{key}` is {text[:200]!r}",
            fix=f"Use {expected}.",
            config_path=f"{PREFIX}{key}",
        )
