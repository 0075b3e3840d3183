"""What is wrong is refused with a code, or is its owner's failure alone; the leader goes on."""

from __future__ import annotations

import asyncio
import math
import random

import pytest

from bench.simulated import Simulation
from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.client import PlannedConnector
from penstock.model.connector import Connector, Partition, TaskPlan
from penstock.model.errors import ConfigError, PenstockError
from penstock.model.status import RunState
from penstock.scheduler.leading.plans import PLAN_BYTES, _divided
from penstock.scheduler.state.assignment import Task, Worker, assign
from penstock.scheduler.state.events import Member, PlanWish
from penstock.scheduler.state.failures import RestartPolicy
from penstock.scheduler.state.ownership import UNSEEN, Workers
from penstock.scheduler.state.plan_needs import PlanNeeds
from penstock.scheduler.state.records import Owned, Planned, Record, decode_planned
from penstock.scheduler.state.wanted import MOST_TASKS, Wanted, config_digest
from support.waiting import until


async def failure_of(client, name):
    """Return why a connector has failed, once it has."""
    async with asyncio.timeout(60):
        while True:
            found = await client.statuses()
            if found and found[0].state is RunState.FAILED:
                assert found[0].name == name
                return found[0].diagnostic
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -1, 0, 1e308])
def test_no_number_of_a_worker_or_a_connector_stops_the_assignment(number):
    tasks = [Task("a-0", "a", number), Task("b-0", "b"), Task("b-1", "b")]
    workers = [Worker("x", capacity=number), Worker("y")]
    after = assign(tasks, workers, {})
    assert after.keys() == {"a-0", "b-0", "b-1"}
    assert assign(tasks, workers, after) == after


def test_a_session_without_an_id_or_for_another_worker_is_refused(mesh):
    async def test(mesh):
        async def session(*ids):
            async def reports():
                for id_ in ids:
                    yield pb.SessionRequest(worker_id=id_)
                await asyncio.sleep(20)

            async for _ in mesh.first.client.session(reports()):
                pass

        with pytest.raises(ConfigError, match=r"scheduler\.worker_nameless"):
            await session("")
        with pytest.raises(ConfigError, match=r"scheduler\.worker_changed"):
            await session("w1", "w2")

    mesh(test)


def test_a_plan_with_too_many_tasks_is_refused_whole(mesh):
    async def test(mesh):
        worker = mesh.join("w1")

        async def plan(address, connector):
            grouped = (TaskPlan("", (), {"n": str(n)}) for n in range(MOST_TASKS + 1))
            return PlannedConnector(tuple(grouped))

        mesh.plans.plan = plan
        await mesh.create("orders", 1)
        why = await failure_of(mesh.first.client, "orders")
        assert (why.code, why.config_path) == ("scheduler.too_many_tasks", "tasks.max")
        assert not worker.held
        ((_, noted),) = map(decode_planned, (await mesh.store.range("planned/")).entries)
        assert noted == Planned(applied=1), "it has no plans"

    mesh(test)


def test_a_plan_that_fits_into_no_message_is_refused():
    wish = PlanWish(Connector("c", {}, generation="g"), 1, (), "w", "")
    large = TaskPlan("", tuple(Partition({"p": n}, payload=bytes(1 << 20)) for n in range(9)))
    assert PLAN_BYTES == 8 << 20
    with pytest.raises(PenstockError, match=r"scheduler\.plan_too_large"):
        _divided(wish, [large])


