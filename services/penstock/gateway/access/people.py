"""Who there is, and what each may do with which connectors.

users:
  ada:
    password: scrypt$16384$8$1$…        # `penstock password` makes one
    may:
      - {role: editor, connectors: "orders-.*"}
      - {role: viewer}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import yaml

from penstock.model.errors import ConfigError, nearest
from penstock.model.pattern import NoPatternError, Pattern

EVERY: Final = ".*"


class Named(Protocol):
    """Something of a connector."""

    @property
    def name(self) -> str:
        """The connector's name."""


T = TypeVar("T", bound=Named)


class Level(IntEnum):
    """What somebody may do; each may do what those before may, too."""

    NOBODY = 0
    VIEWER = 1
    """Look at configurations, states and offsets."""
    OPERATOR = 2
    """Pause, resume, stop, restart; alter offsets; look at rows."""
    EDITOR = 3
    """Make, change and delete."""
    ADMIN = 4
    """What is of the cluster, and of no connector: loggers, workers."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A level, for connectors whose whole name matches."""

    level: Level
    connectors: Pattern


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who was recognized."""

    name: str
    grants: tuple[Grant, ...] = ()

    def level(self, connector: str | None = None) -> Level:
        """Return what the person may do with a connector; with None, with the cluster.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        found = (
            grant.level
            for grant in self.grants
            if (connector is None and grant.connectors.text == EVERY)
            or (connector is not None and grant.connectors.matches(connector))
        )
        return max(found, default=Level.NOBODY)

    def sees(self, connectors: Iterable[T]) -> list[T]:
        """Return those of connectors, or of their statuses, that the person may look at.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        found = list(connectors)
        names = {one.name for one in found}
        grants = (grant for grant in self.grants if grant.level >= Level.VIEWER)
        seen = {name for grant in grants for name in grant.connectors.among(names)}
        return [one for one in found if one.name in seen]

    def highest(self) -> Level:
        """Return the most that the person may do with anything."""
        return max((grant.level for grant in self.grants), default=Level.NOBODY)


@dataclass(frozen=True, slots=True)
class User:
    """A person of the file, with the hash of a password."""

    person: Person
    password: str = field(repr=False, default="")


def read_users(file: Path) -> Mapping[str, User]:
    """Return the users of a file.

    Raises:
        ConfigError: `access.file`: it cannot be read, or is not written as it should be.
    """
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        # no text of it: it holds hashes
        raise _wrong(file, f"cannot be read ({type(error).__name__})") from None
    users = document.get("users") if isinstance(document, dict) else None
    if not isinstance(users, dict):
        raise _wrong(file, "has no `users`")
    return {str(name): _user(file, str(name), one) for name, one in users.items()}


def grants_of(values: Iterable[Any]) -> tuple[Grant, ...]:
    """Return the grants that a list says: `{role, connectors}`, or the name of a role.

    Raises:
        ConfigError: `access.grant`.
    """
    return tuple(map(_grant, values))


def _grant(value: Any) -> Grant:
    fields = {"role": value} if isinstance(value, str) else value
    if not isinstance(fields, dict) or not fields.keys() <= {"role", "connectors"}:
        raise ConfigError(
            "access.grant",
            "a grant is not one",
            fix='Write {role: editor, connectors: "orders-.*"}, or only the role.',
            config_path="may",
        )
    role = str(fields.get("role", "")).upper()
    if role not in Level.__members__ or role == Level.NOBODY.name:
        names = [level.name.lower() for level in Level if level]
        near = nearest(role.lower(), names)
        raise ConfigError(
            "access.grant",
            f"{str(fields.get('role'))[:50]!r} is no role",
            fix=f"Did you mean {near[0]}?" if near else f"Valid: {', '.join(names)}.",
            config_path="role",
        )
    try:
        pattern = Pattern.compile(str(fields.get("connectors", EVERY)), "connectors", re.DOTALL)
    except NoPatternError as error:
        raise ConfigError(
            "access.grant",
            f"`connectors` is no pattern: {error}",
            fix="Write a regular expression that the whole name matches.",
            config_path="connectors",
        ) from error
    return Grant(Level[role], pattern)


def _user(file: Path, name: str, value: Any) -> User:
    if not isinstance(value, dict) or not isinstance(value.get("may", []), list):
        raise _wrong(file, f"says of {name!r} what it should not")
    person = Person(name, grants_of(value.get("may", [])))
    return User(person, str(value.get("password", "")))


def _wrong(file: Path, what: str) -> ConfigError:
    return ConfigError(
        "access.file",
        f"{file} {what}",
        fix="Write it as the gateway's README shows, readable by the process alone.",
        config_path="auth.users",
    )
