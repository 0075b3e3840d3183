"""Three members of etcd, of which one dies, hangs or loses its place, and holders that are paused.

Ownership is measured by what the holders themselves wrote down, on the clock of the machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from penstock.etcd import Election, Etcd, Lease, operations
from penstock.etcd.lease import clock
from penstock.model import faults
from penstock.model.errors import RetriableError
from support.etcd import EtcdServers

TTL = 3.0
LONG = 60.0
"""The same for who owns a place at the end: no machine is so slow that it ends meanwhile."""

TAKEN_OVER = TTL + 10
"""Seconds in which a place has its next owner; 4 are usual."""


@pytest.fixture
def cluster(tmp_path):
    """Three members."""
    with EtcdServers(tmp_path, 3) as servers:
        yield servers


async def written(client, key, value):
    """Put a key, as often as it takes."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await client.txn([], [operations.put(key, value)], stage="put", repeat=True)
            except RetriableError:
                await asyncio.sleep(0.05)


def trouble(name, cluster, number):
    """Do something to one member; returns how to undo it."""
    if name == "killed":
        cluster.kill(number)
        return lambda: cluster.start(number)
    cluster.pause(number)
    return lambda: cluster.resume(number)


@pytest.mark.timed("no write waits as long as a lease")
@pytest.mark.parametrize("what", ["killed", "paused"])
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_member_in_trouble_costs_no_lease_no_event_and_little_time(cluster, what, who):
    async def main():
        leader = cluster.leader()
        victim = leader if who == "leader" else (leader + 1) % 3
        # Our client speaks to the very member that is in trouble.
        endpoints = cluster.endpoints[victim:] + cluster.endpoints[:victim]
        client = await Etcd.connect(cluster.settings(endpoints=endpoints))
        lease = await Lease.grant(client, 5)
        seen = []

        async def follow():
            async for events in client.watch("/k", client.revision):
                seen.extend(int(value) for _, value in events.changes)
                if seen[-1] == 39:
                    return

        following = asyncio.create_task(follow())
        undo, slowest = None, 0.0
        for n in range(40):
            if n == 10:
                undo = trouble(what, cluster, victim)
            began = time.monotonic()
            await written(client, "/k", b"%d" % n)
            slowest = max(slowest, time.monotonic() - began)
        async with asyncio.timeout(60):
            await following
        assert sorted(set(seen)) == list(range(40))
        assert seen == sorted(seen), "an event came again after a newer one"
        assert lease.held()
        assert slowest < 5
        await asyncio.to_thread(undo)
        await lease.close()
        await client.close()

    asyncio.run(main())


async def overlap(cluster) -> bool:
    """Return whether two held one place at once: one cut off from etcd, one not."""
    cut = (cluster.leader() + 1) % 3
    well = [end for n, end in enumerate(cluster.endpoints) if n != cut]
    old_client = await Etcd.connect(cluster.settings(endpoints=(cluster.endpoints[cut],)))
    new_client = await Etcd.connect(cluster.settings(endpoints=tuple(well)))
    old = await Election(old_client, "place", "old:1", TTL).campaign()
    old._watching.cancel()
    cluster.pause(cut)
    async with asyncio.timeout(60):
        new = await Election(new_client, "place", "new:1", LONG).campaign()
    held_still = old.held()
    cluster.resume(cut)
    assert new.revision > old.revision
    await new.resign()
    await old.resign()
    await old_client.close()
    await new_client.close()
    return held_still


async def lost(leadership):
    """Return when a holder gives up."""
    async with asyncio.timeout(60):
        while leadership.held():
            await asyncio.sleep(0.005)


def test_a_holder_that_is_cut_off_gives_up_before_another_can_own(cluster):
    assert not asyncio.run(overlap(cluster))


def test_a_holder_that_believes_its_lease_for_too_long_is_caught(cluster, monkeypatch):
    """The twin: without the holder's own clock two own the place at once."""
    monkeypatch.setattr(faults, "_armed", faults.parse("etcd.lease_clock=break"))
    assert asyncio.run(overlap(cluster))


