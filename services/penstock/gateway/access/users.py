"""Principals and their roles, the file of users, and the role that each route needs.

A route without an entry in the table is refused to all callers; a test reports it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import yaml

from penstock.model.errors import ConfigError, nearest_names
from penstock.model.pattern import Pattern
from penstock_values.pattern import InvalidPatternError

log = logging.getLogger(__name__)


ANY_CONNECTOR: Final = ".*"


class HasName(Protocol):
    """An object with the name of a connector."""

    @property
    def name(self) -> str:
        """The name of the connector."""


T = TypeVar("T", bound=HasName)


class Level(IntEnum):
    """The level of a role. Each level includes the lower ones."""

    NONE = 0
    VIEWER = 1
    """Read configurations, states and offsets."""
    OPERATOR = 2
    """Pause, resume, stop, restart; alter offsets; read rows."""
    EDITOR = 3
    """Create, change and delete."""
    ADMIN = 4
    """Operate the cluster: loggers, workers."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A level for the connectors whose whole name matches a pattern."""

    level: Level
    connectors: Pattern


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated user, with grants."""

    name: str
    grants: tuple[Grant, ...] = ()

    def level(self, connector: str | None = None) -> Level:
        """Return the level for a connector; with None, for the cluster.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        found = (
            grant.level
            for grant in self.grants
            if (connector is None and grant.connectors.text == ANY_CONNECTOR)
            or (connector is not None and grant.connectors.matches(connector))
        )
        return max(found, default=Level.NONE)

    def filter_visible(self, connectors: Iterable[T]) -> list[T]:
        """Return those connectors, or statuses of connectors, that the principal may read.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        found = list(connectors)
        seen = self.filter_names({one.name for one in found}, Level.VIEWER)
        return [one for one in found if one.name in seen]

    def filter_names(self, names: Collection[str], level: Level) -> frozenset[str]:
        """Return the names of those connectors for which the principal has a level.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        grants = (grant for grant in self.grants if grant.level >= level)
        return frozenset(name for grant in grants for name in grant.connectors.filter(names))

    def highest_level(self) -> Level:
        """Return the highest level of all grants."""
        return max((grant.level for grant in self.grants), default=Level.NONE)


@dataclass(frozen=True, slots=True)
class User:
    """A user of the file, with the hash of the password."""

    principal: Principal
    password: str = field(repr=False, default="")


def read_users(file: Path) -> Mapping[str, User]:
    """Return the users of a file.

    Raises:
        ConfigError: `access.file`: the file cannot be read or has the wrong form.
    """
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        # without the text of the file, which has hashes
        raise _file_error(file, f"cannot be read ({type(error).__name__})") from None
    users = document.get("users") if isinstance(document, dict) else None
    if not isinstance(users, dict):
        raise _file_error(file, "has no `users`")
    return {str(name): _user(file, str(name), one) for name, one in users.items()}


def parse_grants(values: Iterable[Any]) -> tuple[Grant, ...]:
    """Return the grants of a list, whose items are `{role, connectors}` or the name of a role.

    Raises:
        ConfigError: `access.grant`.
    """
    return tuple(map(_grant, values))


def _grant(value: Any) -> Grant:
    fields = {"role": value} if isinstance(value, str) else value
    if not isinstance(fields, dict) or not fields.keys() <= {"role", "connectors"}:
        raise ConfigError(
            "access.grant",
            "a grant is neither a role nor an object with `role` and `connectors`",
            fix='Write {role: editor, connectors: "orders-.*"}, or only the role.',
            config_path="may",
        )
    role = str(fields.get("role", "")).upper()
    if role not in Level.__members__ or role == Level.NONE.name:
        names = [level.name.lower() for level in Level if level]
        near = nearest_names(role.lower(), names)
        raise ConfigError(
            "access.grant",
            f"`role` is {str(fields.get('role'))[:50]!r}, which is not a role",
            fix=f"Did you mean {near[0]}?" if near else f"Valid: {', '.join(names)}.",
            config_path="role",
        )
    try:
        pattern = Pattern.from_text(
            str(fields.get("connectors", ANY_CONNECTOR)), "connectors", re.DOTALL
        )
    except InvalidPatternError as error:
        raise ConfigError(
            "access.grant",
            f"`connectors` is not a valid pattern: {error}",
            fix="Write a regular expression for whole names of connectors.",
            config_path="connectors",
        ) from error
    return Grant(Level[role], pattern)


def _user(file: Path, name: str, value: Any) -> User:
    if not isinstance(value, dict) or not isinstance(value.get("may", []), list):
        raise _file_error(file, f"has a wrong entry for {name!r}")
    principal = Principal(name, parse_grants(value.get("may", [])))
    return User(principal, str(value.get("password", "")))


def _file_error(file: Path, what: str) -> ConfigError:
    return ConfigError(
        "access.file",
        f"{file} {what}",
        fix="Write the file as in the README of the gateway, readable only by the process.",
        config_path="auth.users",
    )


CHECK_INTERVAL_S: Final = 1.0
"""Seconds between checks for a changed file."""


class UsersFile:
    """The users of a file, which is read again when it changes.

    When the changed file cannot be read, the users stay as they are and the error is logged.
    """

    def __init__(self, file: Path, now: Callable[[], float] = time.monotonic) -> None:
        """Read the file.

        Raises:
            ConfigError: `access.file`.
        """
        self._file, self._now = file, now
        self._file_version = _file_version(file)
        self._users: Mapping[str, User] = read_users(file)
        self._checked_at = now()

    def get(self, name: str) -> User | None:
        """Return the user with a name; None for an unknown name."""
        if self._now() - self._checked_at >= CHECK_INTERVAL_S:
            self._checked_at = self._now()
            self._reload()
        return self._users.get(name)

    def _reload(self) -> None:
        stamp = _file_version(self._file)
        if stamp == self._file_version:
            return
        self._file_version = stamp
        try:
            self._users = read_users(self._file)
        except ConfigError as error:
            log.warning("the changed file of users is not used: %s", error)
        else:
            log.info("the file of users was read again")


