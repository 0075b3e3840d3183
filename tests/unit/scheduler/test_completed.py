"""A task that has read all that it had to starts anew when there is a reason, and not because its
worker is lost, drained or restarted: a copy would be made twice.
"""

import pytest

from penstock.model.connector import TargetState, TaskState
from penstock.model.status import RunState
from penstock.scheduler.state.cluster import Cluster
from support.waiting import until


async def completed(mesh, tasks=2):
    """A connector whose first task has completed; returns its worker and the task ids."""
    worker = mesh.join("w1")
    await mesh.create("orders", tasks)
    await until(lambda: len(worker.held) == tasks, "tasks run")
    one, *others = sorted(worker.held)
    worker.set(one, TaskState.COMPLETED)
    await stored(mesh, {one})
    return worker, one, *others


async def stored(mesh, tasks):
    """Wait until these tasks are stored as completed, and no others."""

    async def found():
        entries = (await mesh.store.range("completed/")).entries
        return {entry.key.removeprefix("completed/") for entry in entries}

    while await found() != tasks:
        await mesh.first.scheduler.leader().wait_for_turn()


async def states(mesh, instance=None):
    (connector,) = await (instance or mesh.first).client.list_statuses("orders")
    return {task.task_id: task.state for task in connector.tasks}


async def lose(mesh, worker):
    await worker.disconnect()
    members = mesh.first.scheduler.leader().cluster.workers
    await until(lambda: worker.id not in members.members, "it is lost")


def test_a_lost_worker_takes_no_completed_task_with_it(mesh):
    async def test(mesh):
        worker, one, other = await completed(mesh)
        second = mesh.join("w2")
        await lose(mesh, worker)
        await until(lambda: other in second.held, "the other one goes on")
        await mesh.first.scheduler.leader().wait_for_turn()
        assert one not in second.held
        assert await states(mesh) == {one: RunState.COMPLETED, other: RunState.RUNNING}
        assert (await mesh.first.client.get_cluster()).unassigned == 0

    mesh(test)


def test_a_drained_worker_gives_a_completed_task_to_nobody(mesh):
    async def test(mesh):
        worker, one, other = await completed(mesh)
        second = mesh.join("w2")
        await mesh.first.client.drain_worker("w1")
        await until(lambda: not worker.held, "it is drained")
        await until(lambda: other in second.held, "the other one goes on")
        assert one not in second.held
        assert (await states(mesh))[one] is RunState.COMPLETED

    mesh(test)


def test_a_new_worker_takes_no_completed_task_for_balance(mesh):
    async def test(mesh):
        worker, one, *_ = await completed(mesh, 5)
        second = mesh.join("w2")
        await until(lambda: len(second.held) == 2, "half of what runs moves")
        assert one in worker.held
        assert worker.starts.count(one) == 1

    mesh(test)


def test_another_leader_starts_no_completed_task(mesh):
    async def test(mesh):
        worker, one, other = await completed(mesh)
        await lose(mesh, worker)
        await mesh.first.resign()
        await mesh.second.lead()
        second = mesh.join("w2", mesh.second)
        await until(lambda: other in second.held, "the other one goes on")
        await mesh.second.scheduler.leader().wait_for_turn()
        assert one not in second.held
        assert (await states(mesh, mesh.second))[one] is RunState.COMPLETED

    mesh(test)


@pytest.mark.parametrize("lost", [False, True])
def test_a_requested_restart_starts_a_completed_task(mesh, lost):
    async def test(mesh):
        worker, one, _ = await completed(mesh)
        if lost:
            await lose(mesh, worker)
            worker = mesh.join("w2")
            await until(lambda: worker.held, "the other one goes on")
        await mesh.config.request_restart("orders", task_id=one)
        await until(
            lambda: one in worker.held and worker.held[one].state is TaskState.RUNNING, "it starts"
        )
        await stored(mesh, set())

    mesh(test)


def test_another_configuration_starts_a_completed_task(mesh):
    async def test(mesh):
        worker, one, _ = await completed(mesh)
        await lose(mesh, worker)
        worker = mesh.join("w2")
        await until(lambda: worker.held, "the other one goes on")
        await mesh.create("orders", 2, added="1")
        await until(lambda: one in worker.held, "it starts")
        await stored(mesh, set())

    mesh(test)


def test_a_stopped_connector_begins_anew_and_a_paused_one_does_not(mesh):
    async def test(mesh):
        worker, one, _ = await completed(mesh)
        await mesh.config.set_target_state("orders", TargetState.PAUSED)
        await mesh.config.set_target_state("orders", TargetState.RUNNING)
        await mesh.first.scheduler.leader().wait_for_turn()
        assert worker.starts.count(one) == 1
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        await stored(mesh, set())
        await mesh.config.set_target_state("orders", TargetState.RUNNING)
        await until(lambda: worker.starts.count(one) == 2, "it starts")

    mesh(test)


def test_completions_are_deleted_with_their_connector(mesh):
    async def test(mesh):
        await completed(mesh)
        await mesh.config.delete("orders")
        await stored(mesh, set())

    mesh(test)


def test_a_leader_that_forgets_completions_is_caught_by_these_tests(mesh, monkeypatch):
    """The twin: the copy is made again."""

    async def test(mesh):
        worker, one, _ = await completed(mesh)
        await lose(mesh, worker)
        await mesh.first.resign()
        monkeypatch.setattr(Cluster, "load_completed", lambda *_: None)
        await mesh.second.lead()
        second = mesh.join("w2", mesh.second)
        await until(lambda: one in second.held, "it starts again")

    mesh(test)
