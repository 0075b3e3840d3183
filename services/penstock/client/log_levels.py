"""The log levels of this process, kept equal to those of the config service by a watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Final

from penstock.model.backoff import Backoff
from penstock.model.errors import PenstockError
from penstock.model.logs import LogLevel
from penstock.telemetry.log_levels import PROCESS_LEVELS, LogLevels, levels_for_services

log = logging.getLogger(__name__)

MIN_LEVELS_DELAY_S: Final = 0.2
MAX_LEVELS_DELAY_S: Final = 5.0
"""Seconds between attempts to watch the log levels while the config service is unavailable. The
levels stay as they are. Longer delays hold up an operator who changes one after an outage."""


async def apply_log_levels(
    watch: Callable[[], AsyncGenerator[Sequence[LogLevel], None]],
    services: Collection[str],
    levels: LogLevels = PROCESS_LEVELS,
) -> None:
    """Set the levels of this process's loggers as the watch sends them, until cancelled.

    `services` are the services that this process runs. Each message of the watch has all levels, so
    no change is missed (invariant 7).
    """
    backoff = Backoff(MIN_LEVELS_DELAY_S, MAX_LEVELS_DELAY_S)
    while True:
        try:
            async with aclosing(watch()) as updates:
                async for update in updates:
                    levels.set_cluster_levels(levels_for_services(update, services))
                    backoff.reset()
        except PenstockError as error:
            log.debug("cannot watch the log levels: %s", error)
        await asyncio.sleep(backoff.spread_delay_s())
        backoff.advance()
