"""Task plans: by generation, all or none, under an epoch that grows (invariants 4 and 10)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from penstock.config import StoredPlans
from penstock.config.plans import CHUNK_BYTES
from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError, PenstockError, RetriableError


async def made(room, name="orders"):
    return (await room.connectors.create(Connector(name, {}))).connector.generation


async def put(room, generation, body, tasks=1):
    ids = [f"{generation}-{i}" for i in range(tasks)]
    return await room.plans.put("orders", generation, ids, body)


def test_plans_come_back_with_their_epoch(room):
    async def test(room):
        generation = await made(room)
        assert await room.plans.list("orders", generation) == StoredPlans()
        epoch = await put(room, generation, b"plans")
        assert await room.plans.list("orders", generation) == StoredPlans(b"plans", epoch)

    room(test)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES])
def test_plans_of_any_size_come_back_whole_and_leave_nothing_of_those_before(room, size):
    async def test(room):
        generation = await made(room)
        await put(room, generation, bytes(7 * CHUNK_BYTES))
        body = bytes(i % 251 for i in range(size))
        epoch = await put(room, generation, body)
        assert await room.plans.list("orders", generation) == StoredPlans(body, epoch)
        page = await room.store.range(f"plan/{generation}/")
        assert len(page.entries) == 1 + -(-size // CHUNK_BYTES)
        assert {entry.revision for entry in page.entries} == {epoch}

    room(test)


def test_epochs_are_unique_and_grow_over_all_connectors(room):
    async def test(room):
        generation, other = await made(room), await made(room, "other")
        epochs = []
        for _ in range(5):
            epochs.append(await put(room, generation, b"x"))
            epochs.append(await room.plans.put("other", other, [f"{other}-0"], b"x"))
        assert epochs == sorted(set(epochs))

    room(test)


def test_a_deleted_connector_takes_its_plans_along(room):
    async def test(room):
        generation = await made(room)
        await put(room, generation, bytes(3 * CHUNK_BYTES))
        await room.connectors.delete("orders", 0)
        assert (await room.store.range("")).entries == ()

    room(test)


def test_a_namesake_never_meets_the_plans_of_the_deleted(room):
    async def test(room):
        old = await made(room)
        await put(room, old, b"old")
        await room.connectors.delete("orders", 0)
        new = await made(room)
        with pytest.raises(ConfigError, match=r"config\.generation_changed"):
            await put(room, old, b"late")
        assert await room.plans.list("orders", old) == StoredPlans()
        assert await room.plans.list("orders", new) == StoredPlans()

    room(test)


def test_breaking_the_generation_check_leaves_plans_of_the_dead(room, arm):
    """The twin: what the test above asserts is not there any more."""

    async def test(room):
        old = await made(room)
        await room.connectors.delete("orders", 0)
        await made(room)
        arm("config.generation_check=break")
        await put(room, old, b"late")
        assert (await room.store.range(f"plan/{old}/")).entries

    room(test)


def test_plans_that_race_with_a_deletion_are_gone_or_refused(room):
    async def test(room):
        for _ in range(20):
            generation = await made(room)
            await asyncio.gather(
                put(room, generation, bytes(2 * CHUNK_BYTES)),
                put(room, generation, b"x"),
                room.connectors.delete("orders", 0),
                return_exceptions=True,
            )
            assert (await room.store.range(f"plan/{generation}/")).entries == ()

    room(test)


@pytest.mark.parametrize("again", [False, True])
def test_a_connector_that_goes_between_check_and_write_gets_no_plans(room, again):
    async def test(room):
        generation = await made(room)
        write = room.store.write

        async def late(checks, puts):
            room.store.write = write
            await room.connectors.delete("orders", 0)
            if again:
                await made(room)
            return await write(checks, puts)

        room.store.write = late
        with pytest.raises(ConfigError, match=r"config\.(not_found|generation_changed)"):
            await put(room, generation, b"late")
        assert (await room.store.range(f"plan/{generation}/")).entries == ()

    room(test)


def test_plans_are_read_whole_while_they_are_replaced(room):
    async def test(room):
        generation = await made(room)
        await put(room, generation, b"0" * 2 * CHUNK_BYTES)

        async def replace():
            for i in range(1, 30):
                await put(room, generation, str(i % 10).encode() * (i % 5) * CHUNK_BYTES)

        body = b""
        replacing = asyncio.create_task(replace())
        while not replacing.done():
            with suppress(RetriableError):  # config.contended: replaced faster than read
                body = (await room.plans.list("orders", generation)).body
            assert len(set(body)) <= 1
            assert len(body) % CHUNK_BYTES == 0
        await replacing

    room(test)


@pytest.mark.parametrize(
    "ids", [["other-0"], ["{g}"], ["{g}-x"], ["{g}-0", "{g}-0"], ["{g}-0/1"], ["x{g}-0"]]
)
def test_task_ids_are_of_the_generation_each_once(room, ids):
    async def test(room):
        generation = await made(room)
        named = [id_.format(g=generation) for id_ in ids]
        with pytest.raises(ConfigError, match=r"config\.plan_task_id"):
            await room.plans.put("orders", generation, named, b"x")

    room(test)


@pytest.mark.parametrize("point", ["config.storing", "config.stored"])
def test_plans_are_replaced_all_or_none_whatever_fails(room, arm, point):
    async def test(room):
        generation = await made(room)
        await put(room, generation, b"old")
        arm(f"{point}=raise")
        with pytest.raises(PenstockError, match=r"fault\.injected"):
            await put(room, generation, b"n" * 2 * CHUNK_BYTES)
        body = (await room.plans.list("orders", generation)).body
        assert body == (b"old" if point == "config.storing" else b"n" * 2 * CHUNK_BYTES)

    room(test)


def test_a_change_of_state_while_planning_is_no_reason_to_refuse(room):
    async def test(room):
        generation = await made(room)
        results = await asyncio.gather(
            *(put(room, generation, b"x") for _ in range(5)),
            room.connectors.set_target_state("orders", TargetState.PAUSED),
        )
        assert len(set(results[:5])) == 5

    room(test)
