"""Members come, stay, go, and are found."""

from __future__ import annotations

import asyncio

import pytest

from penstock.etcd import Discovery, Member, Membership, operations
from penstock.etcd import membership as room
from penstock.model.errors import ConfigError, RetriableError
from penstock.model.metrics import METRIC_FAMILIES


async def until(discovery, condition):
    """Return the members when they fulfil a condition."""
    async with asyncio.timeout(60):
        now = await discovery.wait_for_change(0)
        while not condition(now.members):
            now = await discovery.wait_for_change(now.revision)
        return now.members


def test_members_are_found_while_they_are_there(with_client):
    async def test(client):
        discovery = Discovery(client, "worker")
        discovery.start()
        assert not (await discovery.wait_for_change(0)).members
        members = [
            Membership(client, "worker", f"w{i}", Member(f"host:{i}", {"zone": "a"}), 60)
            for i in range(3)
        ]
        other = Membership(client, "config", "c", Member("host:9"), 60)
        for one in (*members, other):
            one.start()
            await one.wait_until_registered()
        found = await until(discovery, lambda m: len(m) == 3)
        assert found["w1"] == Member("host:1", {"zone": "a"})
        await members[1].stop()
        assert set(await until(discovery, lambda m: len(m) == 2)) == {"w0", "w2"}
        for one in (*members, other):
            await one.stop()
        await until(discovery, lambda m: not m)
        await discovery.stop()

    with_client(test)


def test_a_member_whose_lease_was_lost_registers_again(servers, with_client):
    async def test(client):
        member = Membership(client, "worker", "w", Member("host:1"), 20)
        member.start()
        first = await member.wait_until_registered()
        servers.control(0, "lease", "revoke", f"{first.lease.id:x}")
        await first.lost.wait()
        second = await member.wait_until_registered()
        assert not first.held()
        assert second.held()
        assert second.revision > first.revision
        numbers = member.statistics()
        assert numbers["registrations"] == 2
        assert 0 < numbers["left"] <= 20
        assert {f"member.{name}" for name in numbers} <= METRIC_FAMILIES.keys()
        await member.stop()
        assert not second.held()

    with_client(test)


def test_a_living_namesake_is_told_and_a_dead_one_is_waited_for(with_client, monkeypatch):
    monkeypatch.setattr(room, "_RETRY_DELAY_S", 0.05)

    async def test(client):
        first = Membership(client, "worker", "w", Member("first:1"), 60)
        first.start()
        assert (await first.wait_until_registered()).held()
        second = Membership(client, "worker", "w", Member("second:1"), 2)
        second.start()
        with pytest.raises(ConfigError, match=r"member\.taken.*first:1.*at instance\.id\)"):
            await second.wait_until_registered()
        await second.stop()
        await first.stop()
        dead = Membership(client, "worker", "d", Member("dead:1"), 2)
        dead.start()
        registration = await dead.wait_until_registered()
        dead._task.cancel()  # as a crash would: the key stays until the lease ends
        for task in registration.lease._tasks:
            task.cancel()
        third = Membership(client, "worker", "d", Member("third:1"), 60)
        third.start()
        assert (await third.wait_until_registered()).held()
        await third.stop()

    with_client(test)


def test_a_registration_that_is_not_confirmed_does_not_count(with_client):
    asked = []

    async def confirm():
        asked.append(1)
        if len(asked) == 1:
            raise RetriableError("etcd.unreachable", "not now")
        raise ConfigError("told", "no")

    async def test(client):
        member = Membership(client, "worker", "w", Member("host:1"), 2, confirm=confirm)
        member.start()
        with pytest.raises(ConfigError, match="told"):
            await member.wait_until_registered()
        assert len(asked) == 2  # after trouble it is asked again
        assert not (await client.get(member.key)).entries
        await member.stop()

    with_client(test)


def test_a_lost_hint_costs_a_while_and_no_truth(with_client, monkeypatch):
    """Invariant 7: without any watch the members are found all the same, from lists."""

    async def silent(*_, **__):
        await asyncio.Event().wait()
        yield

    async def test(client):
        monkeypatch.setattr(client, "watch", silent)
        discovery = Discovery(client, "worker", interval_s=0.2)
        discovery.start()
        await discovery.wait_for_change(0)
        member = Membership(client, "worker", "w", Member("host:1"), 60)
        member.start()
        await until(discovery, lambda m: len(m) == 1)
        await member.stop()
        await until(discovery, lambda m: not m)
        await discovery.stop()

    with_client(test)


def test_what_a_newer_version_says_of_itself_passes(with_client):
    async def test(client):
        newer = b'{"address": "host:1", "labels": {}, "added": [1]}'
        key = f"{client.prefix}members/worker/"
        await client.txn(
            [], [operations.put(f"{key}a", newer), operations.put(f"{key}b", b"?")], stage="t"
        )
        discovery = Discovery(client, "worker")
        discovery.start()
        assert (await discovery.wait_for_change(0)).members == {"a": Member("host:1")}
        await discovery.stop()

    with_client(test)
