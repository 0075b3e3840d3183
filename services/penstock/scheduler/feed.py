"""Follows the config service: which connectors there are, with the plans in force.

State is listed; a watch only says that it is time to list again (invariant 7).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from typing import Final

from penstock.model.connector import Connector
from penstock.model.errors import PenstockError
from penstock.scheduler.plans import Plans
from penstock.scheduler.records import Planned
from penstock.scheduler.wanted import Wanted

log = logging.getLogger(__name__)

LIST_EVERY: Final = 30.0
"""Seconds after which connectors are listed without a hint: a watch may lose one. Shorter loads the
config service for nothing, longer leaves a lost change unseen."""

AT_ONCE: Final = 16
"""Connectors whose plans are read at once. A new leader reads those of all; fewer let it begin
later, more crowd the config service."""

PAUSE: Final = 0.5
"""Seconds between attempts while the config service is away. What runs goes on meanwhile."""


class ConnectorFeed:
    """The connectors, told to `take` whenever they change. Owned by the leader; `run` ends when it
    is cancelled.
    """

    def __init__(
        self,
        plans: Plans,
        planned: Mapping[str, Planned],
        take: Callable[[Iterable[Wanted], int], None],
    ) -> None:
        """`planned` is what is known of plans that were made; it may grow while this runs."""
        self._plans, self._planned, self._take = plans, planned, take
        self._known: dict[str, Wanted] = {}
        self._stale: set[str] = set()
        self._hint, self._listed = asyncio.Event(), asyncio.Event()
        self._revision = 0

    def forget(self, generation: str) -> None:
        """Read the plans of a connector again: there are new ones."""
        self._stale.add(generation)
        self._hint.set()

    async def run(self) -> None:
        """List at once, at every hint, and from time to time."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            while True:
                self._hint.clear()
                try:
                    await self._list()
                except PenstockError as error:
                    log.warning("cannot list the connectors: %s", error)
                    self._hint.set()
                    await asyncio.sleep(PAUSE)
                await self._wait()

    async def _list(self) -> None:
        found = await self._plans.config.list()
        stale, self._stale = self._stale, set()
        known: dict[str, Wanted] = {}
        try:
            for at in range(0, len(found.connectors), AT_ONCE):
                some = found.connectors[at : at + AT_ONCE]
                for wanted in await asyncio.gather(*(self._read(one, stale) for one in some)):
                    known[wanted.generation] = wanted
        except PenstockError:
            self._stale |= stale
            raise
        self._known, self._revision = known, found.revision
        self._listed.set()
        self._take(known.values(), found.revision)

    async def _read(self, connector: Connector, stale: Container[str]) -> Wanted:
        old = self._known.get(connector.generation)
        if old is not None and old.connector == connector and connector.generation not in stale:
            return old
        return await self._plans.read(connector, self._planned)

    async def _watch(self) -> None:
        await self._listed.wait()
        while True:
            try:
                # from what was listed on: a watch from now misses what comes before it stands
                async for _ in self._plans.config.watch(self._revision):
                    self._hint.set()
            except PenstockError as error:
                log.debug("the watch of the connectors ended: %s", error)
            self._hint.set()
            await asyncio.sleep(PAUSE)

    async def _wait(self) -> None:
        with suppress(TimeoutError):  # wait_for would lose a cancellation that comes with a hint
            async with asyncio.timeout(LIST_EVERY):
                await self._hint.wait()
