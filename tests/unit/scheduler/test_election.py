"""Campaign, lead, lose the election, campaign again."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from penstock.model.errors import AuthError, ConfigError, FencedError, RetriableError
from penstock.scheduler import ElectedLeadership, Scheduler, run_election
from penstock.scheduler.leader.leadership import SoleLeadership
from penstock.store.port import Check, Conflict
from penstock.store.sqlite import SqliteStore
from support.leadership import StoreLeadership
from support.waiting import until

PLACE = "place"


@dataclass
class Contest:
    """A place: a key of a real store, which one holds at a time."""

    store: SqliteStore
    holder: Won | None = None
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def change(self, holder):
        async with self.news:
            self.holder = holder
            self.news.notify_all()


@dataclass
class Won:
    """A time of holding the place. `alive` False: its lease has ended, and it may not know."""

    contest: Contest
    address: str
    revision: int
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    alive: bool = True

    def held(self):
        return not self.lost.is_set()

    async def resign(self):
        self.lost.set()
        if self.contest.holder is self:
            await self.contest.change(None)

    async def expire(self):
        await self.contest.change(None)


@dataclass
class Fenced:
    """The store as its holder writes to it."""

    won: Won

    async def write(self, checks, puts):
        try:
            place = Check(PLACE, self.won.revision)
            return await self.won.contest.store.write([place, *checks], puts)
        except Conflict as conflict:
            if conflict.key != PLACE:
                raise
            raise FencedError("election.not_leader", "another one leads") from conflict


@dataclass
class Candidate:
    """One side of a contest."""

    contest: Contest
    address: str
    refuses: Exception | None = None

    async def campaign(self):
        contest = self.contest
        async with contest.news:
            await contest.news.wait_for(lambda: contest.holder is None)
            revision = await contest.store.write([Check(PLACE, None)], [(PLACE, b"")])
            contest.holder = Won(contest, self.address, revision)
            contest.news.notify_all()
            return contest.holder

    async def observe(self):
        told = 0
        while True:
            if self.refuses is not None:
                raise self.refuses
            async with self.contest.news:
                await self.contest.news.wait_for(lambda: self.contest.holder is not told)  # noqa: B023
                told = self.contest.holder
            yield told


class FakeLeader:
    """Leads until it is told to end."""

    def __init__(self, leadership):
        self.leadership = leadership
        self.end = asyncio.get_running_loop().create_future()

    async def run(self):
        await self.end


class Instance:
    """An instance of the scheduler, with leaders that do nothing."""

    def __init__(self, contest, address):
        self.leadership = ElectedLeadership(address)
        self.candidate = Candidate(contest, address)
        self.leaders = []
        self.scheduler = Scheduler(self.leadership, self._make)
        self.standing = asyncio.create_task(
            run_election(self.scheduler, self.leadership, self.candidate, Fenced)
        )

    def _make(self):
        self.leaders.append(FakeLeader(self.leadership))
        return self.leaders[-1]

    async def stop(self):
        self.standing.cancel()
        await asyncio.gather(self.standing, return_exceptions=True)


@asynccontextmanager
async def two(tmp_path):
    """A contest with two instances, the first of which leads."""
    store = await SqliteStore.open(tmp_path / "state.db")
    contest = Contest(store)
    first = Instance(contest, "first")
    await until(lambda: first.leaders, "the first leads")
    second = Instance(contest, "second")
    await until(lambda: second.leadership.leader_address() == "first", "the second knows")
    try:
        async with asyncio.timeout(60):
            yield contest, first, second
    finally:
        await first.stop()
        await second.stop()
        await store.close()


def test_one_leads_and_the_other_names_it(tmp_path):
    async def main():
        async with two(tmp_path) as (_, first, second):
            assert first.scheduler.leader() is first.leaders[0]
            with pytest.raises(RetriableError, match=r"scheduler\.not_leader") as caught:
                second.scheduler.leader()
            assert caught.value.diagnostic.suggestion == "first"
            await first.leadership.write([], [("k", b"1")])
            with pytest.raises(FencedError, match=r"scheduler\.not_leader"):
                await second.leadership.write([], [("k", b"2")])

    asyncio.run(main())


def test_a_stopped_instance_lets_the_other_lead(tmp_path):
    async def main():
        async with two(tmp_path) as (contest, first, second):
            await first.stop()
            await until(lambda: second.leaders, "the second leads")
            assert contest.holder.address == "second"
            assert not first.leadership.is_leader()

    asyncio.run(main())


def test_a_lost_lease_ends_the_leader_at_once(tmp_path):
    async def main():
        async with two(tmp_path) as (contest, first, second):
            lost = contest.holder
            lost.lost.set()
            assert not first.leadership.is_leader()
            with pytest.raises(RetriableError):
                first.scheduler.leader()
            await until(lambda: second.leaders, "the second leads")
            assert first.leaders[0].end.cancelled()
            await until(lambda: first.leadership.leader_address() == "second", "the first knows")

    asyncio.run(main())


def test_a_leader_that_does_not_know_yet_is_refused_by_the_store(tmp_path):
    """A pause longer than the lease: it wakes up and believes (invariant 4)."""

    async def main():
        async with two(tmp_path) as (contest, first, second):
            await contest.holder.expire()
            await until(lambda: second.leaders, "the second leads")
            assert first.leadership.is_leader()  # by its clock
            with pytest.raises(FencedError, match=r"scheduler\.not_leader"):
                await first.leadership.write([], [("k", b"late")])
            assert not first.leadership.is_leader()
            assert "k" not in await contest.store.get("k")

    asyncio.run(main())


def test_an_instance_that_fails_as_the_leader_lets_another_lead(tmp_path):
    async def main():
        async with two(tmp_path) as (contest, first, second):
            first.leaders[0].end.set_exception(ConfigError("store.full", "no space"))
            await until(lambda: second.leaders, "the second leads")
            assert contest.holder.address == "second"
            await second.stop()
            await until(lambda: len(first.leaders) == 2, "the first tries again")

    asyncio.run(main())


def test_an_election_that_refuses_ends_standing_with_its_error(tmp_path):
    async def main():
        async with two(tmp_path) as (contest, _, second):
            second.candidate.refuses = AuthError("etcd.permission_denied", "refused")
            await contest.holder.resign()
            with pytest.raises(AuthError, match=r"etcd\.permission_denied"):
                await asyncio.wait_for(second.standing, 60)

    asyncio.run(main())


def test_an_instance_that_is_stopped_while_it_wins_resigns(tmp_path):
    async def main():
        store = await SqliteStore.open(tmp_path / "state.db")
        for rounds in range(20):
            contest = Contest(store)
            one = Instance(contest, "one")
            for _ in range(rounds):
                await asyncio.sleep(0)
            await one.stop()
            assert contest.holder is None
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(("leads", "code"), [(True, "starting"), (False, "not_leader")])
def test_a_caller_before_the_first_term_learns_whether_to_wait_or_to_go(leads, code):
    """An instance that leads, and has not begun, must not send its clients to itself."""
    leadership = SoleLeadership(None, "unix:here") if leads else StoreLeadership(None, "unix:here")
    with pytest.raises(RetriableError) as refused:
        Scheduler(leadership, lambda: None).leader()
    assert refused.value.code == f"scheduler.{code}"
