"""What stands in etcd is ordinary etcd: a client that is not ours reads it, watches it, and locks
beside us. On a plain member, and on one with TLS and users.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.etcd import Election, Etcd, EtcdSettings, Lease, Member, Membership, Tls, operations
from penstock.store.etcd import EtcdStore
from penstock.store.port import Check
from support.certificates import Authority
from support.etcd import PASSWORD, EtcdServers
from support.etcd3_client import etcd3_client

CLUSTER = "shop"
PREFIX = f"/penstock/{CLUSTER}/"


@dataclass(frozen=True)
class Place:
    """An etcd, and how it is entered by both clients."""

    servers: EtcdServers
    authority: Path | None = None
    guarded: bool = False

    def settings(self) -> EtcdSettings:
        """For our client."""
        tls = None if self.authority is None else Tls(self.authority)
        return self.servers.settings(cluster=CLUSTER, tls=tls)

    def other(self, user: str = "root") -> Any:
        """The client that is not ours."""
        who = {"user": user, "password": PASSWORD} if self.guarded else {}
        return etcd3_client(self.servers, self.authority, **who)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """etcd that shows a certificate, and lets in nobody but users."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder / "certificates")
    certificate, key = authority.sign("etcd", address="127.0.0.1")
    options = ("--cert-file", str(certificate), "--key-file", str(key))
    with EtcdServers(folder, 1, *options) as servers:
        servers.guard(CLUSTER)
        yield Place(servers, authority.ca, guarded=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """etcd as it is when nothing is said."""
    with EtcdServers(tmp_path_factory.mktemp("plain")) as servers:
        yield Place(servers)


@pytest.fixture(params=["plain", "guarded"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each of them."""
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def with_both(place: Place) -> Callable[[Callable[[Etcd, Any], Awaitable[None]]], None]:
    """Runs a test with our client and the other one."""

    def run(test: Callable[[Etcd, Any], Awaitable[None]]) -> None:
        async def main(other: Any) -> None:
            ours = await Etcd.connect(place.settings())
            try:
                async with asyncio.timeout(60):
                    await test(ours, other)
            finally:
                await ours.close()

        with place.other() as other:
            asyncio.run(main(other))

    return run


def test_it_reads_our_members_and_the_leases_that_they_hang_on(with_both):
    async def test(ours, other):
        membership = Membership(ours, "gateway", "g1", Member("10.0.0.7:7001", {"zone": "a"}), 5)
        membership.start()
        registration = await membership.wait_until_registered()
        ((value, found),) = await asyncio.to_thread(
            lambda: list(other.get_prefix(f"{PREFIX}members/gateway/"))
        )
        assert found.key.decode() == f"{PREFIX}members/gateway/g1"
        assert json.loads(value) == {"address": "10.0.0.7:7001", "labels": {"zone": "a"}}
        assert found.create_revision == registration.revision
        assert found.lease_id == registration.lease.id
        lease = await asyncio.to_thread(other.get_lease_info, found.lease_id)
        assert lease.grantedTTL == 5
        assert list(lease.keys) == [found.key]
        await membership.stop()
        assert await asyncio.to_thread(other.get, found.key.decode()) == (None, None)

    with_both(test)


def test_it_reads_who_leads_and_writes_under_the_fencing_token(with_both):
    async def test(ours, other):
        leadership = await Election(ours, "scheduler", "10.0.0.1:7400", 5).campaign()
        value, found = await asyncio.to_thread(other.get, leadership.key)
        assert (value, found.create_revision) == (b"10.0.0.1:7400", leadership.revision)

        def write(revision):
            return other.transaction(
                compare=[other.transactions.create(leadership.key) == revision],
                success=[other.transactions.put(f"{PREFIX}probe", str(revision))],
                failure=[],
            )

        assert (await asyncio.to_thread(write, leadership.revision))[0] is True
        assert (await asyncio.to_thread(write, leadership.revision - 1))[0] is False
        assert (await asyncio.to_thread(other.get, f"{PREFIX}probe"))[0] == (
            str(leadership.revision).encode()
        )
        await leadership.resign()

    with_both(test)


def test_a_leader_whose_key_it_removes_leads_no_more(with_both):
    async def test(ours, other):
        leadership = await Election(ours, "taken", "10.0.0.1:7400", 5).campaign()
        assert await asyncio.to_thread(other.delete, leadership.key)
        await leadership.lost.wait()
        assert not leadership.held()
        await leadership.resign()

    with_both(test)


def test_it_watches_what_we_put_and_remove(with_both):
    async def test(ours, other):
        key = f"{PREFIX}watched/a"
        events, cancel = await asyncio.to_thread(other.watch_prefix, f"{PREFIX}watched/")
        put = await ours.txn([], [operations.put(key, b"1")], stage="test")
        again = await ours.txn([], [operations.put(key, b"2")], stage="test")
        gone = await ours.txn([], [operations.remove(key)], stage="test")
        seen = [await asyncio.to_thread(next, events) for _ in range(3)]
        assert [event.key.decode() for event in seen] == [key] * 3
        assert [event.value for event in seen] == [b"1", b"2", b""]
        assert [event.mod_revision for event in seen] == [
            one.revision for one in (put, again, gone)
        ]
        assert [type(event).__name__ for event in seen] == ["PutEvent", "PutEvent", "DeleteEvent"]
        await asyncio.to_thread(cancel)

    with_both(test)


def test_we_watch_what_it_puts_and_what_ends_with_its_lease(with_both):
    async def test(ours, other):
        watched = f"{PREFIX}theirs/"
        before = await ours.get(watched)
        told = ours.watch(watched, before.revision)
        lease = await asyncio.to_thread(other.lease, 60)
        await asyncio.to_thread(other.put, f"{watched}a", "1", lease)
        assert (await anext(told)).changes == ((f"{watched}a", b"1"),)
        found = await ours.get(f"{watched}a")
        assert found.entries[0].lease == lease.id
        await asyncio.to_thread(lease.revoke)
        assert (await anext(told)).changes == ((f"{watched}a", None),)
        await told.aclose()

    with_both(test)


def test_it_locks_a_key_beside_us(with_both):
    async def test(ours, other):
        membership = Membership(ours, "worker", "beside", Member("10.0.0.8:7001"), 5)
        membership.start()
        registration = await membership.wait_until_registered()
        lock, second = other.lock("orders", ttl=30), other.lock("orders", ttl=30)
        assert await asyncio.to_thread(lock.acquire)
        assert not await asyncio.to_thread(second.acquire, 0)
        # we see its lock, and would not take it: it is an ordinary key for both
        take = [operations.put(lock.key, b"ours")]
        refused = await ours.txn([operations.create_revision_is(lock.key, 0)], take, stage="test")
        assert not refused.succeeded
        assert await asyncio.to_thread(lock.release)
        taken = await ours.txn([operations.create_revision_is(lock.key, 0)], take, stage="test")
        assert taken.succeeded
        assert not await asyncio.to_thread(second.acquire, 0)
        await ours.txn([], [operations.remove(lock.key)], stage="test")
        assert await asyncio.to_thread(second.acquire)
        assert await asyncio.to_thread(second.release)
        assert registration.held()
        await membership.stop()

    with_both(test)


def test_it_keeps_a_lease_of_ours_alive_and_ends_it(with_both):
    async def test(ours, other):
        lease = await Lease.grant(ours, 6)
        answer = await asyncio.to_thread(lambda: next(iter(other.refresh_lease(lease.id))))
        assert (lease.id, 6) == (answer.ID, answer.TTL)
        await asyncio.to_thread(other.revoke_lease, lease.id)
        await lease.lost.wait()
        await lease.close()

    with_both(test)


def test_it_reads_what_our_store_keeps(with_both):
    async def test(ours, other):
        store = await EtcdStore.open(ours.settings)
        await store.write([Check("connector/a", 0)], [("connector/a", b"\x00bytes\xff")])
        found = await asyncio.to_thread(
            lambda: {m.key.decode(): v for v, m in other.get_prefix(f"{PREFIX}state/")}
        )
        assert found == {f"{PREFIX}state/connector/a": b"\x00bytes\xff"}
        await store.close()

    with_both(test)


def test_a_user_of_a_service_may_do_by_it_what_it_may_by_us(guarded):
    """Rights are etcd's, not those of a client."""
    with guarded.other("root") as root:
        root.put(f"{PREFIX}members/worker/w9", "{}")
    with guarded.other("worker") as worker:
        assert worker.get(f"{PREFIX}members/worker/w9")[0] == b"{}"
        for key in (f"{PREFIX}state/connector/a", "/locks/orders"):
            with pytest.raises(Exception, match="permission denied"):
                worker.put(key, "1")


def test_no_key_of_ours_is_outside_of_the_prefix_of_the_cluster(with_both):
    async def test(ours, other):
        election = await Election(ours, "prefix", "10.0.0.1:7400", 5).campaign()
        keys = await asyncio.to_thread(lambda: [m.key.decode() for _, m in other.get_all()])
        assert election.key in keys
        assert [key for key in keys if not key.startswith(PREFIX)] == []
        await election.resign()

    with_both(test)
