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

from penstock_connector import ConfigError, Pattern

_PREFIX: Final = "topic.creation."
_GROUPS: Final = "groups"
_DEFAULT: Final = "default"
_AS_BROKERS_SAY: Final = -1
_MAX_GROUPS: Final = 100


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic is created with. Numbers of -1 are those of the brokers."""

    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Group:
    """Topics whose names match, and what they are created with."""

    include: Sequence[Pattern]
    exclude: Sequence[Pattern]
    settings: TopicSettings

    def has(self, topic: str) -> bool:
        """Return whether a topic belongs to it."""
        included = any(one.matches(topic) for one in self.include)
        return included and not any(one.matches(topic) for one in self.exclude)


class TopicCreation:
    """The groups of a configuration, and the default for topics of none.

    Args:
        keys: What follows `topic.creation.`.

    Raises:
        ConfigError: `config.invalid_value`, `config.missing`, `config.unknown_key`, with the whole
            key.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        names = [name.strip() for name in keys.get(_GROUPS, "").split(",") if name.strip()]
        if len(set(names)) < len(names) or _DEFAULT in names or len(names) > _MAX_GROUPS:
            expected = f"different names, at most {_MAX_GROUPS}, and not `{_DEFAULT}`"
            raise _invalid(_GROUPS, keys[_GROUPS], expected)
        starts = tuple(f"{name}." for name in (_DEFAULT, *names))
        for key in keys:
            if key != _GROUPS and not key.startswith(starts):
                raise ConfigError(
                    "config.unknown_key",
                    f"`{_PREFIX}{key}` belongs to a group that `{_PREFIX}{_GROUPS}` does not list",
                    fix=f"Add `{key.partition('.')[0]}` to `{_PREFIX}{_GROUPS}`.",
                    config_path=f"{_PREFIX}{key}",
                )
        nothing = TopicSettings(_AS_BROKERS_SAY, _AS_BROKERS_SAY, {})
        self._default = _settings(_DEFAULT, keys, nothing)
        self._groups = [_group(name, keys, self._default) for name in names]

    def settings(self, topic: str) -> TopicSettings:
        """Return what a topic is created with: of the first group that it belongs to."""
        for group in self._groups:
            if group.has(topic):
                return group.settings
        return self._default


def _group(name: str, keys: Mapping[str, str], default: TopicSettings) -> _Group:
    include = _patterns(f"{name}.include", keys)
    if not include:
        raise ConfigError(
            "config.missing",
            f"the group {name!r} of `{_PREFIX}{_GROUPS}` names no topics",
            fix=f"Set `{_PREFIX}{name}.include` to regular expressions.",
            config_path=f"{_PREFIX}{name}.include",
        )
    return _Group(include, _patterns(f"{name}.exclude", keys), _settings(name, keys, default))


def _patterns(key: str, keys: Mapping[str, str]) -> list[Pattern]:
    texts = [text.strip() for text in keys.get(key, "").split(",") if text.strip()]
    return [Pattern.compile(text, f"{_PREFIX}{key}") for text in texts]


def _settings(name: str, keys: Mapping[str, str], default: TopicSettings) -> TopicSettings:
    start = f"{name}."
    own = {key.removeprefix(start): value for key, value in keys.items() if key.startswith(start)}
    for key in ("include", "exclude"):
        if own.pop(key, None) is not None and name == _DEFAULT:
            raise _invalid(f"{start}{key}", keys[f"{start}{key}"], "the keys of a group for that")
    return TopicSettings(
        _number(f"{start}partitions", own.pop("partitions", ""), default.partitions),
        _number(
            f"{start}replication.factor",
            own.pop("replication.factor", ""),
            default.replication_factor,
        ),
        own,
    )


def _number(key: str, text: str, default: int) -> int:
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1 and number != _AS_BROKERS_SAY:
        raise _invalid(key, text, "a number above 0, or -1 for what the brokers say")
    return number


def _invalid(key: str, text: str, expected: str) -> ConfigError:
    return ConfigError(
        "config.invalid_value",
        f"`{_PREFIX}{key}` is {text[:200]!r}",
        fix=f"Use {expected}.",
        config_path=f"{_PREFIX}{key}",
    )
