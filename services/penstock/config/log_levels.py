"""Log levels as configuration: set once, effective in every instance of a service."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, TypeAlias

from penstock.config.records import LOG_LEVEL_PREFIX, log_level_key
from penstock.model.errors import ConfigError
from penstock.model.logs import LogLevel
from penstock.store.port import Store
from penstock.telemetry.log_levels import ALL_SERVICES, check_logger, parse_level, too_many_levels

SERVICES: Final = ("config", "offset", "scheduler", "worker", "gateway", ALL_SERVICES)

MAX_LEVELS: Final = 1000
"""Levels that may be set (invariant 12)."""

LevelsAtRevision: TypeAlias = tuple[list[LogLevel], int]
"""Levels, and the revision at which they were read."""


class LogLevels:
    """The log levels of a store. Has no state of its own."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns the time of a write, in seconds since the epoch."""
        self._store, self._clock = store, clock

    async def set(self, service: str, logger: str, level: str) -> None:
        """Set a level, or remove it when `level` is empty.

        Raises:
            ConfigError: `config.log_service`, `config.log_logger`, `config.log_level`,
                `config.log_levels`.
        """
        check_service(service)
        check_logger(logger)
        value = self._encode(level) if level else None
        if value is not None and len((await self.list())[0]) >= MAX_LEVELS:
            raise too_many_levels(MAX_LEVELS)
        await self._store.write([], [(log_level_key(service, logger), value)])

    async def list(self, service: str = "") -> LevelsAtRevision:
        """Return the levels of a service, or of all, and the revision at which they were read."""
        if service:
            check_service(service)
        prefix = f"{LOG_LEVEL_PREFIX}{service}/" if service else LOG_LEVEL_PREFIX
        page = await self._store.range(prefix, limit=2 * MAX_LEVELS)
        levels = []
        for entry in page.entries:
            owner, _, logger = entry.key.removeprefix(LOG_LEVEL_PREFIX).partition("/")
            document = json.loads(entry.value)
            levels.append(LogLevel(owner, logger, document["level"], document["modified_at"]))
        return levels, page.revision

    async def watch(self, service: str = "") -> AsyncGenerator[Sequence[LogLevel], None]:
        """Yield the levels, and again whenever they changed: a list each time, never a change
        (invariant 7).
        """
        levels, revision = await self.list(service)
        yield levels
        async for _ in self._store.watch(LOG_LEVEL_PREFIX, revision):
            now, revision = await self.list(service)
            if now != levels:
                levels = now
                yield levels

    def _encode(self, level: str) -> bytes:
        name = parse_level(level)
        return json.dumps({"level": name, "modified_at": self._clock()}).encode()


def check_service(service: str) -> None:
    """Refuse a name that is not that of a service.

    Raises:
        ConfigError: `config.log_service`.
    """
    if service not in SERVICES:
        raise ConfigError(
            "config.log_service",
            f"{service[:50]!r} is not a service",
            fix=f"Name one of {', '.join(SERVICES)}.",
        )
