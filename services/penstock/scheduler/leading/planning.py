"""Keeps the plans of all connectors up to date while an instance leads."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from typing import Final

from penstock.model.connector import Connector
from penstock.model.errors import Diagnostic, FencedError, InternalError, PenstockError
from penstock.scheduler.leading.leadership import Leadership
from penstock.scheduler.leading.plans import Plans
from penstock.scheduler.state.cluster import Cluster
from penstock.scheduler.state.events import PlanWish
from penstock.scheduler.state.failures import RestartPolicy
from penstock.scheduler.state.plan_needs import PlanNeeds
from penstock.scheduler.state.records import Planned
from penstock.scheduler.state.statuses import lacks_lag, reported, without_lag
from penstock.scheduler.state.wanted import Wanted

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


MOST_PLANNING: Final = 8
"""Connectors that are planned at once. More load the workers with plugins that start; fewer let one
slow database hold all others up."""


class Planning:
    """The plans. `run` follows the connectors, `start` makes what is missing."""

    def __init__(
        self,
        policy: RestartPolicy,
        chance: random.Random,
        leadership: Leadership,
        plans: Plans,
        take: Callable[[Iterable[Wanted], int], None],
        clock: Callable[[], float],
    ) -> None:
        """`take` is told the connectors whenever they change; `chance` spreads what is tried
        again.
        """
        self.needs = PlanNeeds(policy, chance)
        self._leadership, self._clock = leadership, clock
        self._planned: dict[str, Planned] = {}
        self._plans = plans
        self._feed = ConnectorFeed(plans, self._planned, take)
        self._places = asyncio.Semaphore(MOST_PLANNING)
        self._lagless: set[str] = set()

    def load(self, planned: Mapping[str, Planned]) -> None:
        """Take in what is stored about plans that were made."""
        self._planned.clear()
        self._planned.update(planned)

    def gone(self, wanted: Mapping[str, Wanted]) -> list[str]:
        """Return the connectors that something is stored about and that are there no more."""
        gone = [generation for generation in self._planned if generation not in wanted]
        for generation in gone:
            del self._planned[generation]
        return gone

    async def run(self) -> None:
        """Follow the connectors until cancelled."""
        await self._feed.run()

    def start(
        self, group: asyncio.TaskGroup, cluster: Cluster, done: Callable[[], None], now: float
    ) -> None:
        """Begin to make the plans that are missing; each calls `done` at its end."""
        self._measure(cluster, now)
        self._lagless &= cluster.wanted.keys()
        for wish in self.needs.wishes(cluster.wanted.values(), cluster.workers, now):
            group.create_task(self._make(wish, done))

    async def _make(self, wish: PlanWish, done: Callable[[], None]) -> None:
        generation = wish.connector.generation
        try:
            async with self._places:
                noted = self._planned.get(generation, Planned())
                noted = await self._plans.apply(wish, noted, self._leadership)
                self._planned[generation] = noted
                planned = await self._plans.make(wish, noted, self._leadership)
        except FencedError:
            raise
        except PenstockError as error:
            self._failed(wish, error.diagnostic)
        except Exception as error:
            # a plan that nobody foresaw is the failure of its connector alone (invariant 8)
            log.exception("connector %s cannot be planned", wish.connector.name)
            self._failed(wish, InternalError("scheduler.plan", repr(error)[:500]).diagnostic)
        else:
            self._planned[generation] = planned
            self.needs.made(generation, wish.worker, planned, self._clock())
            self._feed.forget(generation)
        done()

    def _failed(self, wish: PlanWish, why: Diagnostic) -> None:
        log.warning("connector %s cannot be planned: %s", wish.connector.name, why)
        self.needs.failed(wish, why, self._clock())

    def _warn_without_lag(self, wanted: Wanted) -> None:
        """Say once that a connector's `lag.target` has no effect; its status says so, too."""
        if wanted.generation not in self._lagless:
            self._lagless.add(wanted.generation)
            log.warning("connector %s: %s", wanted.connector.name, without_lag(wanted))

    def _measure(self, cluster: Cluster, now: float) -> None:
        """Tell how far the connectors are behind whose number of tasks follows their lag."""
        for wanted in cluster.wanted.values():
            if not self.needs.scales(wanted):
                continue
            if lacks_lag(cluster, wanted):
                self._warn_without_lag(wanted)
            found = reported(cluster, wanted)
            statuses = [status for status in found if status is not None]
            known = len(statuses) == len(found) and all(s.rows_left >= 0 for s in statuses)
            left = sum(status.rows_left for status in statuses) if known else -1
            self.needs.observe(wanted, left, sum(s.rows_written for s in statuses), now)
