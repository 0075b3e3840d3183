"""Task plans: by generation, all or none, under an epoch that grows (invariants 4 and 10)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from penstock.config import TaskPlans, task_plans
from penstock.config.task_plans import CHUNK_BYTES
from penstock.model.connector import Connector, RestartRequest, TargetState
from penstock.model.errors import ConfigError, PenstockError, RetriableError


async def made(room, name="orders"):
    return (await room.connectors.create(Connector(name, {}))).connector.generation


async def tasks(generation, bodies):
    for number, body in enumerate(bodies):
        yield f"{generation}-{number}", body


async def put(room, generation, *bodies, name="orders"):
    return await room.plans.put(name, generation, tasks(generation, bodies))


async def read(room, generation):
    epoch, found = await room.plans.read("orders", generation)
    return epoch, [plan async for plan in found]


async def chunks(room, generation):
    page = await room.store.range(f"plan/{generation}/")
    return [entry.key for entry in page.entries if not entry.key.endswith("/index")]


def test_plans_come_back_in_order_with_their_epoch(room):
    async def test(room):
        generation = await made(room)
        assert await read(room, generation) == (0, [])
        epoch = await put(room, generation, b"one", b"", b"three")
        assert await read(room, generation) == (epoch, [b"one", b"", b"three"])

    room(test)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 4, CHUNK_BYTES, 5 * CHUNK_BYTES])
def test_plans_of_any_size_are_read_back_and_replace_those_before_completely(room, size):
    async def test(room):
        generation = await made(room)
        await put(room, generation, bytes(7 * CHUNK_BYTES))
        body = bytes(i % 251 for i in range(size))
        epoch = await put(room, generation, body, b"next")
        assert await read(room, generation) == (epoch, [body, b"next"])
        assert len(await chunks(room, generation)) == 1 + (8 + 4 + size) // CHUNK_BYTES

    room(test)


def test_epochs_are_unique_and_grow_over_all_connectors(room):
    async def test(room):
        generation, other = await made(room), await made(room, "other")
        epochs = []
        for _ in range(5):
            epochs.append(await put(room, generation, b"x"))
            epochs.append(await put(room, other, b"x", name="other"))
        assert epochs == sorted(set(epochs))

    room(test)


def test_a_deleted_connector_takes_its_plans_and_its_history_along(room):
    async def test(room):
        generation = await made(room)
        await put(room, generation, bytes(3 * CHUNK_BYTES))
        await room.connectors.patch("orders", {"a": "1"}, (), 0)
        await room.connectors.delete("orders", 0)
        (note,) = (await room.store.range("")).entries
        assert note.key == f"gone/{generation}"

    room(test)


def test_a_namesake_never_meets_the_plans_of_the_deleted(room):
    async def test(room):
        old = await made(room)
        await put(room, old, b"old")
        await room.connectors.delete("orders", 0)
        new = await made(room)
        with pytest.raises(ConfigError, match=r"config\.generation_changed"):
            await put(room, old, b"late")
        assert await read(room, old) == (0, [])
        assert await read(room, new) == (0, [])

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
@pytest.mark.parametrize("size", [4, 2 * CHUNK_BYTES])
def test_a_connector_that_goes_between_check_and_write_gets_no_plans(room, again, size):
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
            await put(room, generation, bytes(size))
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
                _, (body,) = await read(room, generation)
            assert len(set(body)) <= 1
            assert len(body) % CHUNK_BYTES == 0
        await replacing

    room(test)


@pytest.mark.parametrize(
    "ids",
    [["other-0"], ["{g}"], ["{g}-x"], ["{g}-0", "{g}-0"], ["{g}-1", "{g}-0"], ["{g}-0/1"]],
)
def test_task_ids_are_of_the_generation_each_once_in_order(room, ids):
    async def test(room):
        generation = await made(room)

        async def named():
            for id_ in ids:
                yield id_.format(g=generation), bytes(CHUNK_BYTES)

        with pytest.raises(ConfigError, match=r"config\.plan_task_id"):
            await room.plans.put("orders", generation, named())
        assert await chunks(room, generation) == []

    room(test)


def test_more_tasks_or_bytes_than_the_limit_are_refused_and_leave_no_chunk(room, monkeypatch):
    async def test(room):
        generation = await made(room)
        with pytest.raises(ConfigError, match=r"config\.plan_too_large.*bytes"):
            await put(room, generation, *[bytes(CHUNK_BYTES)] * 5)
        with pytest.raises(ConfigError, match=r"config\.plan_too_large.*tasks"):
            await put(room, generation, *[b""] * 11)
        assert await chunks(room, generation) == []

    monkeypatch.setattr(task_plans, "MAX_PLAN_BYTES", 4 * CHUNK_BYTES)
    monkeypatch.setattr(task_plans, "MAX_TASKS", 10)
    room(test)


@pytest.mark.parametrize("point", ["config.storing", "config.stored"])
def test_plans_are_replaced_all_or_none_whatever_fails(room, arm, point):
    async def test(room):
        generation = await made(room)
        await put(room, generation, b"old")
        new = b"n" * 2 * CHUNK_BYTES
        arm(f"{point}=raise")
        with pytest.raises(PenstockError, match=r"fault\.injected"):
            await put(room, generation, new)
        _, (body,) = await read(room, generation)
        assert body == (b"old" if point == "config.storing" else new)

    room(test)


def test_chunks_that_a_crash_left_are_deleted_by_a_later_upload(room, arm):
    async def test(room):
        generation = await made(room)
        arm("config.storing=raise")
        with pytest.raises(PenstockError, match=r"fault\.injected"):
            await put(room, generation, bytes(3 * CHUNK_BYTES))
        arm("")
        assert len(await chunks(room, generation)) == 3
        later = TaskPlans(room.store, room.connectors, clock=lambda: 10_000.0)
        await later.put("orders", generation, tasks(generation, [bytes(CHUNK_BYTES)]))
        assert len(await chunks(room, generation)) == 2

    room(test)


def test_changes_of_the_connector_while_planning_are_no_reason_to_refuse(room):
    async def test(room):
        generation = await made(room)
        results = await asyncio.gather(
            *(put(room, generation, b"x") for _ in range(5)),
            room.connectors.set_target_state("orders", TargetState.PAUSED),
            room.connectors.request_restart("orders", RestartRequest(0)),
        )
        assert len(set(results[:5])) == 5

    room(test)
