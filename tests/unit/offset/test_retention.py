"""Offsets of deleted connectors are kept for a time, then deleted; those of others never are."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.connector import TargetState
from penstock.model.errors import ConfigError
from penstock.offset import Commit, StopGuard
from penstock.offset.retention import DEFAULT_RETENTION_S as DEFAULT
from penstock.offset.retention import OffsetRetention

G, T = "g1", "g1-0"
KEPT = 100.0


async def ran(room):
    await room.commits.claim(G, T, 5)
    await room.commits.commit(Commit(G, T, 5, {"p": b"1"}))


async def kept(room):
    return [entry.key for entry in (await room.store.range("")).entries if G in entry.key]


async def all_gone(room):
    async with asyncio.timeout(60):  # keys are removed in the background
        while await kept(room):
            await asyncio.sleep(0.01)


def looking(room, now):
    owner = StopGuard(room.connectors, room.connectors)
    return OffsetRetention(room.store, owner, room.bulk, KEPT, lambda: now[0])


def test_offsets_of_a_deleted_connector_are_deleted_after_the_retention_time(room):
    async def test(room):
        now = [0.0]
        leftovers = looking(room, now)
        await ran(room)
        await leftovers.run_once()
        del room.connectors.names[G]
        now[0] = 1000.0
        await leftovers.run_once()
        now[0] += KEPT - 1
        await leftovers.run_once()
        assert await kept(room)
        now[0] += 1
        await leftovers.run_once()
        await all_gone(room)

    room(test)


@pytest.mark.parametrize("state", list(TargetState))
def test_offsets_of_a_living_connector_are_never_touched(room, state):
    async def test(room):
        now = [0.0]
        leftovers = looking(room, now)
        room.connectors.state = state
        await ran(room)
        before = await kept(room)
        del room.connectors.names[G]  # a config service that has lost its connectors
        await leftovers.run_once()
        room.connectors.names[G] = "orders"  # until it got them back
        now[0] += 10 * KEPT
        await leftovers.run_once()
        assert await kept(room) == before
        del room.connectors.names[G]  # the while begins anew
        await leftovers.run_once()
        assert await kept(room) == before

    room(test)


def test_offsets_that_a_namesake_may_take_up_are_never_touched(room):
    async def test(room):
        now = [0.0]
        leftovers = looking(room, now)
        await ran(room)
        del room.connectors.names[G]
        room.connectors.kept.add(G)
        for _ in range(3):
            await leftovers.run_once()
            now[0] += 10 * KEPT
        assert await room.commits.claim(G, T, 6)
        with pytest.raises(ConfigError, match=r"offset\.connector_not_found"):
            await room.bulk.reset("orders", G, forget=True)  # a namesake may have started since
        room.connectors.kept.clear()
        for _ in range(2):
            await leftovers.run_once()
            now[0] += KEPT
        await all_gone(room)

    room(test)


def test_offsets_are_kept_while_a_zombie_may_still_write(room):
    async def test(room):
        now = [0.0]
        leftovers = looking(room, now)
        await ran(room)
        del room.connectors.names[G]
        room.connectors.running = [T]
        await leftovers.run_once()
        now[0] += KEPT
        await leftovers.run_once()
        assert await kept(room)
        room.connectors.running = []
        await leftovers.run_once()
        await all_gone(room)

    room(test)


def test_the_default_retention_is_a_day():
    assert DEFAULT == 24 * 60 * 60
