"""Keeps the levels of this process's loggers as the config service has them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Final

from penstock.model.connector import LogLevel
from penstock.model.errors import PenstockError
from penstock.telemetry.levels import PROCESS, Levels, wanted_of

log = logging.getLogger(__name__)

FIRST_DELAY: Final = 0.2
LONGEST_DELAY: Final = 5.0
"""Seconds between attempts to watch while the config service is away. The levels stay as they are;
longer ones are felt by the person who changes one right after it is back."""


async def keep_levels(
    watch: Callable[[], AsyncGenerator[Sequence[LogLevel], None]],
    services: Collection[str],
    levels: Levels = PROCESS,
) -> None:
    """Do what the watch tells, for processes of these services, until cancelled. Each word of it is
    all levels, so that nothing is missed (invariant 7).
    """
    delay = FIRST_DELAY
    while True:
        try:
            async with aclosing(watch()) as words:
                async for word in words:
                    levels.keep(wanted_of(word, services))
                    delay = FIRST_DELAY
        except PenstockError as error:
            log.debug("the levels of loggers cannot be watched: %s", error)
        await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries
        delay = min(delay * 2, LONGEST_DELAY)