_HOLDER = """
import asyncio, sys
from penstock.etcd import Election, Etcd, EtcdSettings, operations
from penstock.etcd.lease import clock
from penstock.model.errors import FencedError, PenstockError

async def main(ttl, *endpoints):
    client = await Etcd.connect(EtcdSettings(endpoints))
    leadership = await Election(client, "place", "paused:1", float(ttl)).campaign()
    print("own", clock(), flush=True)
    while True:                                   # when it decided to act; a pause after that
        decided = clock()                         # is what the comparison of its key is for
        if not leadership.held():
            break
        print("act", decided, flush=True)
        await asyncio.sleep(0.02)
    print("lost", clock(), flush=True)
    leadership.lost.clear()
    leadership.lease._deadline = float("inf")     # what if it acted even so
    try:
        await leadership.write([operations.put("/late", b"")])
    except FencedError as error:
        print("refused", error.code, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.timed("a paused leader is replaced in time")
def test_a_paused_leader_is_replaced_in_time_does_not_act_and_its_late_write_is_refused(cluster):
    command = [sys.executable, "-c", _HOLDER, str(TTL), *cluster.endpoints]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline().startswith("own")
            first = holder.stdout.readline().split()  # it has begun, else nothing is shown
            assert first[0] == "act"
            holder.send_signal(signal.SIGSTOP)
            paused = clock()
            owned, late = asyncio.run(succeeded(cluster, holder.pid))
            lines = [first, *(line.split() for line in holder.stdout.read().splitlines())]
        finally:
            holder.kill()
    assert owned - paused <= TAKEN_OVER
    acts = [float(at) for word, at in lines if word == "act"]
    assert max(acts) < owned, "it acted while another owned the place"
    assert lines[-2][0] == "lost"
    assert lines[-1] == ["refused", "election.not_leader"]
    assert not late


async def succeeded(cluster, paused):
    """Own the place after a paused leader, wake it up; returns when, and what it wrote late."""
    client = await Etcd.connect(cluster.settings())
    async with asyncio.timeout(60):
        leadership = await Election(client, "place", "new:1", LONG).campaign()
    owned = clock()
    os.kill(paused, signal.SIGCONT)
    async with asyncio.timeout(60):
        while running(paused):
            await asyncio.sleep(0.05)
    late = (await client.get("/late")).entries
    assert leadership.held()
    await leadership.resign()
    await client.close()
    return owned, late


def running(pid) -> bool:
    """Return whether a process has not ended."""
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
        return stat.read().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.timed("the place of a killed leader is taken in time")
def test_the_place_of_a_killed_leader_is_taken_in_time_over_and_over(cluster):
    async def main():
        client = await Etcd.connect(cluster.settings())
        times = []
        for _ in range(3):
            first = await Election(client, "place", "first:1", TTL).campaign()
            next_ = asyncio.create_task(Election(client, "place", "next:1", TTL).campaign())
            await asyncio.wait([next_], timeout=0.1)
            for task in (*first.lease._tasks, first._watching):  # as SIGKILL would
                task.cancel()
            began = clock()
            leadership = await asyncio.wait_for(next_, 60)
            times.append(clock() - began)
            assert leadership.revision > first.revision
            await leadership.resign()
        assert max(times) <= TAKEN_OVER
        await client.close()

    asyncio.run(main())


def test_etcd_away_for_longer_than_the_lease_ends_it_and_all_recovers(cluster):
    async def main():
        client = await Etcd.connect(cluster.settings())
        leadership = await Election(client, "place", "a:1", TTL).campaign()
        for number in range(3):
            cluster.pause(number)
        await lost(leadership)
        again = asyncio.create_task(Election(client, "place", "a:1", LONG).campaign())
        await asyncio.wait([again], timeout=1)
        for number in range(3):
            cluster.resume(number)
        second = await asyncio.wait_for(again, 60)
        assert second.revision > leadership.revision
        assert second.held()
        await second.resign()
        await leadership.resign()
        await client.close()

    asyncio.run(main())
