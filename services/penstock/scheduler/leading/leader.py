"""One time of being the leader: the state machine with its store, its sessions and its plans.

All that happens is told to the cluster at once; a single coroutine takes turns: decide, store,
send. Two turns never overlap, and news that come during a turn are dealt with by the next one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from penstock.model.errors import FencedError, PenstockError, RetriableError
from penstock.scheduler.leading import stored
from penstock.scheduler.leading.leadership import Leadership, not_leader, starting
from penstock.scheduler.leading.members import Namesakes, Roster
from penstock.scheduler.leading.planning import Planning
from penstock.scheduler.leading.plans import Plans
from penstock.scheduler.leading.sessions import Outbox, Sessions, member_gone
from penstock.scheduler.state.cluster import Cluster, ClusterSettings
from penstock.scheduler.state.events import Member, Report
from penstock.scheduler.state.restart_requests import Requests
from penstock.scheduler.state.wanted import Wanted
from penstock.store import Store

log = logging.getLogger(__name__)


GATHER: Final = 0.01
"""Seconds between the first news and the turn: what happens together (the reports of all workers
about one round) is dealt with together. Longer is felt in every move."""

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
"""Seconds between turns that failed because the store is away."""

AT_LEAST_EVERY: Final = 5.0
"""Seconds between turns without news: lag is measured, and what was missed is found."""

SETTLE: Final = 10.0
"""Seconds that a request waits for the turn that carries it out."""


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """How a leader works.

    `session_lease`: seconds that a worker counts as alive after its session has ended, where
    sessions are the membership. None: members are told from outside (`members`), by their leases.
    """

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    session_lease: float | None = None


class Leader:
    """A time of being the leader. `run()` ends with it, and once."""

    def __init__(
        self,
        leadership: Leadership,
        store: Store,
        plans: Plans,
        settings: LeaderSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to lead; `store` is for reading, writes go by the leadership."""
        self._leadership, self._store, self._clock = leadership, store, clock
        chance = random.Random()  # noqa: S311 - spreads restarts, no secret
        self.cluster = Cluster(settings.cluster, chance)
        self.sessions = Sessions()
        restarts = settings.cluster.restarts
        self._planning = Planning(restarts, chance, leadership, plans, self.connectors, clock)
        self.needs = self._planning.needs
        self._requests = Requests()
        self._roster = Roster(settings.session_lease)
        self._delays, self._namesakes = settings.cluster.rebalance_delay > 0, Namesakes()
        self._drained: set[str] = set()
        self._unknown = {"assignments", "connectors", "workers"}
        self._stale = self._over = False
        self._news = asyncio.Event()
        self._begun = self._done = self._failed = 0
        self._turned = asyncio.Condition()

    async def run(self) -> None:
        """Lead until another one does, or until it is cancelled.

        Raises:
            FencedError: another one leads.
            PenstockError: the store refuses, or is not readable.
        """
        ends: list[BaseException] = []
        try:
            await self._load()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._planning.run())
                await self._take_turns(group)
        except* FencedError as errors:
            ends = _flat(errors)
        except* PenstockError as errors:
            ends = ends or _flat(errors)
        finally:
            await self._end()
        if ends:
            raise ends[0]

    def statistics(self) -> dict[str, int]:
        """Return what it has done so far."""
        return {"turns": self._done, "failed": self._failed, "sessions": len(self.sessions)}

    def must_know(self, what: str) -> None:
        """Refuse an answer about the `assignments`, `connectors` or `workers` before they are
        known: to a new leader nothing is there.

        Raises:
            RetriableError: `scheduler.starting`.
        """
        if what in self._unknown:
            raise starting(what)

    def members(self, members: Iterable[Member], revision: int) -> None:
        """Take in who is alive by lease, as of a revision. The revision must be that of the list,
        also where nothing changed since the one before.
        """
        self._roster.leased(members, revision)
        self.poke()

    def connectors(self, wanted: Iterable[Wanted], revision: int) -> None:
        """Take in what should run, as of a revision."""
        self.cluster.connectors(wanted, revision)
        self.needs.keep(self.cluster.wanted)
        self._unknown.discard("connectors")
        self.poke()

    def open(self, member: Member) -> Outbox:
        """Begin a worker's session."""
        self.declare(member)
        self.cluster.workers.open(member.id)
        return self.sessions.open(member.id)

    def declare(self, member: Member) -> None:
        """Take in what a worker says of itself: name, labels, capacity, draining."""
        if self._roster.declare(member):
            self.poke()

    def report(self, report: Report) -> None:
        """Take in which tasks a worker holds."""
        if self.cluster.report(report, self._clock()):
            self.poke()

    def close(self, worker: str, outbox: Outbox) -> None:
        """End a worker's session. It keeps its tasks until its membership ends."""
        if self.sessions.close(worker, outbox):
            self.cluster.workers.close(worker)
            self._roster.closed(worker, self._clock())
            self.poke()

    async def drain(self, worker: str, *, drain: bool) -> None:
        """Let a worker be emptied, or have tasks again. Durable when it returns."""
        await stored.store_drain(self._leadership, worker, drain=drain)
        (self._drained.add if drain else self._drained.discard)(worker)
        self.poke()

    async def settled(self) -> None:
        """Wait until a turn that began after this call has ended.

        Raises:
            RetriableError: `deadline.exceeded`: the store may be away.
        """
        wanted = self._begun + 1
        self.poke()
        try:
            async with asyncio.timeout(SETTLE), self._turned:
                await self._turned.wait_for(lambda: self._done >= wanted or self._over)
        except TimeoutError:
            raise RetriableError(
                "deadline.exceeded",
                f"stage scheduler.turn took longer than {SETTLE:g} s",
                fix="See whether the store of the scheduler is reachable.",
            ) from None
        self._refuse_over()

    async def changed(self, seen: int) -> int:
        """Wait until there was a turn after the one with the number `seen`; returns its number."""
        async with self._turned:
            await self._turned.wait_for(lambda: self._done > seen or self._over)
        self._refuse_over()
        return self._done

    def replan(self, generation: str) -> None:
        """Plan a connector anew, because its monitor asks for it."""
        if generation in self.cluster.wanted:
            self.needs.suggest(generation)
            self.poke()

    def poke(self) -> None:
        """Say that there are news."""
        self._news.set()

    async def _load(self) -> None:
        found = await stored.load(self._store)
        self.cluster.load(found.owned, found.revision)
        self._planning.load(found.planned)
        self._requests.load(found.taken)
        self._plan_anew(*(id_ for id_, taking in found.taken.items() if taking.plan))
        self._drained = set(found.drained)
        owners = {owned.record.worker: owned.record.name for owned in found.owned.values()}
        self._roster.expect((Member(*owner) for owner in owners.items()), self._clock())
        self._stale = False
        self._unknown.discard("assignments")

    async def _take_turns(self, group: asyncio.TaskGroup) -> None:
        pause = FIRST_PAUSE
        while True:
            self._news.clear()
            self._begun += 1
            try:
                await self._turn(group)
            except RetriableError as error:  # the outcome may be unknown, so all is read again
                log.warning("a round could not be stored: %s", error)
                self._stale, self._failed = True, self._failed + 1
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            async with self._turned:
                self._done = self._begun
                self._turned.notify_all()
            await self._wait()

    async def _turn(self, group: asyncio.TaskGroup) -> None:
        if self._stale:
            await self._load()
        now = self._clock()
        alive = self._roster.alive(now, self.cluster.revision)
        if alive is None or "connectors" in self._unknown:
            return  # who knows only a part would take the rest away
        self._unknown.discard("workers")
        for worker in self.cluster.members(*alive, now):
            # it has stopped its tasks; what it says in this session is not heard any more
            self.sessions.end(worker, member_gone(worker))
        self._warn_of_namesakes()
        self.cluster.workers.drain(frozenset(self._drained))
        await self._take_requests(now)
        for write in self.cluster.writes(now):
            self.cluster.wrote(write, await stored.store_round(self._leadership, write))
        self.cluster.moves.note(now, leaving=bool(self.cluster.leaving))
        for assign in self.cluster.assignments():
            self.sessions.send(assign)
        self._planning.start(group, self.cluster, self.poke, now)
        empty = [id_ for id_ in self._drained if self.cluster.workers.absent(id_)]
        wanted = self.cluster.wanted
        gone = {*self._planning.gone(wanted), *self._requests.gone(wanted)}
        await stored.clear(self._leadership, gone, empty)
        self._drained.difference_update(empty)

    def _warn_of_namesakes(self) -> None:
        """Only those that talk: who was started anew lives beside its old lease for a moment."""
        workers = self.cluster.workers
        talking = (workers.members[id_] for id_ in workers.sessions if id_ in workers.members)
        for name, ids in self._namesakes.found(talking).items() if self._delays else ():
            log.warning(
                "workers %s share the name %r: rebalance.delay holds for none of them. Give each "
                "its own instance.name, which is by default that of the host.",
                " and ".join(ids),
                name,
            )

    async def _take_requests(self, now: float) -> None:
        """Take what people want restarted, and restart what is left of what was taken."""
        for generation, taking in list(self._requests.new(self.cluster, self.needs)):
            taken = await stored.store_taking(self._leadership, generation, taking)
            self._requests.took(generation, taken)
            if taken.plan:
                self._plan_anew(generation)
        self.cluster.restart(self._requests.left(self.cluster.owned), now)

    def _plan_anew(self, *generations: str) -> None:
        for generation in generations:
            self.needs.ask(generation)

    async def _wait(self) -> None:
        now = self._clock()
        due = (self.cluster.next_due(now), self.needs.next_due(now), self._roster.next_due())
        waits = [time_ - now for time_ in due if time_ is not None]
        with suppress(TimeoutError):  # wait_for would lose a cancellation that comes with news
            async with asyncio.timeout(max(GATHER, min([AT_LEAST_EVERY, *waits]))):
                await self._news.wait()
        await asyncio.sleep(GATHER)

    async def _end(self) -> None:
        self._over = True
        self.sessions.end_all(not_leader(self._leadership.leader()))
        async with self._turned:
            self._turned.notify_all()

    def _refuse_over(self) -> None:
        if self._over:
            raise not_leader(self._leadership.leader())


def _flat(errors: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in errors.exceptions:
        found += _flat(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
