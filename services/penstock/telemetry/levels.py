"""Levels of the loggers of this process, changed while it runs.

Two may say them: the cluster, for all processes of a service, and a person, for this process alone.
The person's word counts more. What nobody says any more is again as it was at the start.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.model.connector import LogLevel
from penstock.model.errors import ConfigError, nearest

EVERY_SERVICE: Final = "all"
"""Stands for every service where a level is set."""

ROOT: Final = "root"

LEVELS: Final[Mapping[str, str]] = {
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "WARNING": "WARNING",
    "ERROR": "ERROR",
    "CRITICAL": "CRITICAL",
    # as Kafka Connect names them
    "TRACE": "DEBUG",
    "WARN": "WARNING",
    "FATAL": "CRITICAL",
    "OFF": "CRITICAL",
}
"""Names of levels, and what they mean here."""

MOST_OWN: Final = 1000
"""Loggers that a person may set in one process (invariant 12)."""

_LOGGER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger that has a level. `own`: set in this process alone."""

    logger: str
    level: str
    own: bool = False


class Levels:
    """The levels of a process. There is one, as its loggers are: `PROCESS`."""

    def __init__(self) -> None:
        self._kept: Mapping[str, str] = {}
        self._own: dict[str, str] = {}
        self._before: dict[str, int] = {}

    def keep(self, wanted: Mapping[str, str]) -> None:
        """Take in all levels that the cluster wants here, by logger."""
        self._kept = dict(wanted)
        self._apply()

    def set(self, logger: str, level: str) -> None:
        """Set a level in this process alone, or take it away when it is empty.

        Raises:
            ConfigError: `config.log_logger`, `config.log_level`, `config.log_levels`.
        """
        check_logger(logger)
        if level:
            name = level_named(level)
            if len(self._own.keys() | {logger}) > MOST_OWN:
                raise too_many(MOST_OWN)
            self._own[logger] = name
        else:
            self._own.pop(logger, None)
        self._apply()

    def list(self) -> list[LoggerLevel]:
        """Return the loggers that have a level, ordered by name; the others follow those above."""
        known = {ROOT: logging.getLogger()} | {
            name: logger
            for name, logger in logging.getLogger().manager.loggerDict.items()
            if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET
        }
        return [
            LoggerLevel(name, logging.getLevelName(known[name].level), name in self._own)
            for name in sorted(known)
        ]

    def _apply(self) -> None:
        wanted = {**self._kept, **self._own}
        for name in self._before.keys() - wanted.keys():
            _logger(name).setLevel(self._before.pop(name))
        for name, level in wanted.items():
            self._before.setdefault(name, _logger(name).level)
            _logger(name).setLevel(level)


PROCESS: Final = Levels()


def wanted_of(levels: Iterable[LogLevel], services: Iterable[str]) -> dict[str, str]:
    """Return the levels that processes of these services are to have. What is said of a service
    counts more than what is said of all; of several services in one process, the most talkative.
    """
    here, found = frozenset(services), dict[str, tuple[bool, int]]()
    for one in levels:
        if one.service == EVERY_SERVICE or one.service in here:
            number = logging.getLevelNamesMapping().get(one.level, logging.INFO)
            rank = (one.service != EVERY_SERVICE, -number)
            found[one.logger] = max(rank, found.get(one.logger, rank))
    return {logger: logging.getLevelName(-rank[1]) for logger, rank in found.items()}


def level_named(name: str, path: str = "") -> str:
    """Return the level that a name means. `path`: where it was said, for the error.

    Raises:
        ConfigError: `config.log_level`.
    """
    level = LEVELS.get(name.upper())
    if level is None:
        near = nearest(name.upper(), LEVELS)
        raise ConfigError(
            "config.log_level",
            f"{name[:50]!r} is no level",
            fix=f"Name one of {', '.join(LEVELS)}.",
            config_path=path,
            suggestion=near[0] if near else "",
        )
    return level


def check_logger(logger: str) -> None:
    """Refuse what cannot be the name of a logger.

    Raises:
        ConfigError: `config.log_logger`.
    """
    if not _LOGGER.fullmatch(logger):
        raise ConfigError(
            "config.log_logger",
            f"{logger[:200]!r} cannot be the name of a logger",
            fix=f"Name a module, such as penstock.worker, or {ROOT} for all.",
        )


def too_many(most: int) -> ConfigError:
    """Return the error for more levels than may be set."""
    return ConfigError(
        "config.log_levels",
        f"{most} levels are set already",
        fix="Take some away that are not needed any more.",
    )


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)
