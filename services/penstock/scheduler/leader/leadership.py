"""Leadership of one instance: the port, its implementations, and the run of an election.

A lease alone does not exclude a second leader: a leader that was paused wakes up and still believes
that it leads. So the port also writes for the leader, and a write succeeds only while the instance
leads (invariant 4).

- `SoleLeadership` the only instance of one process
- `ElectedLeadership` by an election in etcd, which `run_election` repeats
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol, TypeVar

from penstock.aio import cancel_and_wait, wait_for_first
from penstock.model.errors import FencedError, RetriableError
from penstock.store.port import Check, Put, Store

log = logging.getLogger(__name__)


RETRY_DELAY_S: Final = 1.0
"""Seconds for which an instance that failed as the leader leaves the place to others. Shorter, and
it wins again at once; longer is felt where there is no other instance."""


class Leadership(Protocol):
    """Which instance leads, and the writes of the leader."""

    def is_leader(self) -> bool:
        """Return at once whether this instance leads, as far as it knows."""

    def leader_address(self) -> str:
        """Return the address of the leader; "" when none is known."""

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, if this instance leads and every check holds; returns the revision.

        Raises:
            FencedError: another instance leads, or may lead.
            Conflict: a check failed.
        """


class SoleLeadership:
    """Leadership of the only instance: one process, whose store is locked against others."""

    def __init__(self, store: Store, address: str) -> None:
        self._store, self._address = store, address

    def is_leader(self) -> bool:
        """Return True."""
        return True

    def leader_address(self) -> str:
        """Return its own address."""
        return self._address

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Write to the store."""
        return await self._store.write(checks, puts)


class ElectedLeadership:
    """Leadership of one instance by election, through all its terms."""

    def __init__(self, address: str) -> None:
        """`address` is the address of this instance."""
        self._address, self._observed = address, ""
        self._is_held: Callable[[], bool] = lambda: False
        self._store: Store | None = None

    def is_leader(self) -> bool:
        """Return whether this instance leads, by the clock of its lease."""
        return self._is_held()

    def leader_address(self) -> str:
        """Return the address of the leader; "" when none is known."""
        if self.is_leader():
            return self._address
        return "" if self._observed == self._address else self._observed

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, if this instance leads and every check holds; returns the revision.

        Raises:
            FencedError: `scheduler.not_leader`: another instance leads, or may lead.
            Conflict: a check failed.
        """
        if self._store is None or not self.is_leader():
            raise leader_fenced(self.leader_address())
        try:
            return await self._store.write(checks, puts)
        except FencedError as error:
            self.end_term()
            raise leader_fenced(self.leader_address()) from error

    def begin_term(self, store: Store, is_held: Callable[[], bool]) -> None:
        """Lead from now on. Writes to `store` succeed only while this instance leads; `is_held`
        returns whether it does.
        """
        self._store, self._is_held = store, is_held

    def end_term(self) -> None:
        """Stop leading."""
        self._store, self._is_held = None, lambda: False

    def record_leader(self, address: str) -> None:
        """Record the address of the observed leader; "" for none."""
        self._observed = address


class ObservedLeader(Protocol):
    """The leader, as an election observes it."""

    @property
    def address(self) -> str:
        """Its address."""


class WonElection(Protocol):
    """An election that this instance won."""

    @property
    def lost(self) -> asyncio.Event:
        """Set when another instance may lead."""

    def held(self) -> bool:
        """Return at once, by the clock, whether no other instance can lead."""

    async def resign(self) -> None:
        """Let another instance lead. Idempotent."""


_W_co = TypeVar("_W_co", bound=WonElection, covariant=True)


class Election(Protocol[_W_co]):
    """A contest for the place of the leader. `penstock.etcd` implements it."""

    async def campaign(self) -> _W_co:
        """Wait, for as long as it takes, until this instance is elected."""

    def observe(self) -> AsyncIterator[ObservedLeader | None]:
        """Yield the leader, and again whenever it changes; None while there is none."""


