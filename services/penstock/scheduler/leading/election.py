"""Leading by election: an instance stands, leads for as long as its lease lives, and stands again.

The election is somebody else's (`penstock.etcd`), behind two small ports. What an elected instance
writes goes through a store whose every write compares the election's key (invariant 4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from penstock.model.errors import FencedError
from penstock.scheduler.leading.leadership import fenced
from penstock.scheduler.leading.scheduler import Scheduler
from penstock.store import Check, Store
from penstock.store.port import Put

log = logging.getLogger(__name__)


PAUSE: Final = 1.0
"""Seconds that an instance which led and could not go on leaves the place to others. Shorter, and
the one that cannot wins again at once; longer is felt where there is no other."""


class Seen(Protocol):
    """Who leads."""

    @property
    def address(self) -> str:
        """Where it is reached."""


class Won(Protocol):
    """An election that was won."""

    @property
    def lost(self) -> asyncio.Event:
        """Set when another may lead."""

    def held(self) -> bool:
        """Tell whether nobody else can lead, by the clock, at once."""

    async def resign(self) -> None:
        """Let another one lead. Idempotent."""


_W_co = TypeVar("_W_co", bound=Won, covariant=True)


class Election(Protocol[_W_co]):
    """A contest for one place."""

    async def campaign(self) -> _W_co:
        """Wait, for as long as it takes, until this instance is elected."""

    def observe(self) -> AsyncIterator[Seen | None]:
        """Tell who leads, and again whenever that changes; None while nobody does."""


class ElectedLeadership:
    """Leadership of one instance by election, through all its times of leading."""

    def __init__(self, address: str) -> None:
        """`address` is where this instance is reached."""
        self._address, self._seen = address, ""
        self._held: Callable[[], bool] = lambda: False
        self._store: Store | None = None

    def leads(self) -> bool:
        """Tell whether this instance leads, by the clock of its lease."""
        return self._held()

    def leader(self) -> str:
        """Return the address of the leader; "" when none is known."""
        if self.leads():
            return self._address
        return "" if self._seen == self._address else self._seen

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, if this instance leads and every check holds; returns the revision.

        Raises:
            FencedError: `scheduler.not_leader`: another one leads, or may.
            Conflict: a check failed.
        """
        if self._store is None or not self.leads():
            raise fenced(self.leader())
        try:
            return await self._store.write(checks, puts)
        except FencedError as error:
            self.over()
            raise fenced(self.leader()) from error

    def won(self, store: Store, held: Callable[[], bool]) -> None:
        """Lead from now on. Writes to `store` hold only while this instance leads; `held` tells
        whether it does.
        """
        self._store, self._held = store, held

    def over(self) -> None:
        """Lead no more."""
        self._store, self._held = None, lambda: False

    def observed(self, address: str) -> None:
        """Note who leads; "" for nobody."""
        self._seen = address


_W = TypeVar("_W", bound=Won)


async def stand(
    scheduler: Scheduler,
    leadership: ElectedLeadership,
    election: Election[_W],
    store_of: Callable[[_W], Store],
) -> None:
    """Stand, lead, and stand again, until cancelled; then resign.

    Args:
        scheduler: The instance; its leaders write by `leadership`.
        leadership: Told of every election that is won, and of who leads otherwise.
        election: The contest.
        store_of: Returns the store whose writes hold only while the given election is won.

    Raises:
        PenstockError: the election refuses: credentials, permissions.
    """
    observing = asyncio.create_task(_observe(leadership, election))
    try:
        while not observing.done():
            won = await _elected(election, observing)
            if won is not None:
                leadership.won(store_of(won), won.held)
                await _lead(scheduler, leadership, won, observing)
        await observing
    finally:
        await _over(observing)


async def _elected(election: Election[_W], observing: asyncio.Task[None]) -> _W | None:
    """Stand until elected; None when the observation ended before."""
    campaign = asyncio.ensure_future(election.campaign())
    try:
        await asyncio.wait({campaign, observing}, return_when=asyncio.FIRST_COMPLETED)
        if campaign.done():
            return campaign.result()
    except asyncio.CancelledError:
        await _withdraw(campaign)
        raise
    await _withdraw(campaign)
    return None


async def _withdraw(campaign: asyncio.Future[_W]) -> None:
    """End a campaign; what it won all the same is given up."""
    await _over(campaign)
    if not campaign.cancelled() and campaign.exception() is None:
        await campaign.result().resign()


async def _lead(
    scheduler: Scheduler, leadership: ElectedLeadership, won: Won, observing: asyncio.Task[None]
) -> None:
    """Lead until the place is lost. Nothing is done as the leader after it was given up."""
    leading = asyncio.create_task(scheduler.lead())
    lost = asyncio.create_task(won.lost.wait())
    try:
        await asyncio.wait({leading, lost, observing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _over(leading, lost)
        leadership.over()
        await won.resign()
    failure = None if leading.cancelled() else leading.exception()
    if failure is not None:
        log.error("this instance cannot lead: %s", failure, exc_info=failure)
        await asyncio.sleep(PAUSE)


async def _observe(leadership: ElectedLeadership, election: Election[_W]) -> None:
    async for seen in election.observe():
        leadership.observed(seen.address if seen is not None else "")


async def _over(*tasks: asyncio.Future[Any]) -> None:
    """Cancel, and wait until all have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
