"""Task plans in the store: all or none, under an epoch that grows, by the leader alone
(invariants 4 and 10).
"""

from __future__ import annotations

import asyncio
import json
import struct

import pytest

from penstock.model.connector import Connector, Partition, TargetState, TaskPlan
from penstock.model.errors import FencedError, PenstockError, RetriableError
from penstock.scheduler import service
from penstock.scheduler.leader import stored_state
from penstock.scheduler.leader.connector_plans import PlanningLoop
from penstock.scheduler.leader.stored_plans import (
    CHUNK_BYTES,
    PlansInForce,
    PlanStore,
    join_frames,
    load_plans,
    split_frames,
)
from penstock.scheduler.state.records import PlanRecord, decode_plan_record
from penstock.store.sqlite import SqliteStore
from penstock.wire.connector import PLAN
from support.leadership import StoreLeadership
from support.waiting import until


class Room:
    """A store with two instances of which the first leads."""

    def __init__(self, store):
        self.store = store
        self.first, self.second = StoreLeadership(store, "first"), StoreLeadership(store, "second")
        self.plans = PlanStore(self.first, store)

    async def put(self, *plans, generation="g", plans_of=None):
        messages = [PLAN.to_proto(plan).SerializeToString() for plan in plans]
        record = PlanRecord("digest", 0, applied=1)
        return (await (plans_of or self.plans).put(generation, record, messages)).epoch

    async def in_force(self, generation="g"):
        return (await load_plans(self.store)).by_generation.get(generation, PlansInForce())

    async def chunks(self, generation="g"):
        page = await self.store.range(f"plan/{generation}/")
        return [entry.key for entry in page.entries if not entry.key.endswith("/index")]

    async def keys(self):
        return {entry.key: entry.revision for entry in (await self.store.range("plan")).entries}


@pytest.fixture
def room(tmp_path):
    """Runs a test on a fresh store."""

    def run(test):
        async def main():
            store = await SqliteStore.open(tmp_path / "plans.db")
            room = Room(store)
            await room.first.acquire()
            try:
                async with asyncio.timeout(60):
                    await test(room)
            finally:
                await store.close()

        asyncio.run(main())

    return run


def of(number, size=1, generation="g"):
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    return TaskPlan(f"{generation}-{number}", (Partition({"p": number}, payload=body),))


# ── the stored form ──


def test_plans_come_back_in_order_with_their_epoch_and_their_record(room):
    async def test(room):
        assert await room.in_force() == PlansInForce()
        epoch = await room.put(of(0), of(2), of(10))
        assert await room.in_force() == PlansInForce(epoch, (of(0), of(2), of(10)))
        ((_, record),) = map(decode_plan_record, (await room.store.range("planned/")).entries)
        assert record == PlanRecord("digest", epoch, applied=1)
        assert await room.plans.epoch_of("g") == epoch

    room(test)


@pytest.mark.parametrize(
    "sizes", [[], [0], [0, 1, 0], [CHUNK_BYTES - 4], [CHUNK_BYTES], [7, CHUNK_BYTES * 3, 7]]
)
def test_frames_of_any_size_are_joined_again(sizes):
    plans = [bytes([n]) * size for n, size in enumerate(sizes)]
    chunks = list(split_frames(plans))
    assert all(len(chunk) == CHUNK_BYTES for chunk in chunks[:-1])
    assert join_frames(chunks) == plans


@pytest.mark.parametrize("size", [0, CHUNK_BYTES, 5 * CHUNK_BYTES])
def test_plans_replace_those_before_completely(room, size):
    async def test(room):
        await room.put(of(0, 7 * CHUNK_BYTES))
        epoch = await room.put(of(0, size), of(1))
        assert await room.in_force() == PlansInForce(epoch, (of(0, size), of(1)))
        assert len(await room.chunks()) == 1 + size // CHUNK_BYTES
        assert (await load_plans(room.store)).leftovers == ()

    room(test)


def test_epochs_are_unique_and_grow_over_all_connectors(room):
    async def test(room):
        epochs = []
        for _ in range(5):
            epochs.append(await room.put(of(0)))
            epochs.append(await room.put(of(0, generation="h"), generation="h"))
        assert epochs == sorted(set(epochs))

    room(test)


@pytest.mark.parametrize("point", ["scheduler.storing_plans", "scheduler.stored_plans"])
def test_plans_are_replaced_all_or_none_whatever_fails(room, arm, point):
    async def test(room):
        await room.put(of(0))
        new = of(0, 2 * CHUNK_BYTES)
        arm(f"{point}=raise")
        with pytest.raises(PenstockError, match=r"fault\.injected"):
            await room.put(new)
        expected = of(0) if point == "scheduler.storing_plans" else new
        assert (await room.in_force()).plans == (expected,)

    room(test)


