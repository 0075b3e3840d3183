"""Log levels as configuration: set once, in force in every instance of a service."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, TypeAlias

from penstock.config.stored import LOG_LEVELS, log_level_key
from penstock.model.connector import LogLevel
from penstock.model.errors import ConfigError
from penstock.store import Store
from penstock.telemetry.levels import EVERY_SERVICE, check_logger, level_named, too_many

SERVICES: Final = ("config", "offset", "scheduler", "worker", "gateway", EVERY_SERVICE)

MOST_LEVELS: Final = 1000
"""Levels that may be set (invariant 12)."""

Levels: TypeAlias = tuple[list[LogLevel], int]
"""Levels, and the revision that they were read at."""


class LogLevels:
    """The levels of a store. Keeps no state of its own."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives the time of a write, in seconds since the epoch."""
        self._store, self._clock = store, clock

    async def set(self, service: str, logger: str, level: str) -> int:
        """Set a level, or take the setting away when it is empty; returns the write's revision.

        Raises:
            ConfigError: `config.log_service`, `config.log_logger`, `config.log_level`,
                `config.log_levels`.
        """
        check_service(service)
        check_logger(logger)
        value = self._value(level) if level else None
        if value is not None and len((await self.list())[0]) >= MOST_LEVELS:
            raise too_many(MOST_LEVELS)
        return await self._store.write([], [(log_level_key(service, logger), value)])

    async def list(self, service: str = "") -> Levels:
        """Read the levels of a service, or of all; and the revision that they were read at."""
        if service:
            check_service(service)
        prefix = f"{LOG_LEVELS}{service}/" if service else LOG_LEVELS
        page = await self._store.range(prefix, limit=2 * MOST_LEVELS)
        levels = []
        for entry in page.entries:
            owner, _, logger = entry.key.removeprefix(LOG_LEVELS).partition("/")
            document = json.loads(entry.value)
            levels.append(LogLevel(owner, logger, document["level"], document["modified_at"]))
        return levels, page.revision

    async def watch(self, service: str = "") -> AsyncGenerator[Levels, None]:
        """Iterate over the levels as they are now, and again whenever they changed: a list each
        time, never a change (invariant 7).
        """
        levels, revision = await self.list(service)
        yield levels, revision
        async for _ in self._store.watch(LOG_LEVELS, revision):
            now, revision = await self.list(service)
            if now != levels:
                levels = now
                yield levels, revision

    async def watch_all(self) -> AsyncGenerator[Sequence[LogLevel], None]:
        """Iterate over all levels, as a client does that watches them."""
        async for levels, _ in self.watch():
            yield levels

    def _value(self, level: str) -> bytes:
        name = level_named(level)
        return json.dumps({"level": name, "modified_at": self._clock()}).encode()


def check_service(service: str) -> None:
    """Refuse what is no service.

    Raises:
        ConfigError: `config.log_service`.
    """
    if service not in SERVICES:
        raise ConfigError(
            "config.log_service",
            f"{service[:50]!r} is no service",
            fix=f"Name one of {', '.join(SERVICES)}.",
        )
