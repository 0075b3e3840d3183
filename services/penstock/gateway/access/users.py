"""Who there is, what each may do with which connectors, and what each route needs.

A route that is not in the table is refused to all: a test names it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import yaml

from penstock.model.errors import ConfigError, nearest
from penstock.model.pattern import NoPatternError, Pattern

log = logging.getLogger(__name__)


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


LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the file."""


class FileOfUsers:
    """Users of a file. One that cannot be read any more changes nothing, and is told in the log."""

    def __init__(self, file: Path, now: Callable[[], float] = time.monotonic) -> None:
        """Read it.

        Raises:
            ConfigError: `access.file`.
        """
        self._file, self._now = file, now
        self._stamp = _stamp(file)
        self._users: Mapping[str, User] = read_users(file)
        self._looked = now()

    def get(self, name: str) -> User | None:
        """Return a user; None when there is none of that name."""
        if self._now() - self._looked >= LOOK_EVERY:
            self._looked = self._now()
            self._look()
        return self._users.get(name)

    def _look(self) -> None:
        stamp = _stamp(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._users = read_users(self._file)
        except ConfigError as error:
            log.warning("the users stay as they were: %s", error)
        else:
            log.info("the users were read anew")


def _stamp(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:  # it is being replaced
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)


OPEN: Final = frozenset({"GET /health"})
"""What probes ask, who have no name; it tells whether everything answers, and nothing else."""

_LOOKS: Final = (
    "GET /", "GET /openapi.json", "GET /connectors", "GET /connectors/{connector}",
    "GET /connectors/{connector}/config", "GET /connectors/{connector}/status",
    "GET /connectors/{connector}/tasks", "GET /connectors/{connector}/tasks/{task}/status",
    "GET /connectors/{connector}/topics", "GET /connectors/{connector}/offsets",
    "GET /connector-plugins", "GET /connector-plugins/{plugin}/config",
    "GET /v1/connectors/{connector}", "GET /v1/connectors/{connector}/revisions",
    "GET /v1/connectors/{connector}/revisions/{version}", "GET /v1/connectors/{connector}/diff",
    "GET /v1/connectors/{connector}/offsets/history", "GET /v1/cluster", "GET /v1/status",
    "GET /getClusterInfo", "GET /allocated/connectors", "GET /allocated/tasks",
    "GET /plugin/list", "GET /plugin/list/connectors", "GET /admin/loggers",
    "GET /admin/loggers/{logger}", "GET /metrics",
)  # fmt: skip

_STEERS: Final = (
    "PUT /connectors/{connector}/pause", "PUT /connectors/{connector}/resume",
    "PUT /connectors/{connector}/stop", "POST /connectors/{connector}/stop",
    "POST /connectors/{connector}/restart", "POST /connectors/{connector}/tasks/{task}/restart",
    "PATCH /connectors/{connector}/offsets", "DELETE /connectors/{connector}/offsets",
    "PUT /connectors/{connector}/topics/reset", "POST /v1/connectors/{connector}/offsets/rewind",
    "GET /v1/connectors/{connector}/tasks/{task}/rows", "GET /v1/connectors/{connector}/logs",
    "GET /v1/connectors/{connector}/letters", "GET /v1/connectors/{connector}/letters/replay",
)  # fmt: skip

_EDITS: Final = (
    "POST /connectors", "POST /connectors/{connector}", "DELETE /connectors/{connector}",
    "PUT /connectors/{connector}/config", "PATCH /connectors/{connector}/config",
    "POST /v1/connectors/{connector}/letters/replay",
    "POST /v1/connectors/{connector}/rollback", "POST /v1/connectors/validate",
    "POST /v1/connectors/check", "POST /v1/connectors/compare",
    "POST /v1/connectors/rehearse",
    # references are looked up for it
    "PUT /connector-plugins/{plugin}/config/validate",
)  # fmt: skip

_RULES: Final = (
    "PUT /admin/loggers/{logger}", "PUT /v1/workers/{worker}/drain",
    "DELETE /v1/workers/{worker}/drain", "GET /plugin/reload", "GET /v1/logs",
)  # fmt: skip

NEEDED: Final[Mapping[str, Level]] = {
    **dict.fromkeys(_LOOKS, Level.VIEWER),
    **dict.fromkeys(_STEERS, Level.OPERATOR),
    **dict.fromkeys(_EDITS, Level.EDITOR),
    **dict.fromkeys(_RULES, Level.ADMIN),
}
"""The level that each route needs, by its method and path."""
