"""Levels of the loggers of this process, changed while it runs.

The config service sets levels for all processes of a service; `SetLogLevel` of a process sets them
for this process only, and takes precedence. A level that is no longer set returns to its value at
the start.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.model.errors import ConfigError, nearest_names
from penstock.model.logs import LoggerLevel, LogLevel

ALL_SERVICES: Final = "all"
"""The service name of a level that applies to all services."""

ROOT: Final = "root"

LEVELS: Final[Mapping[str, str]] = {
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "WARNING": "WARNING",
    "ERROR": "ERROR",
    "CRITICAL": "CRITICAL",
    # names of Kafka Connect
    "TRACE": "DEBUG",
    "WARN": "WARNING",
    "FATAL": "CRITICAL",
    "OFF": "CRITICAL",
}
"""Accepted names of levels and the levels of Python that they mean."""

MAX_OWN_LEVELS: Final = 1000
"""Maximum number of loggers set in one process only (invariant 12)."""

_LOGGER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


class LogLevels:
    """The levels of the loggers of a process. A process has one: `PROCESS_LEVELS`."""

    def __init__(self) -> None:
        self._cluster: Mapping[str, str] = {}
        self._own: dict[str, str] = {}
        self._before: dict[str, int] = {}

    def set_cluster_levels(self, levels: Mapping[str, str]) -> None:
        """Replace the levels from the config service, by logger."""
        self._cluster = dict(levels)
        self._apply()

    def set(self, logger: str, level: str) -> None:
        """Set a level in this process only; an empty level removes the setting.

        Raises:
            ConfigError: `config.log_logger`, `config.log_level`, `config.log_levels`.
        """
        check_logger(logger)
        if level:
            name = parse_level(level)
            if len(self._own.keys() | {logger}) > MAX_OWN_LEVELS:
                raise too_many_levels(MAX_OWN_LEVELS)
            self._own[logger] = name
        else:
            self._own.pop(logger, None)
        self._apply()

    def list(self) -> list[LoggerLevel]:
        """Return the loggers with a level, ordered by name; others inherit from their parent."""
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
        wanted = {**self._cluster, **self._own}
        for name in self._before.keys() - wanted.keys():
            _logger(name).setLevel(self._before.pop(name))
        for name, level in wanted.items():
            self._before.setdefault(name, _logger(name).level)
            _logger(name).setLevel(level)


PROCESS_LEVELS: Final = LogLevels()


def levels_for_services(levels: Iterable[LogLevel], services: Iterable[str]) -> dict[str, str]:
    """Return the levels of a process with these services, by logger.

    A level of one service takes precedence over a level of all. With several services in one
    process, the most verbose level applies.
    """
    own, ranks = frozenset(services), dict[str, tuple[bool, int]]()
    for one in levels:
        if one.service == ALL_SERVICES or one.service in own:
            number = logging.getLevelNamesMapping().get(one.level, logging.INFO)
            rank = (one.service != ALL_SERVICES, -number)
            ranks[one.logger] = max(rank, ranks.get(one.logger, rank))
    return {logger: logging.getLevelName(-rank[1]) for logger, rank in ranks.items()}


def parse_level(name: str, path: str = "") -> str:
    """Return the level of a name. `path` is the key or parameter that the error names.

    Raises:
        ConfigError: `config.log_level`.
    """
    level = LEVELS.get(name.upper())
    if level is None:
        near = nearest_names(name.upper(), LEVELS)
        raise ConfigError(
            "config.log_level",
            f"{name[:50]!r} is not a log level",
            fix=f"Name one of {', '.join(LEVELS)}.",
            config_path=path,
            suggestion=near[0] if near else "",
        )
    return level


def check_logger(logger: str) -> None:
    """Refuse an invalid logger name.

    Raises:
        ConfigError: `config.log_logger`.
    """
    if not _LOGGER.fullmatch(logger):
        raise ConfigError(
            "config.log_logger",
            f"{logger[:200]!r} is not a logger name",
            fix=f"Name a module, such as penstock.worker, or {ROOT} for all.",
        )


def too_many_levels(maximum: int) -> ConfigError:
    """Return the error for more than the maximum number of levels."""
    return ConfigError(
        "config.log_levels",
        f"{maximum} log levels are already set, which is the maximum",
        fix="Remove levels that are no longer needed.",
    )


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)