def test_a_plan_that_nobody_foresaw_is_the_failure_of_its_connector_alone(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        mesh.plans.error = ZeroDivisionError("in the planner")
        await mesh.create("orders", 1)
        assert (await failure_of(mesh.first.client, "orders")).code == "scheduler.plan"
        leader = mesh.first.scheduler.leader()
        mesh.plans.error = None
        await mesh.create("zebras", 1)
        await until(lambda: len(worker.held) >= 1, "another connector runs")
        assert mesh.first.scheduler.leader() is leader

    mesh(test)


def test_a_worker_whose_lease_ended_is_told_so_and_comes_again():
    """Its session would go on for ever, and nothing that it says would be heard."""
    mesh = Simulation()
    id_ = mesh.join("n0")
    mesh.create("c", 2)
    mesh.settle()
    assert mesh.cluster.members([], mesh.revision + 1, mesh.now) == {id_}
    assert id_ not in mesh.cluster.workers.sessions
    assert mesh.cluster.members([], mesh.revision + 2, mesh.now) == frozenset()


def test_an_owner_in_no_list_is_waited_for_only_so_long():
    workers = Workers()
    owned = Owned(Record("never-seen", "", "g", "d"), 100)
    workers.update([Member("a")], 50, 0.0)
    assert workers.unknown(owned)
    assert not workers.gone(owned)
    workers.update([Member("a")], 50, UNSEEN)
    assert workers.gone(owned)


def test_an_owner_that_left_is_gone_however_new_its_record_is():
    workers = Workers()
    workers.update([Member("a"), Member("b")], 50, 0.0)
    owned = Owned(Record("a", "", "g", "d"), 100)  # written after the list that follows was read
    assert workers.update([Member("b")], 56, 0.1) == {"a"}
    assert workers.gone(owned)


def test_workers_that_are_gone_are_forgotten():
    workers = Workers()
    for n in range(100):
        workers.update([Member(f"w{n}")], n + 1, float(n))
        workers.open(f"x{n}")
        workers.close(f"x{n}")
    workers.forget({"w0"})
    assert len(workers._lost) <= UNSEEN + 1
    assert not workers._heard


def test_another_number_of_tasks_counts_at_once_and_a_new_leader_keeps_what_there_is():
    def wish_of(config, plans=()):
        needs = PlanNeeds(RestartPolicy(), random.Random(1))
        workers = Workers()
        workers.update([Member("a", address="a")], 1, 0)
        connector = Connector("c", config, generation="g")
        wanted = Wanted(connector, plans, 5, config_digest(connector))
        needs.ask("g")
        (wish,) = needs.wishes([wanted], workers, 0)
        needs.made("g", "a", Planned("old", 5), 0)
        more = Connector("c", config | {"tasks.max": "9"}, generation="g", revision=9)
        (after,) = needs.wishes([Wanted(more, plans, 5, "old")], workers, 0)
        return wish.tasks, after.tasks

    plans = tuple(TaskPlan(f"g-{n}") for n in range(4))
    assert wish_of({"tasks.max": "2"}) == (2, 9)
    assert wish_of({"tasks.max": "8", "lag.target": "5s"}) == (1, 1)
    assert wish_of({"tasks.max": "8", "lag.target": "5s"}, plans) == (4, 4)
    assert wish_of({"tasks.max": "3", "lag.target": "5s"}, plans) == (3, 3)


def test_a_restart_waits_until_the_new_form_is_known():
    """With the new configuration and the old plan it would be neither the one nor the other."""
    mesh = Simulation()
    mesh.join("n0")
    mesh.create("c", 2)
    mesh.settle()
    one = mesh.connectors["c"]
    mesh.connectors["c"] = type(one)(one.connector, one.plans, one.plan_epoch, "another")
    mesh._tell()
    id_ = min(mesh.store)
    epoch = mesh.store[id_].epoch
    mesh.cluster.restart([id_], mesh.now)
    for _ in range(5):
        mesh.step()
    assert mesh.store[id_].epoch == epoch
    mesh.connectors["c"] = one
    mesh._tell()
    mesh.settle()
    assert mesh.store[id_].epoch > epoch


def test_a_new_form_is_never_sent_under_an_old_epoch():
    """Connectors may change between a round and what is sent of it."""
    mesh = Simulation()
    mesh.join("n0")
    mesh.create("c", 1)
    writes = mesh.cluster.writes(mesh.now)
    for write in writes:
        mesh.cluster.wrote(write, mesh.revision + 1)
    mesh.create("c", 1, topic="other")
    assert [assign.tasks for assign in mesh.cluster.assignments()] == [()]
