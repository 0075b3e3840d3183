"""Forgets the offsets of deleted connectors, a while after they were missed first.

A generation never comes back, so nothing can ask for them again; a person who deleted a connector
by mistake has the while to read them, and a config service that lost its connectors does not take
the offsets along.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from penstock.model.errors import PenstockError
from penstock.offset import stored
from penstock.offset.bulk import Bulk
from penstock.offset.owner import Owner
from penstock.store import Store

KEPT: Final = 86_400.0
"""Seconds that offsets of a deleted connector are kept, where nothing is said."""

_OFTEN, _SELDOM = 1.0, 60.0

log = logging.getLogger(__name__)


class Leftovers:
    """Looks for them from `start` until `close`. Several instances do it twice, and no harm."""

    def __init__(
        self,
        store: Store,
        owner: Owner,
        bulk: Bulk,
        kept: float = KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kept`: seconds from the first look that misses a connector to the end of its offsets."""
        self._store, self._owner, self._bulk = store, owner, bulk
        self._kept, self._clock = kept, clock
        self._missed: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, now and then."""
        self._task = asyncio.create_task(self._run(), name="offset leftovers")

    async def close(self) -> None:
        """Look no more. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Forget what was missed for long enough; note what is missed for the first time.

        Raises:
            PenstockError: the store or the config service does not answer.
        """
        now, after, more = self._clock(), "", True
        missed: dict[str, float] = {}
        while more:
            page = await self._store.range(stored.HEADS, after)
            more = page.more
            for entry in page.entries:
                after = entry.key
                generation = after.removeprefix(stored.HEADS)
                if await self._owner.lives(generation):
                    continue
                missed[generation] = self._missed.get(generation, now)
                if now - missed[generation] >= self._kept:
                    await self._forget(generation)
        self._missed = missed

    async def _forget(self, generation: str) -> None:
        try:
            await self._bulk.reset("", generation, forget=True)
        except PenstockError as error:  # a zombie may still hold a task: the next look tries again
            log.info("the offsets of %s are kept: %s", generation, error)
        else:
            log.info("the offsets of %s are forgotten: its connector was deleted", generation)

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except PenstockError as error:
                log.warning("cannot look for offsets of deleted connectors: %s", error)
            await asyncio.sleep(min(max(self._kept / 2, _OFTEN), _SELDOM))