def test_chunks_that_a_failure_left_are_found_at_the_next_start_and_deleted_by_the_next_plans(
    room, arm
):
    async def test(room):
        before = await room.put(of(0))
        arm("scheduler.storing_plans=raise")
        with pytest.raises(PenstockError, match=r"fault\.injected"):
            await room.put(of(0, 3 * CHUNK_BYTES))
        arm("")
        loaded = await load_plans(room.store)
        assert loaded.by_generation["g"].epoch == before
        assert len(loaded.leftovers) == 3
        await room.put(of(0, CHUNK_BYTES))
        assert len(await room.chunks()) == 2
        assert (await load_plans(room.store)).leftovers == ()

    room(test)


def test_plans_of_a_generation_are_deleted_and_no_others(room):
    async def test(room):
        await room.put(of(0, 40 * CHUNK_BYTES))
        await room.put(of(0, generation="gg"), generation="gg")
        await room.plans.delete_generation("g")
        assert await room.chunks() == []
        assert (await load_plans(room.store)).by_generation.keys() == {"gg"}

    room(test)


DAMAGES = {
    "no chunk": ("", lambda _: None),
    "half a chunk": ("", lambda value: value[: len(value) // 2]),
    "no message": ("", lambda _: struct.pack(">I", 3) + b"\xff\xff\xff"),
    "no JSON": ("index", lambda _: b"{"),
    "a form from before plans were streamed": ("index", lambda _: b'{"tasks": 1}'),
}


@pytest.mark.parametrize(("where", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_plans_that_cannot_be_read_are_none_and_stop_no_leader(room, where, damage, caplog):
    async def test(room):
        await room.put(of(0))
        await room.put(of(0, generation="h"), generation="h")
        entries = (await room.store.range("plan/g/")).entries
        (entry,) = (e for e in entries if e.key.endswith("index") == bool(where))
        await room.store.write([], [(entry.key, damage(entry.value))])
        loaded = await load_plans(room.store)
        assert loaded.by_generation.keys() == {"h"}
        assert "the plans of generation g cannot be read" in caplog.text
        epoch = await room.put(of(1))
        assert await room.in_force() == PlansInForce(epoch, (of(1),))

    room(test)


# ── the fence ──


@pytest.mark.parametrize("size", [1, 3 * CHUNK_BYTES])
def test_plans_of_an_instance_that_no_longer_leads_are_refused_and_leave_nothing(room, size):
    async def test(room):
        await room.put(of(0))
        before = await room.keys()
        await room.second.acquire()
        with pytest.raises(FencedError, match=r"scheduler\.not_leader"):
            await room.put(of(0, size), of(1))
        with pytest.raises(FencedError, match=r"scheduler\.not_leader"):
            await room.plans.delete_generation("g")
        assert await room.keys() == before
        newer = PlanStore(room.second, room.store)
        assert await room.put(of(5), plans_of=newer) > max(before.values())

    room(test)


@pytest.mark.parametrize("size", [1, 3 * CHUNK_BYTES])
def test_breaking_the_leader_check_lets_late_plans_in(room, size):
    """The twin: what the test above asserts is not there any more."""

    async def test(room):
        await room.put(of(0))
        room.first.compares = False
        await room.second.acquire()
        epoch = await room.put(of(0, size), of(1))
        assert (await room.in_force()).epoch == epoch

    room(test)


def test_the_late_plans_of_an_old_leader_are_refused_and_end_it(mesh, patient):
    """It asked a worker while it led; the answer comes when another instance leads."""

    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 2)
        await until(lambda: len(worker.held) == 2, "tasks run")
        answer, make = asyncio.Event(), mesh.plans.plan
        asked = len(mesh.plans.asked)

        async def late(address, connector):
            made = await make(address, connector)
            await answer.wait()
            return made

        mesh.plans.plan = late
        await mesh.create("orders", 3)
        await until(lambda: len(mesh.plans.asked) > asked, "a worker is asked")
        await mesh.second.lead()
        before = {entry.key: entry for entry in (await mesh.store.range("plan")).entries}
        answer.set()
        await asyncio.wait_for(mesh.first.leading, 60)
        assert {entry.key: entry for entry in (await mesh.store.range("plan")).entries} == before

    mesh(test, patient)


# ── the leader ──


async def stored_plans_of(mesh, generation):
    """Return the stored plans of a generation."""
    return (await load_plans(mesh.store)).by_generation.get(generation, PlansInForce())


def test_what_was_just_planned_is_not_planned_again_after_its_old_plans(mesh, monkeypatch):
    """Plans may come while a turn stores its round: its end must not see the ones before them."""

    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task runs")
        answer, make, store = asyncio.Event(), mesh.plans.plan, stored_state.store_round
        planning: PlanningLoop = mesh.first.scheduler.leader()._planning
        asked, in_between = len(mesh.plans.asked), []

        async def slow(address, connector):
            made = await make(address, connector)
            if connector.name == "orders":
                await answer.wait()
            return made

        async def storing(leadership, write):
            revision = await store(leadership, write)
            if not answer.is_set() and len(mesh.plans.asked) == asked + 2:
                answer.set()
                await until(lambda: planning._replanned, "the plans are stored")
                in_between.append(True)
            return revision

        mesh.plans.plan = slow
        await mesh.create("orders", 2)
        await until(lambda: len(mesh.plans.asked) > asked, "it is being planned")
        monkeypatch.setattr(stored_state, "store_round", storing)
        await mesh.create("other", 1)
        await until(lambda: len(worker.held) == 3, "all tasks run")
        assert in_between
        for _ in range(3):
            await mesh.first.scheduler.leader().wait_for_turn()
        assert len(mesh.plans.asked) == asked + 2

    mesh(test)


def test_the_plans_of_a_deleted_connector_are_deleted_also_when_nobody_led_meanwhile(mesh, patient):
    async def test(mesh):
        worker = mesh.join("w1")
        for name in ("orders", "later", "kept"):
            await mesh.create(name, 1)
        await until(lambda: len(worker.held) == 3, "tasks run")
        await mesh.config.delete("orders")
        await until(lambda: len(worker.held) == 2, "its task is gone")
        await mesh.first.scheduler.leader().wait_for_turn()
        assert len((await load_plans(mesh.store)).by_generation) == 2
        await mesh.first.resign()
        await mesh.config.delete("later")
        kept = await mesh.config.get("kept")
        leader = await mesh.second.lead()
        await worker.disconnect()
        worker.connect(mesh.second.address)
        await until(lambda: leader.cluster.owned.keys() == {f"{kept.generation}-0"}, "it is seen")
        await leader.wait_for_turn()
        assert {*(await load_plans(mesh.store)).by_generation} == {kept.generation}
        assert [e.key for e in (await mesh.store.range("planned/")).entries] == [
            f"planned/{kept.generation}"
        ]

    mesh(test, patient)


def test_a_namesake_gets_nothing_of_plans_that_come_after_the_deletion(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        answer, make = asyncio.Event(), mesh.plans.plan
        first = True

        async def slow(address, connector):
            nonlocal first
            made = await make(address, connector)
            if first:
                first = False
                await answer.wait()
            return made

        mesh.plans.plan = slow
        old = await mesh.create("orders", 3)
        await until(lambda: mesh.plans.asked, "it is being planned")
        await mesh.config.delete("orders")
        new = await mesh.create("orders", 1)
        await until(lambda: worker.held.keys() == {f"{new.generation}-0"}, "the new one runs")
        answer.set()
        leader = mesh.first.scheduler.leader()
        await until(lambda: old.generation not in leader._planning._in_force, "it is done")
        for _ in range(3):
            await leader.wait_for_turn()
        assert {*(await load_plans(mesh.store)).by_generation} == {new.generation}
        assert worker.held.keys() == {f"{new.generation}-0"}

    mesh(test)


def test_plans_of_which_nobody_knows_whether_they_were_stored_are_made_again(mesh, arm):
    async def test(mesh):
        worker = mesh.join("w1")
        arm("scheduler.stored_plans=raise@1")
        stored = await mesh.create("orders", 2)
        await until(lambda: len(worker.held) == 2, "tasks run")
        leader = mesh.first.scheduler.leader()
        desired = leader.cluster.connectors[stored.generation]
        assert len(mesh.plans.asked) == 2
        found = await stored_plans_of(mesh, stored.generation)
        assert (found.epoch, found.plans) == (desired.plan_epoch, desired.plans)
        assert (await load_plans(mesh.store)).leftovers == ()

    mesh(test)


def test_another_leader_has_the_same_plans_and_plans_nothing(mesh, patient):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 3, monitor="true")
        await until(lambda: len(worker.held) == 4, "tasks and the monitor run")
        epochs = {id_: status.epoch for id_, status in worker.held.items()}
        plan_epochs, asked = worker.monitors, len(mesh.plans.asked)
        leader = await mesh.second.lead()
        await worker.disconnect()
        worker.connect(mesh.second.address)
        await until(lambda: len(leader.sessions) == 1, "it is there")
        for _ in range(3):
            await leader.wait_for_turn()
        assert {id_: status.epoch for id_, status in worker.held.items()} == epochs
        assert (worker.monitors, len(mesh.plans.asked)) == (plan_epochs, asked)

    mesh(test, patient)


@pytest.mark.parametrize("together", [0, 100, service.MAX_PLANS_BYTES])
def test_plans_are_listed_whole_however_many_fit_into_a_message(mesh, monkeypatch, together):
    monkeypatch.setattr(service, "MAX_PLANS_BYTES", together)

    async def test(mesh):
        worker = mesh.join("w1")
        mesh.plans.payload = bytes(1000)
        stored = await mesh.create("orders", 12)
        assert await mesh.first.client.list_plans("unknown") == ()
        await until(lambda: len(worker.held) == 12, "tasks run")
        plans = await mesh.first.client.list_plans(stored.generation)
        assert [plan.task_id for plan in plans] == [f"{stored.generation}-{n}" for n in range(12)]
        assert all(len(plan.partitions[0].payload) == 1000 for plan in plans)
        await mesh.second.leadership.refresh()
        with pytest.raises(RetriableError, match=r"scheduler\.not_leader"):
            await mesh.second.client.list_plans(stored.generation)
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        await until(lambda: not worker.held, "it is stopped")
        assert await mesh.first.client.list_plans(stored.generation) == plans

    mesh(test)


# ── what an earlier version stored ──


def earlier_plans(generation, plans):
    """Return what the config service of an earlier version stored: the index, and a chunk."""
    messages = [PLAN.to_proto(plan).SerializeToString() for plan in plans]
    chunk = b"".join(struct.pack(">I", len(one)) + one for one in messages)
    token = "006b068a00-8d01f20c8268"
    index = {"token": token, "chunks": 1, "tasks": len(plans), "size": len(chunk)}
    return {
        f"plan/{generation}/index": json.dumps(index).encode(),
        f"plan/{generation}/{token}/000000": chunk,
    }


async def downgraded(mesh, *, elsewhere):
    """Rewrite the state as the earlier version would have stored it; `elsewhere`: its config
    service had another store. The leader has resigned.
    """
    for generation, found in (await load_plans(mesh.store)).by_generation.items():
        stale = (await mesh.store.range(f"plan/{generation}/")).entries
        plans = {} if elsewhere else earlier_plans(generation, found.plans)
        epoch = await mesh.store.write(
            [], [*((entry.key, None) for entry in stale), *plans.items()]
        )
        key = f"planned/{generation}"
        record = json.loads((await mesh.store.get(key))[key].value) | {"epoch": epoch}
        await mesh.store.write([], [(key, json.dumps(record).encode())])


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_state_of_the_earlier_version_is_taken_over_and_nothing_restarts(
    mesh, patient, elsewhere
):
    """Plans in the store of the scheduler are read as they are. Where they were in PostgreSQL the
    connectors are planned again, and their tasks run on until then.
    """

    async def test(mesh):
        worker = mesh.join("w1")
        for name in ("orders", "others"):
            await mesh.create(name, 3)
        await until(lambda: len(worker.held) == 6, "tasks run")
        epochs = {id_: status.epoch for id_, status in worker.held.items()}
        asked, starts = len(mesh.plans.asked), len(worker.starts)
        answer, make = asyncio.Event(), mesh.plans.plan

        async def slow(address, connector):
            made = await make(address, connector)
            await answer.wait()
            return made

        mesh.plans.plan = slow
        await mesh.first.resign()
        await worker.disconnect()
        await downgraded(mesh, elsewhere=elsewhere)
        leader = await mesh.second.lead()
        worker.connect(mesh.second.address)
        await until(lambda: len(leader.sessions) == 1, "it is there")
        if elsewhere:
            await until(lambda: len(mesh.plans.asked) == asked + 2, "both are planned again")
        for _ in range(3):
            await leader.wait_for_turn()
        assert {id_: status.epoch for id_, status in worker.held.items()} == epochs
        answer.set()
        await until(
            lambda: all(one.has_current_plans for one in leader.cluster.connectors.values()),
            "plans are in force",
        )
        for _ in range(3):
            await leader.wait_for_turn()
        assert len(mesh.plans.asked) == asked + 2 * elsewhere
        assert {id_: status.epoch for id_, status in worker.held.items()} == epochs
        assert len(worker.starts) == starts
        await mesh.create("orders", 4)
        await until(lambda: len(worker.held) == 7, "it is planned for its new configuration")

    mesh(test, patient)


def test_what_the_earlier_version_left_of_deleted_connectors_is_deleted(mesh, patient):
    async def test(mesh):
        await mesh.first.resign()
        left = earlier_plans("gone", [of(0, generation="gone")])
        half = earlier_plans("half", [of(0, generation="half")])
        del half["plan/half/index"]
        await mesh.store.write([], [*left.items(), *half.items()])
        leader = await mesh.second.lead()
        mesh.join("w1", mesh.second)
        await mesh.config.put(Connector("orders", {"partitions": "1"}))
        await until(lambda: mesh.loads() == [1], "a task runs")
        await leader.wait_for_turn()
        keys = [entry.key for entry in (await mesh.store.range("plan/")).entries]
        assert len(keys) == 2
        assert not any(key.startswith(("plan/gone", "plan/half")) for key in keys)

    mesh(test, patient)
