"""Deletes the offsets of deleted connectors after a retention time.

A generation never comes back, so no connector can use them again. The retention time lets an
operator who deleted a connector by mistake read them, and keeps the offsets when a config service
has lost its connectors.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from penstock.aio import cancel_and_wait
from penstock.model.errors import PenstockError
from penstock.offset import records
from penstock.offset.admin import BulkAdmin
from penstock.offset.stop_guard import StopGuard
from penstock.store.port import Store

DEFAULT_RETENTION_S: Final = 86_400.0
"""Seconds for which offsets of a deleted connector are kept by default."""

_MIN_INTERVAL_S, _MAX_INTERVAL_S = 1.0, 60.0

log = logging.getLogger(__name__)


class OffsetRetention:
    """Searches for deleted connectors from `start` until `close`. Several instances may do so."""

    def __init__(
        self,
        store: Store,
        guard: StopGuard,
        bulk: BulkAdmin,
        retention_s: float = DEFAULT_RETENTION_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`retention_s`: seconds from the first search that misses a connector to the deletion of
        its offsets.
        """
        self._store, self._guard, self._bulk = store, guard, bulk
        self._retention_s, self._clock = retention_s, clock
        self._missing_since: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to search, at an interval."""
        self._task = asyncio.create_task(self._run(), name="offset retention")

    async def close(self) -> None:
        """Stop. Idempotent."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def run_once(self) -> None:
        """Delete the offsets of connectors that are missing for long enough, and record those that
        are missing for the first time.

        Raises:
            PenstockError: the store or the config service does not respond.
        """
        now, after, more = self._clock(), "", True
        missing_since: dict[str, float] = {}
        while more:
            page = await self._store.range(records.MANIFEST_PREFIX, after)
            more = page.more
            for entry in page.entries:
                after = entry.key
                generation = after.removeprefix(records.MANIFEST_PREFIX)
                if await self._guard.connector_exists(generation):
                    continue
                missing_since[generation] = self._missing_since.get(generation, now)
                if now - missing_since[generation] >= self._retention_s:
                    await self._delete(generation)
        self._missing_since = missing_since

    async def _delete(self, generation: str) -> None:
        try:
            await self._bulk.reset("", generation, forget=True)
        except PenstockError as error:  # a worker may still hold a task: the next search retries
            log.info("the offsets of %s are kept: %s", generation, error)
        else:
            log.info("the offsets of %s are deleted, like their connector", generation)

    async def _run(self) -> None:
        while True:
            try:
                await self.run_once()
            except PenstockError as error:
                log.warning("cannot search for offsets of deleted connectors: %s", error)
            await asyncio.sleep(min(max(self._retention_s / 2, _MIN_INTERVAL_S), _MAX_INTERVAL_S))
