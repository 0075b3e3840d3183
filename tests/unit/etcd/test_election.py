"""One leader at a time, and an old one's late write is refused."""

from __future__ import annotations

import asyncio

import pytest

from penstock.etcd import Election, Lease, OutcomeUnknownError, operations
from penstock.model import faults
from penstock.model.errors import FencedError
from penstock.store.etcd import EtcdStore
from penstock.store.port import Check, Conflict


def test_of_many_candidates_one_leads_and_the_next_follows_when_it_resigns(with_client):
    async def test(client):
        candidates = [
            asyncio.create_task(Election(client, "s", f"host:{i}", 60).campaign()) for i in range(5)
        ]
        revisions = []
        while candidates:
            done, rest = await asyncio.wait(candidates, return_when=asyncio.FIRST_COMPLETED)
            (one,) = done
            leadership = await one
            assert leadership.held()
            leader = await Election(client, "s", "").leader()
            assert leader is not None
            assert leader.revision == leadership.revision
            revisions.append(leadership.revision)
            candidates = list(rest)
            await leadership.resign()
            await leadership.resign()
        assert revisions == sorted(set(revisions))

    with_client(test)


def test_whoever_watches_learns_each_leader(with_client):
    async def test(client):
        told = Election(client, "s", "").observe()
        assert await anext(told) is None
        first = await Election(client, "s", "host:1", 60).campaign()
        leader = await anext(told)
        assert leader is not None
        assert (leader.address, leader.revision) == ("host:1", first.revision)
        await first.resign()
        assert await anext(told) is None

    with_client(test)


async def deposed(client, servers):
    """Return a leader that has lost its place and has not noticed, and its successor."""
    old = await Election(client, "s", "old:1", 60).campaign()
    old._watching.cancel()
    servers.control(0, "lease", "revoke", f"{old.lease.id:x}")
    new = await Election(client, "s", "new:1", 60).campaign()
    assert old.held(), "it has noticed already, and the test shows nothing"
    return old, new


def test_the_late_write_of_an_old_leader_is_refused_naming_the_new_one(servers, with_client):
    async def test(client):
        old, new = await deposed(client, servers)
        with pytest.raises(FencedError, match=r"not_leader.*new:1 leads"):
            await old.write([operations.put(f"{client.prefix}k", b"late")])
        assert not (await client.get(f"{client.prefix}k")).entries
        assert not old.held()
        await new.write([operations.put(f"{client.prefix}k", b"1")])
        await new.resign()
        await old.resign()

    with_client(test)


def test_a_leader_that_does_not_compare_is_caught(servers, with_client, monkeypatch):
    """The twin: the write that the test above sees refused goes through."""

    async def test(client):
        old, new = await deposed(client, servers)
        monkeypatch.setattr(faults, "_armed", faults.parse("etcd.leader_check=break"))
        await old.write([operations.put(f"{client.prefix}k", b"late")])
        assert (await client.get(f"{client.prefix}k")).entries[0].value == b"late"
        await new.resign()
        await old.resign()

    with_client(test)


def test_a_store_led_by_an_old_leader_refuses_its_writes(servers, with_client):
    async def test(client):
        old, new = await deposed(client, servers)
        store = EtcdStore(client)
        led = store.led_by(old)
        with pytest.raises(FencedError, match=r"not_leader.*new:1 leads"):
            await led.write([Check("a", 0)], [("a", b"late")])
        assert not await store.get("a")
        led = store.led_by(new)
        revision = await led.write([Check("a", 0)], [("a", b"1")])
        with pytest.raises(Conflict) as caught:
            await led.write([Check("a", 0)], [("a", b"2")])
        assert (caught.value.key, caught.value.revision) == ("a", revision)
        await new.resign()
        with pytest.raises(FencedError, match="not_leader"):
            await led.write([], [("a", b"3")])
        await old.resign()

    with_client(test)


def test_a_leader_whose_key_is_taken_away_notices(servers, with_client):
    async def test(client):
        leadership = await Election(client, "s", "host:1", 60).campaign()
        servers.control(0, "del", leadership.key)
        await leadership.lost.wait()  # by its watch: its lease is still there
        await leadership.resign()

    with_client(test)


def test_a_candidate_that_gives_up_leaves_nothing(with_client):
    async def test(client):
        leader = await Election(client, "s", "host:1", 60).campaign()
        candidate = asyncio.create_task(Election(client, "s", "host:2", 60).campaign())
        await asyncio.wait([candidate], timeout=0.2)
        candidate.cancel()
        await asyncio.gather(candidate, return_exceptions=True)
        await leader.resign()
        assert await Election(client, "s", "").leader() is None

    with_client(test)


def test_a_campaign_whose_answer_was_lost_knows_that_it_won(with_client, monkeypatch):
    async def test(client):
        election = Election(client, "s", "host:1", 60)
        lease = await Lease.grant(client, 60)
        put = [operations.put(election.key, b"host:1", lease.id)]
        first = await client.txn([operations.create_revision_is(election.key, 0)], put, stage="t")
        leadership = await election._create_key(lease)
        assert leadership is not None
        assert leadership.revision == first.revision
        await leadership.resign()

    with_client(test)


def test_an_outcome_that_is_not_known_is_no_refusal():
    assert not issubclass(OutcomeUnknownError, FencedError)
