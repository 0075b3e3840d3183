"""A server that is killed, again and again, while many write: nothing acknowledged is lost, nothing
is torn, nothing happens twice, and the store goes on by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from penstock.model.errors import PenstockError, RetriableError
from penstock.store.etcd import EtcdStore
from penstock.store.port import Check, Conflict, Store
from penstock.store.postgresql.store import PostgresqlStore
from support.etcd import EtcdServers
from support.postgresql import PostgresqlServer

KILLS = 3


@pytest.fixture(params=["etcd", "postgresql"])
def server(request, tmp_path):
    """A server of the test's own."""
    if request.param == "etcd":
        with EtcdServers(tmp_path) as etcd:
            yield Server(
                lambda **fields: EtcdStore.open(etcd.settings(**fields)),
                lambda: etcd.kill(0),
                etcd.start,
            )
        return
    with PostgresqlServer() as postgresql:
        yield Server(
            lambda **fields: PostgresqlStore.open(replace(postgresql.settings(), **fields)),
            postgresql.kill,
            postgresql.start,
            always_known=True,
        )


@dataclass(frozen=True)
class Server:
    """What the tests do to a server. `always_known`: no write of it ends in doubt."""

    make: Callable[..., Awaitable[Store]]
    kill: Callable[[], None]
    start: Callable[[], None]
    always_known: bool = False

    def bounce(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()


class Lane:
    """A writer of pairs that notes what it was told."""

    def __init__(self, store, number):
        self.store, self.number = store, number
        self.acknowledged, self.unknown = [], []
        self.refused = 0

    async def run(self, stop):
        n = 0
        while not stop.is_set():
            n += 1
            pair = [(f"{self.number}/{n}/a", b"x" * 50), (f"{self.number}/{n}/b", b"x" * 500)]
            try:
                await self.store.write([Check(key, 0) for key, _ in pair], pair)
            except Conflict:
                raise AssertionError("a write met itself: it happened twice") from None
            except RetriableError as error:
                self.refused += 1
                if error.code == "store.outcome_unknown":
                    self.unknown.append(n)
            else:
                self.acknowledged.append(n)


async def stormed(store, bounce):
    """Kill the server while lanes write; return the lanes."""
    stop = asyncio.Event()
    lanes = [Lane(store, number) for number in range(8)]
    running = [asyncio.create_task(lane.run(stop)) for lane in lanes]
    for _ in range(KILLS):
        marks = [len(lane.acknowledged) for lane in lanes]
        async with asyncio.timeout(60):
            while any(len(a.acknowledged) < m + 20 for a, m in zip(lanes, marks, strict=True)):
                await asyncio.sleep(0.01)
        await asyncio.to_thread(bounce)
    marks = [len(lane.acknowledged) for lane in lanes]
    async with asyncio.timeout(60):
        while any(len(a.acknowledged) < m + 5 for a, m in zip(lanes, marks, strict=True)):
            await asyncio.sleep(0.01)
    stop.set()
    await asyncio.gather(*running)
    return lanes


def missing(keys, lanes):
    """Return what was acknowledged and is not there, and pairs of which half is there."""
    lost = [
        (lane.number, n)
        for lane in lanes
        for n in lane.acknowledged
        if not {f"{lane.number}/{n}/a", f"{lane.number}/{n}/b"} <= keys
    ]
    halves = [key for key in keys if (key[:-1] + ("b" if key[-1] == "a" else "a")) not in keys]
    return lost, halves


def test_acknowledged_writes_survive_kill_9_of_the_server(server):
    async def main():
        store = await server.make()
        lanes = await stormed(store, server.bounce)
        await store.close()
        store = await server.make()
        keys = {e.key for e in (await store.range("", limit=1_000_000)).entries}
        await store.close()
        assert missing(keys, lanes) == ([], [])
        known = {f"{lane.number}/{n}/a" for lane in lanes for n in lane.acknowledged + lane.unknown}
        assert {key for key in keys if key.endswith("a")} <= known, "it happened, and was denied"
        if server.always_known:
            assert not [n for lane in lanes for n in lane.unknown], "its end can always be known"
        lanes[0].acknowledged.append(10**9)
        assert missing(keys, lanes)[0] == [(0, 10**9)], "the checker sees no lost write"

    asyncio.run(main())


def test_a_watch_over_a_killed_server_passes_over_no_write(server):
    async def main():
        store = await server.make()
        seen, listed = set(), asyncio.Event()
        last = await store.write([], [("p/start", b"")])

        async def follow():
            async for change in store.watch("p/", last):
                if not change.keys:
                    listed.set()
                seen.update(change.keys)
                if "p/end" in change.keys or listed.is_set():
                    return

        following = asyncio.create_task(follow())
        for n in range(60):
            await again(store, f"p/{n}")
            if n % 20 == 10:
                await asyncio.to_thread(server.bounce)
        await again(store, "p/end")
        async with asyncio.timeout(60):
            await following
        assert listed.is_set() or seen == {*(f"p/{n}" for n in range(60)), "p/end"}
        await store.close()

    asyncio.run(main())


async def again(store, key):
    """Put a key, as often as it takes."""
    async with asyncio.timeout(60):
        while True:
            try:
                await store.write([], [(key, b"")])
            except RetriableError:
                await asyncio.sleep(0.05)
            else:
                return


def test_a_server_that_stays_away_is_told_in_time(server):
    async def main():
        patient = await server.make()
        await patient.write([], [("a", b"1")])
        await patient.close()
        store = await server.make(retry_timeout_s=1.0)
        await asyncio.to_thread(server.kill)
        async with asyncio.timeout(60):
            with pytest.raises(PenstockError) as read:
                await store.get("a")
            with pytest.raises(PenstockError) as written:
                await store.write([], [("a", b"2")])
        assert read.value.code == "store.unreachable"
        assert written.value.code in {"store.unreachable", "store.outcome_unknown"}
        await asyncio.wait_for(store.close(), 60)

    asyncio.run(main())
