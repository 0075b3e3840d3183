"""Wrong input is refused with a code, or fails its connector alone; the leader continues."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace

import pytest

from bench.simulated import Simulation
from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.model.admin import PlannedConnector
from penstock.model.connector import Connector, Partition, TaskPlan
from penstock.model.errors import ConfigError, PenstockError
from penstock.model.status import RunState
from penstock.scheduler.leader.connector_plans import MAX_PLAN_BYTES, _divide
from penstock.scheduler.state.assignment import Task, Worker, assign_tasks
from penstock.scheduler.state.desired_state import MAX_TASKS, DesiredConnector, digest_config
from penstock.scheduler.state.plans import PlanRequest, PlanSchedule
from penstock.scheduler.state.records import OwnedTask, PlanRecord, TaskRecord, decode_plan_record
from penstock.scheduler.state.restarts import RESTARTS
from penstock.scheduler.state.workers import UNLISTED_OWNER_TIMEOUT_S, Member, Workers
from support.waiting import until


async def failure_of(client, name):
    """Return why a connector has failed, once it has."""
    async with asyncio.timeout(60):
        while True:
            found = await client.list_statuses()
            if found and found[0].state is RunState.FAILED:
                assert found[0].name == name
                return found[0].diagnostic
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -1, 0, 1e308])
def test_no_number_of_a_worker_or_a_connector_stops_the_assignment(number):
    tasks = [Task("a-0", "a", number), Task("b-0", "b"), Task("b-1", "b")]
    workers = [Worker("x", capacity=number), Worker("y")]
    after = assign_tasks(tasks, workers, {})
    assert after.keys() == {"a-0", "b-0", "b-1"}
    assert assign_tasks(tasks, workers, after) == after


def test_a_session_without_an_id_or_for_another_worker_is_refused(mesh):
    async def test(mesh):
        async def session(*ids):
            async def reports():
                for id_ in ids:
                    yield pb.SessionRequest(worker_id=id_)
                await asyncio.sleep(20)

            async for _ in mesh.first.client.open_session(reports()):
                pass

        with pytest.raises(ConfigError, match=r"scheduler\.worker_nameless"):
            await session("")
        with pytest.raises(ConfigError, match=r"scheduler\.worker_changed"):
            await session("w1", "w2")

    mesh(test)


def test_a_session_that_begins_with_a_part_of_the_tasks_is_refused(mesh):
    """The tasks that it does not name would count as released, and would start elsewhere."""

    async def test(mesh):
        async def reports():
            yield pb.SessionRequest(worker_id="w1", partial=True)

        with pytest.raises(ConfigError, match=r"scheduler\.partial_first_report.*worker w1"):
            async for _ in mesh.first.client.open_session(reports()):
                pass

    mesh(test)


def test_a_plan_with_too_many_tasks_is_refused_whole(mesh):
    async def test(mesh):
        worker = mesh.join("w1")

        async def plan(address, connector):
            grouped = (TaskPlan("", (), {"n": str(n)}) for n in range(MAX_TASKS + 1))
            return PlannedConnector(tuple(grouped))

        mesh.plans.plan = plan
        await mesh.create("orders", 1)
        why = await failure_of(mesh.first.client, "orders")
        assert (why.code, why.config_path) == ("scheduler.too_many_tasks", "tasks.max")
        assert not worker.held
        ((_, noted),) = map(decode_plan_record, (await mesh.store.range("planned/")).entries)
        assert noted == PlanRecord(applied=1), "it has no plans"

    mesh(test)


def test_a_plan_that_fits_into_no_message_is_refused():
    wish = PlanRequest(Connector("c", {}, generation="g"), 1, (), "w", "")
    large = TaskPlan("", tuple(Partition({"p": n}, payload=bytes(1 << 20)) for n in range(9)))
    assert MAX_PLAN_BYTES == 8 << 20
    with pytest.raises(PenstockError, match=r"scheduler\.plan_too_large.*plan of g-0 has 9 MiB"):
        _divide(wish, [large])
    half = tuple(replace(one, payload=bytes(7 << 20)) for one in large.partitions)
    plans = [TaskPlan("", (one,), {"n": str(n)}) for n, one in enumerate(half)]
    assert len(_divide(wish, plans[:8]).messages) == 8
    with pytest.raises(PenstockError, match=r"scheduler\.plan_too_large.*more than 64 MiB"):
        _divide(wish, [*plans, *plans])


def test_an_unexpected_error_of_a_planner_fails_its_connector_alone(mesh):
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


def test_the_session_of_a_worker_whose_lease_ended_is_ended():
    """Its session would go on for ever, and nothing that it says would be heard."""
    mesh = Simulation()
    id_ = mesh.join("n0")
    mesh.create("c", 2)
    mesh.settle()
    assert mesh.cluster.update_members([], mesh.revision + 1, mesh.now) == {id_}
    assert id_ not in mesh.cluster.workers.sessions
    assert mesh.cluster.update_members([], mesh.revision + 2, mesh.now) == frozenset()


def test_an_owner_in_no_list_counts_as_alive_only_for_a_time():
    workers = Workers()
    owned = OwnedTask(TaskRecord("never-seen", "", "g", "d"), 100)
    workers.update_members([Member("a")], 50, 0.0)
    assert workers.is_owner_unknown(owned)
    assert not workers.is_owner_gone(owned)
    workers.update_members([Member("a")], 50, UNLISTED_OWNER_TIMEOUT_S)
    assert workers.is_owner_gone(owned)


def test_an_owner_that_left_is_gone_however_new_its_record_is():
    workers = Workers()
    workers.update_members([Member("a"), Member("b")], 50, 0.0)
    owned = OwnedTask(
        TaskRecord("a", "", "g", "d"), 100
    )  # written after the list that follows was read
    assert workers.update_members([Member("b")], 56, 0.1) == {"a"}
    assert workers.is_owner_gone(owned)


def test_workers_that_are_gone_are_forgotten():
    workers = Workers()
    for n in range(100):
        workers.update_members([Member(f"w{n}")], n + 1, float(n))
        workers.open_session(f"x{n}")
        workers.close_session(f"x{n}")
    workers.forget_lost({"w0"})
    assert len(workers._lost_at) <= UNLISTED_OWNER_TIMEOUT_S + 1
    assert not workers._ever_connected


def test_a_new_number_of_tasks_counts_at_once_and_a_new_leader_keeps_the_current_one():
    def wish_of(config, plans=()):
        schedule = PlanSchedule(RESTARTS, random.Random(1))
        workers = Workers()
        workers.update_members([Member("a", address="a")], 1, 0)
        connector = Connector("c", config, generation="g")
        wanted = DesiredConnector(connector, plans, 5, digest_config(connector))
        schedule.request_now("g")
        (wish,) = schedule.due_requests([wanted], workers, 0)
        schedule.record_success("g", "a", 0)
        more = Connector("c", config | {"tasks.max": "9"}, generation="g", revision=9)
        (after,) = schedule.due_requests([DesiredConnector(more, plans, 5, "old")], workers, 0)
        return wish.tasks, after.tasks

    plans = tuple(TaskPlan(f"g-{n}") for n in range(4))
    assert wish_of({"tasks.max": "2"}) == (2, 9)
    assert wish_of({"tasks.max": "8", "lag.target": "5s"}) == (1, 1)
    assert wish_of({"tasks.max": "8", "lag.target": "5s"}, plans) == (4, 4)
    assert wish_of({"tasks.max": "3", "lag.target": "5s"}, plans) == (3, 3)


def test_a_restart_waits_until_the_new_plans_are_known():
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
    mesh.cluster.request_restarts([id_], mesh.now)
    for _ in range(5):
        mesh.step()
    assert mesh.store[id_].epoch == epoch
    mesh.connectors["c"] = one
    mesh._tell()
    mesh.settle()
    assert mesh.store[id_].epoch > epoch


def test_a_changed_task_is_never_sent_under_an_old_epoch():
    """Connectors may change between a round and what is sent of it."""
    mesh = Simulation()
    mesh.join("n0")
    mesh.create("c", 1)
    writes = mesh.cluster.decide_writes(mesh.now)
    for write in writes:
        mesh.cluster.record_write(write, mesh.revision + 1)
    mesh.create("c", 1, topic="other")
    assert [assign.tasks for assign in mesh.cluster.take_assignments()] == [()]
