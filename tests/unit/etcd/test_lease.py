"""A lease is believed for as long as nobody else can own what hangs on it, and no longer."""

from __future__ import annotations

import asyncio

import pytest

from penstock.etcd import Etcd, Lease, operations
from penstock.model import faults
from penstock_kit.testing import FakeClock
from support.etcd import EtcdServers


def test_a_lease_outlives_its_time_by_pings_and_ends_with_its_keys(with_client):
    async def test(client):
        lease = await Lease.grant(client, 8)
        key = f"{client.prefix}k"
        await client.txn([], [operations.put(key, b"", lease.id)], stage="t")
        while lease.statistics()["pings"] < 7:  # 9.3 s, more than the lease's time
            await asyncio.sleep(0.05)
            assert lease.held()
        assert (await client.get(key)).entries
        await lease.close()
        assert not lease.held()
        assert not (await client.get(key)).entries
        await lease.close()

    with_client(test)


def test_a_lease_that_etcd_ended_is_lost_by_the_answer_to_a_ping(servers, with_client):
    async def test(client):
        now = FakeClock(1000.0)  # it stands still: only an answer of etcd tells of the end
        lease = await Lease.grant(client, 3, now)
        servers.control(0, "lease", "revoke", f"{lease.id:x}")
        await lease.lost.wait()
        assert not lease.held()
        await lease.close()

    with_client(test)


def test_a_holder_that_slept_knows_at_once_without_being_told(with_client):
    """After SIGCONT the code that runs first is any; no timer may have fired yet."""

    async def test(client):
        now = FakeClock(1000.0)
        lease = await Lease.grant(client, 5, now)
        now.advance(3.9)
        assert lease.held()
        now.advance(0.2)
        assert not lease.held()
        assert lease.lost.is_set()
        await lease.close()

    with_client(test)


def test_a_lease_once_lost_never_comes_back(with_client):
    async def test(client):
        now = FakeClock(1000.0)
        lease = await Lease.grant(client, 60, now)
        now.advance(60)
        assert not lease.held()
        assert await client.keep_alive(lease.id, 30.0) == 60  # etcd would still take it
        lease._renew(now(), 60.0)
        assert not lease.held()
        await lease.close()

    with_client(test)


class Deaf:
    """A way to etcd on which every other ping gets no answer, as from a member without a leader."""

    def __init__(self, client):
        self.settings = client.settings
        self.grant_lease, self.revoke_lease = client.grant_lease, client.revoke_lease
        self._client, self.pings = client, 0

    async def keep_alive(self, lease, seconds):
        self.pings += 1
        if self.pings % 2:
            await asyncio.Event().wait()
        return await self._client.keep_alive(lease, seconds)


def test_a_ping_without_an_answer_does_not_use_up_the_lease(with_client):
    async def test(client):
        lease = await Lease.grant(Deaf(client), 8)
        while lease.statistics()["pings"] < 6:  # 9.8 s, more than the lease's time
            await asyncio.sleep(0.05)
        assert lease.held()
        await lease.close()

    with_client(test)


def lost_while_etcd_hangs(folder) -> tuple[float, float]:
    """Return when the holder gave up, and when etcd can have ended the lease."""
    with EtcdServers(folder) as servers:

        async def main():
            client = await Etcd.connect(servers.settings(call_timeout_s=0.5))
            lease = await Lease.grant(client, 8)
            servers.pause(0)
            loop = asyncio.get_running_loop()
            began = loop.time()
            try:
                async with asyncio.timeout(12):
                    while lease.held():
                        await asyncio.sleep(0.01)
            except TimeoutError:
                return 99.0, lease.ttl_s
            finally:
                servers.resume(0)
                await lease.close()
                await client.close()
            return loop.time() - began, lease.ttl_s

        return asyncio.run(main())


@pytest.mark.timed("the holder and etcd race for the end of a lease")
def test_the_holder_gives_up_before_etcd_can_while_pings_hang(tmp_path):
    gave_up, ended = lost_while_etcd_hangs(tmp_path)
    assert gave_up < ended - 0.2


@pytest.mark.timed("the twin of the test above")
def test_a_holder_without_a_clock_of_its_own_is_caught(tmp_path, monkeypatch):
    """The twin: what the test above measures can fail."""
    monkeypatch.setattr(faults, "_armed", faults.parse("etcd.lease_clock=break"))
    gave_up, ended = lost_while_etcd_hangs(tmp_path)
    assert gave_up > ended


@pytest.mark.parametrize(("asked", "granted"), [(0.5, 2), (2.1, 3), (5, 5)])
def test_a_lease_is_never_shorter_than_asked_for(with_client, asked, granted):
    async def test(client):
        lease = await Lease.grant(client, asked)
        assert lease.ttl_s == granted
        await lease.close()

    with_client(test)