class LeadingInstance(Protocol):
    """An instance that can lead."""

    async def lead(self) -> None:
        """Lead until another instance does."""


_W = TypeVar("_W", bound=WonElection)


async def run_election(
    scheduler: LeadingInstance,
    leadership: ElectedLeadership,
    election: Election[_W],
    store_of: Callable[[_W], Store],
) -> None:
    """Campaign, lead, and campaign again, until cancelled; then resign.

    Args:
        scheduler: The instance. Its leaders write through `leadership`.
        leadership: Notified of every won election, and of the leader otherwise.
        election: The contest.
        store_of: Returns the store whose writes succeed only while the given election is won.

    Raises:
        PenstockError: the election refuses: credentials, permissions.
    """
    observing = asyncio.create_task(_observe(leadership, election))
    try:
        while not observing.done():
            won = await _campaign(election, observing)
            if won is not None:
                leadership.begin_term(store_of(won), won.held)
                await _lead(scheduler, leadership, won, observing)
        await observing
    finally:
        await cancel_and_wait(observing)


async def _campaign(election: Election[_W], observing: asyncio.Task[None]) -> _W | None:
    """Campaign until elected; None when the observation ended before."""
    campaign = asyncio.ensure_future(election.campaign())
    try:
        await wait_for_first(campaign, observing)
        if campaign.done():
            return campaign.result()
    except asyncio.CancelledError:
        await _withdraw(campaign)
        raise
    await _withdraw(campaign)
    return None


async def _withdraw(campaign: asyncio.Future[_W]) -> None:
    """End a campaign. If it was won in the meantime, resign."""
    await cancel_and_wait(campaign)
    if not campaign.cancelled() and campaign.exception() is None:
        await campaign.result().resign()


async def _lead(
    scheduler: LeadingInstance,
    leadership: ElectedLeadership,
    won: WonElection,
    observing: asyncio.Task[None],
) -> None:
    """Lead until the place is lost. The leader has ended before this instance resigns."""
    leading = asyncio.create_task(scheduler.lead())
    lost = asyncio.create_task(won.lost.wait())
    try:
        await wait_for_first(leading, lost, observing)
    finally:
        await cancel_and_wait(leading, lost)
        leadership.end_term()
        await won.resign()
    failure = None if leading.cancelled() else leading.exception()
    if failure is not None:
        log.error("this instance failed as the leader: %s", failure, exc_info=failure)
        await asyncio.sleep(RETRY_DELAY_S)


async def _observe(leadership: ElectedLeadership, election: Election[_W]) -> None:
    async for leader in election.observe():
        leadership.record_leader(leader.address if leader is not None else "")


def not_leader(leader: str) -> RetriableError:
    """Return the error for a caller of an instance that does not lead. It contains the address of
    the leader, if one is known.
    """
    return RetriableError(
        "scheduler.not_leader",
        f"this instance does not lead; {leader} does"
        if leader
        else "this instance does not lead; no leader is known",
        fix=f"Call {leader}." if leader else "Call again after the election.",
        suggestion=leader,
        retry_after_s=0.0 if leader else 0.5,
    )


def leader_starting(what: str) -> RetriableError:
    """Return the error for a caller of a new leader that has not read `what` yet."""
    return RetriableError(
        "scheduler.starting",
        f"this instance has just become the leader, and has not read the {what} yet",
        fix="Call again. If this lasts, check that the scheduler reaches its store and the config "
        "service.",
        retry_after_s=0.2,
    )


def leader_fenced(leader: str) -> FencedError:
    """Return the error that ends a leader whose write was refused."""
    return FencedError(
        "scheduler.not_leader",
        f"a write of this instance was refused: {leader or 'another instance'} leads now",
        fix="No action is needed: it campaigns again.",
        suggestion=leader,
    )
