"""Monitors: on one worker each, like a task; what they find changes as few tasks as possible."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from bench.simulated import Simulation
from penstock.model.connector import TargetState, TaskState
from penstock.model.errors import Diagnostic, ErrorClass
from penstock.model.status import RunState
from penstock.scheduler.leader import connector_plans
from penstock.scheduler.state.desired_state import is_monitor_id, monitor_id
from support.waiting import until

WRONG = Diagnostic("test.wrong", "it is wrong", ErrorClass.CONFIG)


async def grown(mesh):
    """Return a worker with a connector of four partitions in two tasks, and its monitor."""
    worker = mesh.join("w1")
    stored = await mesh.create("orders", 4, monitor="true", **{"tasks.max": "2"})
    await until(lambda: len(worker.held) == 3, "tasks and the monitor run")
    return worker, stored.generation


def tasks_of(worker):
    return {id_: s.epoch for id_, s in worker.held.items() if not is_monitor_id(id_)}


def test_partitions_that_a_monitor_finds_restart_only_the_task_that_gets_them(mesh):
    async def test(mesh):
        worker, generation = await grown(mesh)
        before, monitor = tasks_of(worker), worker.held[monitor_id(generation)].epoch
        known = worker.monitors[monitor_id(generation)]
        mesh.plans.more = 1
        worker.find(generation)
        await until(lambda: tasks_of(worker) not in (before, {}), "it was planned anew")
        await until(lambda: len(tasks_of(worker)) == 2, "both run")
        after = tasks_of(worker)
        assert sum(after[id_] != before[id_] for id_ in before) == 1
        assert worker.held[monitor_id(generation)].epoch == monitor
        assert (
            worker.monitors[monitor_id(generation)] > known
        )  # it is told that there are new plans

    mesh(test)


def test_a_plan_that_restarts_everything_goes_red(mesh, monkeypatch):
    """The twin: dividing anew without looking at what runs changes more than one task."""
    divide = connector_plans.update_plans

    def forgetful(generation, old, fresh, most):
        turned = [plan.__class__("", plan.partitions[::-1], plan.config) for plan in fresh]
        return divide(generation, (), [turned[0]], most)

    async def test(mesh):
        worker, generation = await grown(mesh)
        before = tasks_of(worker)
        monkeypatch.setattr(connector_plans, "update_plans", forgetful)
        mesh.plans.more = 3
        worker.find(generation)
        await until(
            lambda: all(tasks_of(worker).get(id_, e) != e for id_, e in before.items()), "all"
        )

    mesh(test)


def test_a_plan_without_a_change_restarts_nothing_and_is_not_made_all_the_time(mesh):
    async def test(mesh):
        worker, generation = await grown(mesh)
        before, asked = tasks_of(worker), len(mesh.plans.asked)
        leader = mesh.first.scheduler.leader()
        for _ in range(20):
            worker.find(generation)
            await leader.wait_for_turn()
        assert len(mesh.plans.asked) - asked <= 1
        await until(lambda: len(mesh.plans.asked) > asked, "it was planned")
        await leader.wait_for_turn()
        assert tasks_of(worker) == before

    mesh(test)


def test_a_monitor_is_moved_restarted_and_shown_like_a_task(mesh):
    async def test(mesh):
        worker, generation = await grown(mesh)
        id_, client = monitor_id(generation), mesh.first.client
        epoch = worker.held[id_].epoch
        worker.set(id_, TaskState.FAILED, WRONG)
        async with asyncio.timeout(60):
            while (
                status := (await client.list_statuses("orders"))[0]
            ).state is not RunState.FAILED:
                await asyncio.sleep(0.01)
        assert (status.diagnostic.code, status.worker) == ("test.wrong", "w1")
        assert [task.state for task in status.tasks] == [RunState.RUNNING] * 2
        await mesh.config.request_restart("orders")
        await until(lambda: worker.held[id_].epoch > epoch, "it was restarted")
        other = mesh.join("w2")
        await client.drain_worker("w1")
        await until(lambda: id_ in other.held and not worker.held, "all moved")
        (first, second) = (await client.get_cluster()).workers
        assert (first.tasks, second.tasks) == (0, 2)
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        await until(lambda: not other.held, "nothing runs")

    mesh(test)


def test_a_connector_without_a_monitor_gets_none(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 2)
        await until(lambda: len(worker.held) == 2, "tasks run")
        assert worker.monitors == {}

    mesh(test)


def test_a_connector_is_completed_with_its_last_task_unless_a_monitor_looks_for_more(mesh):
    async def test(mesh):
        worker, client = mesh.join("w1"), mesh.first.client
        await mesh.create("ends", 2)
        await until(lambda: len(worker.held) == 2, "tasks run")

        async def state_is(name, state):
            async with asyncio.timeout(60):
                while (await client.list_statuses(name))[0].state is not state:
                    await asyncio.sleep(0.01)

        first, last = sorted(worker.held)
        worker.set(first, TaskState.COMPLETED)
        await state_is("ends", RunState.RUNNING)
        worker.set(last, TaskState.COMPLETED)
        await state_is("ends", RunState.COMPLETED)
        await mesh.config.set_target_state("ends", TargetState.PAUSED)
        await state_is("ends", RunState.PAUSED)

    mesh(test)


def test_a_connector_with_a_monitor_goes_on_when_its_tasks_are_completed(mesh):
    async def test(mesh):
        worker, _ = await grown(mesh)
        client = mesh.first.client
        for id_ in tasks_of(worker):
            worker.set(id_, TaskState.COMPLETED)
        async with asyncio.timeout(60):
            while True:
                (status,) = await client.list_statuses("orders")
                if {task.state for task in status.tasks} == {RunState.COMPLETED}:
                    break
                await asyncio.sleep(0.01)
        assert status.state is RunState.RUNNING

    mesh(test)


@pytest.mark.parametrize("monitors", [0, 30])
def test_no_task_moves_for_a_monitor(monitors):
    mesh = Simulation()
    for n in range(3):
        mesh.join(f"n{n}")
    for n in range(30):
        mesh.create(f"c{n}", 4, monitor=n < monitors)
    mesh.settle()
    before = Counter(mesh.moves.starts)
    mesh.join("n3")
    mesh.settle()
    moved = Counter(map(is_monitor_id, mesh.moves.starts - before))
    assert moved[False] == 30
    assert moved[True] == monitors // 4
    assert set(mesh.loads().values()) == {30}


def test_new_plans_are_no_reason_to_restart_a_monitor_and_another_configuration_is():
    mesh = Simulation()
    mesh.join("n0")
    id_ = monitor_id(mesh.create("c", 2, monitor=True))
    mesh.settle()
    mesh.create("c", 3, monitor=True)
    mesh.settle()
    assert mesh.moves.starts[id_] == 1
    mesh.create("c", 3, monitor=True, topic="other")
    mesh.settle()
    assert mesh.moves.starts[id_] == 2
