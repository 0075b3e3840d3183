"""The offset service over gRPC, end to end."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError, FencedError
from penstock.model.identity import partition_id
from penstock.model.stream import PreparedTxn
from penstock.store import SqliteStore

P = partition_id({"file": "/data/a.csv"})
Q = partition_id({"file": "/data/b.csv"})

EXOTIC = {
    "lsn": 2**63 - 1,
    "ratio": 0.1,
    "whole": 1.0,
    "yes": True,
    "none": None,
    "raw": b"\x00\xff",
    "price": Decimal("1.20"),
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "day": date(1, 1, 1),
    "nested": {"list": [1, "two", {"three": 3}], "$bytes": "no tag of ours"},
}


async def claimed(mesh, epoch=0):
    made = await mesh.config.create(Connector("orders", {}))
    epoch = epoch or await mesh.config.put_plans("orders", made.generation, [])
    task = f"{made.generation}-0"
    await mesh.offset.claim(made.generation, task, epoch)
    return made.generation, task, epoch


def test_offsets_of_every_type_come_back(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.commit(generation, task, epoch, {P: EXOTIC, Q: {}})
        found = await mesh.offset.get(generation, [P, Q, partition_id({"file": "none"})])
        assert found == {P: EXOTIC, Q: {}}
        assert type(found[P]["whole"]) is float

    mesh(test)


def test_a_claim_gives_back_what_was_prepared(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        txn = PreparedTxn(1, epoch, b"\x00state", b"token")
        revision = await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}}, txn)
        assert revision == await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}}, txn)
        claim = await mesh.offset.claim(generation, task, epoch + 1)
        assert claim.last_prepared == txn
        assert claim.recover
        await mesh.offset.commit(generation, task, epoch + 1, {}, None, 1)
        assert not (await mesh.offset.claim(generation, task, epoch + 1)).recover

    mesh(test)


def test_a_fenced_owner_is_told_so(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.claim(generation, task, epoch + 1)
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}})

    mesh(test)


def test_offsets_can_be_altered_when_stopped_and_then_the_next_epoch_goes_on(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}, Q: {"pos": 1}})
        with pytest.raises(ConfigError, match=r"offset\.not_stopped"):
            await mesh.offset.alter("orders", generation, {P: {"pos": 0}})
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        await mesh.offset.alter("orders", generation, {P: {"pos": 0}, Q: None})
        assert await mesh.offset.get(generation, [P, Q]) == {P: {"pos": 0}}
        with pytest.raises(FencedError):
            await mesh.offset.commit(generation, task, epoch, {P: {"pos": 2}})
        await mesh.config.set_target_state("orders", TargetState.RUNNING)
        later = await mesh.config.put_plans("orders", generation, [])
        await mesh.offset.claim(generation, task, later)
        await mesh.offset.commit(generation, task, later, {P: {"pos": 2}})
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        await mesh.offset.reset("orders", generation)
        assert [o async for o in mesh.offset.list(generation)] == []

    mesh(test)


def test_offsets_outlive_their_connector(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}})
        await mesh.config.delete("orders")
        assert await mesh.offset.get(generation, [P]) == {P: {"pos": 1}}

    mesh(test)


def test_a_list_streams_pages_of_bounded_bytes(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        offsets = {
            partition_id({"n": f"{i:04d}"}): {"pos": i, "pad": "x" * 50_000} for i in range(200)
        }
        await mesh.offset.commit(generation, task, epoch, offsets)
        listed = [pair async for pair in mesh.offset.list(generation)]
        assert dict(listed) == offsets
        assert [id_ for id_, _ in listed] == sorted(offsets)
        some = [id_ async for id_, _ in mesh.offset.list(generation, '{"n":"01')]
        assert len(some) == 100

    mesh(test)


def test_bad_requests_are_refused_politely(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        for call in (
            mesh.offset.claim("a/b", task, epoch),
            mesh.offset.claim(generation, "", epoch),
            mesh.offset.claim(generation, task, 0),
            mesh.offset.get("../x", [P]),
            mesh.offset.commit(generation, task, epoch, {"": {"pos": 1}}),
            mesh.offset.commit(generation, task, epoch, {P: None}),
        ):
            with pytest.raises(ConfigError, match=r"offset\.invalid"):
                await call

    mesh(test)


def test_what_was_committed_is_in_the_file(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}})
        await mesh.store.close()
        store = await SqliteStore.open(mesh.folder / "state.db")
        assert len((await store.range(f"offset/{generation}/")).entries) == 1
        await store.close()

    mesh(test)