def _file_version(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:  # it is being replaced
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)


OPEN_ROUTES: Final = frozenset({"GET /health"})
"""Routes without authentication: for probes. The response has only the health of the services."""

_VIEWER_ROUTES: Final = (
    "GET /", "GET /openapi.json", "GET /connectors", "GET /connectors/{connector}",
    "GET /connectors/{connector}/config", "GET /connectors/{connector}/status",
    "GET /connectors/{connector}/tasks", "GET /connectors/{connector}/tasks/{task}/status",
    "GET /connectors/{connector}/topics", "GET /connectors/{connector}/offsets",
    "GET /connector-plugins", "GET /connector-plugins/{plugin}/config",
    "GET /v1/connectors/{connector}", "GET /v1/connectors/{connector}/revisions",
    "GET /v1/connectors/{connector}/revisions/{version}", "GET /v1/connectors/{connector}/diff",
    "GET /v1/connectors/{connector}/offsets/history", "GET /v1/cluster", "GET /v1/status",
    "GET /v1/kept-offsets",
    "GET /getClusterInfo", "GET /allocated/connectors", "GET /allocated/tasks",
    "GET /plugin/list", "GET /plugin/list/connectors", "GET /admin/loggers",
    "GET /admin/loggers/{logger}", "GET /metrics", "GET /ui", "GET /ui/page.css",
    "GET /ui/page.mjs",
)  # fmt: skip

_OPERATOR_ROUTES: Final = (
    "PUT /connectors/{connector}/pause", "PUT /connectors/{connector}/resume",
    "PUT /connectors/{connector}/stop", "POST /connectors/{connector}/stop",
    "POST /connectors/{connector}/restart", "POST /connectors/{connector}/tasks/{task}/restart",
    "PATCH /connectors/{connector}/offsets", "DELETE /connectors/{connector}/offsets",
    "POST /v1/connectors/{connector}/signals",
    "PUT /connectors/{connector}/topics/reset", "POST /v1/connectors/{connector}/offsets/rewind",
    "GET /v1/connectors/{connector}/tasks/{task}/rows", "GET /v1/connectors/{connector}/logs",
    "GET /v1/connectors/{connector}/events",
    "GET /v1/connectors/{connector}/letters", "GET /v1/connectors/{connector}/letters/replay",
)  # fmt: skip

_EDITOR_ROUTES: Final = (
    "POST /connectors", "POST /connectors/{connector}", "DELETE /connectors/{connector}",
    "PUT /connectors/{connector}/config", "PATCH /connectors/{connector}/config",
    "POST /v1/connectors/{connector}/letters/replay", "DELETE /v1/kept-offsets/{connector}",
    "POST /v1/connectors/{connector}/rollback", "POST /v1/connectors/validate",
    "POST /v1/connectors/check", "POST /v1/connectors/compare",
    "POST /v1/connectors/rehearse", "POST /v1/connectors/datasets",
    # it resolves references to secrets
    "PUT /connector-plugins/{plugin}/config/validate",
)  # fmt: skip

_ADMIN_ROUTES: Final = (
    "PUT /admin/loggers/{logger}", "PUT /v1/workers/{worker}/drain",
    "DELETE /v1/workers/{worker}/drain", "GET /plugin/reload", "GET /v1/logs",
    "GET /v1/events",
)  # fmt: skip

REQUIRED_LEVELS: Final[Mapping[str, Level]] = {
    **dict.fromkeys(_VIEWER_ROUTES, Level.VIEWER),
    **dict.fromkeys(_OPERATOR_ROUTES, Level.OPERATOR),
    **dict.fromkeys(_EDITOR_ROUTES, Level.EDITOR),
    **dict.fromkeys(_ADMIN_ROUTES, Level.ADMIN),
}
"""The level that each route needs, by method and path."""

_INFORMATION: Final = (
    "GET /getClusterInfo", "GET /allocated/connectors", "GET /allocated/tasks", "GET /plugin/list",
    "GET /plugin/list/connectors", "GET /plugin/reload",
)  # fmt: skip

ROCKETMQ_LEVELS: Final[Mapping[str, Level]] = {
    **{route: REQUIRED_LEVELS[route] for route in _INFORMATION},
    "GET /connectors/list": Level.VIEWER,
    "GET /connectors/{connector}/config": Level.VIEWER,
    "GET /connectors/{connector}/status": Level.VIEWER,
    "GET /connectors/{connector}/tasks": Level.VIEWER,
    "GET /connectors/{connector}/tasks/{task}/status": Level.VIEWER,
    "GET /connectors/{connector}/pause": Level.OPERATOR,
    "GET /connectors/{connector}/resume": Level.OPERATOR,
    "GET /connectors/pause/all": Level.OPERATOR,
    "GET /connectors/resume/all": Level.OPERATOR,
    "POST /connectors/{connector}/stop": Level.OPERATOR,
    "GET /connectors/{connector}": Level.EDITOR,
    "POST /connectors/{connector}": Level.EDITOR,
    "GET /connectors/{connector}/stop": Level.EDITOR,
    "GET /connectors/stop/all": Level.EDITOR,
}
"""That of the routes of `listeners.rocketmq`."""
