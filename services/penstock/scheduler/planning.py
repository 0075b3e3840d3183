"""Keeps the plans of all connectors up to date while an instance leads."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from penstock.model.errors import Diagnostic, FencedError, InternalError, PenstockError
from penstock.scheduler.cluster import Cluster
from penstock.scheduler.events import PlanWish
from penstock.scheduler.feed import ConnectorFeed
from penstock.scheduler.lag import lacks_lag, reported, without_lag
from penstock.scheduler.leadership import Leadership
from penstock.scheduler.plan_needs import PlanNeeds
from penstock.scheduler.plans import Plans
from penstock.scheduler.records import Planned
from penstock.scheduler.restarts import RestartPolicy
from penstock.scheduler.wanted import Wanted

log = logging.getLogger(__name__)

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
