"""Kafka Connect's flat keys of a chain, by member: `transforms=a,b`, `transforms.a.type=…`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Member:
    """A named transform or predicate as it was written; `path` is where."""

    name: str
    path: str
    config: Mapping[str, str]


def members(config: Mapping[str, str], section: str) -> tuple[Member, ...]:
    """Return the members that a section lists, in order, each with its own keys.

    Keys of members that are not listed are passed over, as in Kafka Connect: that is how a
    transform is switched off.

    Raises:
        ConfigError: a name is listed twice, or there are members and no list.
    """
    names = [name.strip() for name in config.get(section, "").split(",") if name.strip()]
    prefix = f"{section}."
    if section not in config and any(key.startswith(prefix) for key in config):
        raise ConfigError(
            "config.missing",
            f"there are keys of {section}, but `{section}` lists none",
            fix=f"Set `{section}` to their names, in order, separated by commas.",
            config_path=section,
        )
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            "transform.duplicate_member",
            f"`{twice}` is listed twice in `{section}`",
            fix="Give each its own name.",
            config_path=section,
        )
    own: dict[str, dict[str, str]] = {name: {} for name in names}
    for key, value in config.items():
        rest = key.removeprefix(prefix)
        owners = [name for name in names if rest.startswith(f"{name}.")]
        if rest != key and owners:
            owner = max(owners, key=len)  # of `a` and `a.b`, `a.b.type` is the longer one's
            own[owner][rest[len(owner) + 1 :]] = value
    return tuple(Member(name, prefix + name, own[name]) for name in names)
