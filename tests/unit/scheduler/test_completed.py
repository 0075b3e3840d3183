"""A task that has read all that it had to starts anew when there is a reason, and not because its
worker is lost, drained or restarted: a copy would be made twice.
"""

from dataclasses import replace

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


async def tasks(mesh, instance=None):
    (connector,) = await (instance or mesh.first).client.list_statuses("orders")
    for task in connector.tasks:
        yield task


async def states(mesh, instance=None):
    return {task.task_id: task.state async for task in tasks(mesh, instance)}


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


def test_a_worker_that_comes_back_under_its_id_does_not_start_a_completed_task(mesh, patient):
    """It lost its lease, and its tasks with it; the list of workers is the same as before."""

    async def test(mesh):
        worker, one, other = await completed(mesh)
        await worker.disconnect()
        epoch = worker.held[one].epoch
        worker.held.clear(), worker.starts.clear()
        worker.seen = 0
        worker.connect(mesh.first.address)
        await until(lambda: other in worker.held, "the other one goes on")
        await mesh.first.scheduler.leader().wait_for_turn()
        assert one not in worker.starts
        (status,) = [task async for task in tasks(mesh) if task.task_id == one]
        assert (status.state, status.epoch) == (RunState.COMPLETED, epoch)

    mesh(test, patient)


def test_a_task_that_completes_while_it_moves_does_not_start_again(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 2)
        await until(lambda: len(worker.held) == 2, "tasks run")
        worker.stubborn = set(worker.held)
        second = mesh.join("w2")
        leader = mesh.first.scheduler.leader()
        await until(lambda: leader.cluster.leaving, "one of them is to move")
        (one,) = leader.cluster.leaving
        worker.set(one, TaskState.COMPLETED)
        await stored(mesh, {one})
        worker.give_in()
        await until(lambda: one not in worker.held, "it is let go")
        await leader.wait_for_turn()
        await leader.wait_for_turn()
        assert worker.starts.count(one) == 1
        assert one not in second.held

    mesh(test)


def test_offsets_are_altered_only_once_the_stop_is_read(mesh):
    """Else the task would stay completed, and the reset would have no effect."""

    async def test(mesh):
        worker, one, _ = await completed(mesh)
        await lose(mesh, worker)
        generation = one.rpartition("-")[0]
        await mesh.first.scheduler.leader().wait_for_turn()
        assert one in (await mesh.first.client.list_held_tasks(generation)).tasks
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        await stored(mesh, set())
        assert (await mesh.first.client.list_held_tasks(generation)).tasks == ()

    mesh(test)


def test_a_completion_of_an_older_epoch_does_not_count(mesh, monkeypatch):
    """An earlier version, which knows no completions, started the task again."""

    async def test(mesh):
        worker, one, _ = await completed(mesh)
        leader = mesh.first.scheduler.leader()
        older = replace(leader.cluster.completed[one], epoch=1)
        monkeypatch.setattr(Cluster, "find_completed", lambda _: {})
        leader.cluster.load_completed({one: older})
        await lose(mesh, worker)
        second = mesh.join("w2")
        await until(lambda: one in second.held, "it goes on elsewhere")

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
