"""Requested restarts: once each, under any leader, and only of the covered tasks."""

import asyncio
import json

import pytest

from penstock.model.connector import RestartRequest, TaskState
from penstock.model.errors import ConfigError
from penstock.model.status import ConnectorStatus, RunState, RunStatus
from penstock.scheduler.state.records import AcceptedRestarts, OwnedTask, TaskRecord
from penstock.scheduler.state.restarts import RestartRequests, covered_tasks
from support.waiting import until

WRONG = ConfigError("test.wrong", "wrong").diagnostic


async def running(mesh, tasks, **config):
    """A connector whose tasks run on one worker; returns it and the epochs by task."""
    worker = mesh.workers.get("w1") or mesh.join("w1")
    made = await mesh.create("orders", tasks, **config)
    await until(lambda: len(worker.held) == tasks, "tasks run")
    return worker, made.generation, epochs(worker)


def epochs(worker):
    return {id_: status.epoch for id_, status in worker.held.items()}


async def marker(mesh, generation):
    """Up to which request was taken."""
    key = f"restarted/{generation}"
    entry = (await mesh.store.get(key)).get(key)
    return json.loads(entry.value)["marker"] if entry else 0


async def taken(mesh, generation, number):
    async with asyncio.timeout(60):
        while await marker(mesh, generation) < number:
            await asyncio.sleep(0.01)


def test_a_connector_with_its_tasks_is_restarted_once(mesh):
    async def test(mesh):
        worker, generation, before = await running(mesh, 3)
        planned = len(mesh.plans.asked)
        asked = await mesh.config.request_restart("orders", include_tasks=True)
        await until(lambda: all(epochs(worker)[i] > before[i] for i in before), "all restarted")
        assert await marker(mesh, generation) == asked.marker == 1
        leader = mesh.first.scheduler.leader()
        await leader.wait_for_turn()
        assert sorted(worker.starts) == sorted([*before, *before])
        await until(lambda: len(mesh.plans.asked) == planned + 1, "it was planned anew")
        await mesh.config.request_restart("orders", include_tasks=True)
        await until(lambda: len(worker.starts) == 9, "each request is a restart")

    mesh(test)


def test_a_connector_alone_is_planned_again_and_its_tasks_continue(mesh):
    async def test(mesh):
        worker, generation, before = await running(mesh, 2)
        planned = len(mesh.plans.asked)
        await mesh.config.request_restart("orders")
        await until(lambda: len(mesh.plans.asked) == planned + 1, "it was planned anew")
        await taken(mesh, generation, 1)
        await mesh.first.scheduler.leader().wait_for_turn()
        assert epochs(worker) == before

    mesh(test)


def test_only_failed_leaves_what_runs_alone(mesh):
    async def test(mesh):
        worker, generation, before = await running(mesh, 2)
        await mesh.config.request_restart("orders", include_tasks=True, only_failed=True)
        await taken(mesh, generation, 1)
        await mesh.first.scheduler.leader().wait_for_turn()
        assert epochs(worker) == before
        failed, well = sorted(before)
        worker.set(failed, TaskState.FAILED, WRONG)
        await mesh.first.scheduler.leader().wait_for_turn()
        assert epochs(worker) == before  # the request of before is not for what fails later
        await mesh.config.request_restart("orders", include_tasks=True, only_failed=True)
        await until(lambda: epochs(worker)[failed] > before[failed], "it was restarted")
        assert epochs(worker)[well] == before[well]

    mesh(test)


def test_one_task_is_restarted_whatever_its_state(mesh):
    async def test(mesh):
        worker, generation, before = await running(mesh, 2)
        one, other = sorted(before)
        await mesh.config.request_restart("orders", task_id=one)
        await until(lambda: epochs(worker)[one] > before[one], "it was restarted")
        await mesh.config.request_restart("orders", task_id=f"{generation}-77")
        await taken(mesh, generation, 2)
        assert epochs(worker)[other] == before[other]

    mesh(test)


def test_another_leader_restarts_nothing_again(mesh, patient):
    """Invariant 7."""

    async def test(mesh):
        worker, _, before = await running(mesh, 2)
        await mesh.config.request_restart("orders", include_tasks=True)
        await until(lambda: all(epochs(worker)[i] > before[i] for i in before), "restarted")
        now = epochs(worker)
        await worker.disconnect()
        await mesh.first.resign()
        await mesh.second.lead()
        worker.connect(mesh.second.address)
        await until(lambda: worker.kept == set(now), "the new leader keeps them")
        await mesh.second.scheduler.leader().wait_for_turn()
        assert epochs(worker) == now

    mesh(test, patient)


def test_a_request_made_without_a_leader_is_carried_out_by_the_next_one(mesh, patient):
    async def test(mesh):
        worker, _, before = await running(mesh, 2)
        failed, well = sorted(before)
        worker.set(failed, TaskState.FAILED, WRONG)
        await mesh.first.scheduler.leader().wait_for_turn()
        await worker.disconnect()
        await mesh.first.resign()
        await mesh.config.request_restart("orders", include_tasks=True, only_failed=True)
        leader = await mesh.second.lead()
        await until(lambda: leader.statistics()["turns"] > 1, "it takes turns")
        assert await marker(mesh, failed.rpartition("-")[0]) == 0  # what has failed is not known
        worker.connect(mesh.second.address)
        await until(lambda: epochs(worker)[failed] > before[failed], "it was restarted")
        assert epochs(worker)[well] == before[well]

    mesh(test, patient)


@pytest.mark.parametrize("point", ["scheduler.storing", "scheduler.stored"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_write_that_fails_on_the_way_makes_no_second_restart(mesh, arm, point, at):
    """The first write takes the request, the second one restarts; either may be lost, or its
    answer.
    """

    async def test(mesh):
        worker, generation, before = await running(mesh, 2)
        one, other = sorted(before)
        arm(f"{point}=raise@{at}")
        changes = mesh.store.watch("assignment/", (await mesh.store.range("")).revision)
        written = asyncio.create_task(count(changes, f"assignment/{one}"))
        await mesh.config.request_restart("orders", task_id=one)
        await until(lambda: epochs(worker)[one] > before[one], "it was restarted")
        leader = mesh.first.scheduler.leader()
        await leader.wait_for_turn()
        await leader.wait_for_turn()
        assert leader.statistics()["failed"] == 1
        assert sorted(worker.starts) == sorted([one, one, other])
        assert await marker(mesh, generation) == 1
        await mesh.store.write([], [("assignment/end", b"")])
        assert await written == 1

    async def count(changes, key):
        """How often a key is written before the end."""
        found = 0
        async for change in changes:
            if "assignment/end" in change.keys:
                return found
            found += key in change.keys
        raise AssertionError

    mesh(test)


def test_accepted_restarts_are_deleted_with_the_connector(mesh):
    async def test(mesh):
        await running(mesh, 1)
        made = await mesh.config.request_restart("orders", include_tasks=True)
        assert made.marker == 1
        (entry,) = await stored(mesh, 1)
        await mesh.config.delete("orders")
        await stored(mesh, 0)
        worker, generation, before = await running(mesh, 1)
        assert not entry.key.endswith(generation)  # invariant 10: a namesake begins anew
        await mesh.config.request_restart("orders", include_tasks=True)
        await until(lambda: epochs(worker) != before, "its first request is carried out")

    async def stored(mesh, count):
        async with asyncio.timeout(60):
            while len(found := (await mesh.store.range("restarted/")).entries) != count:
                await asyncio.sleep(0.01)
        return found

    mesh(test)


def test_a_request_while_another_one_is_pending_loses_neither():
    def owned(epoch):
        return OwnedTask(TaskRecord("w", "w", "g", "d"), epoch)

    requests = RestartRequests()
    requests.load({"g": AcceptedRestarts(1, ("g-0", "g-1"), revision=10)})
    assert requests.pending_tasks({"g-0": owned(9), "g-1": owned(11)}) == {"g-0"}
    status = ConnectorStatus("orders", "g", state=RunState.RUNNING, tasks=(state("g-2"),))
    next_ = requests._accept([RestartRequest(2, task_id="g-2")], status, requests._accepted["g"])
    assert (next_.marker, next_.tasks, next_.replan) == (2, ("g-0", "g-2"), False)


def state(id_, how=RunState.RUNNING):
    return RunStatus(id_, how)


@pytest.mark.parametrize(
    ("request_", "itself", "meant"),
    [
        (RestartRequest(1), RunState.RUNNING, {"g-monitor"}),
        (RestartRequest(1, include_tasks=True), RunState.RUNNING, {"g-monitor", "g-0", "g-1"}),
        (RestartRequest(1, only_failed=True), RunState.RUNNING, set()),
        (RestartRequest(1, only_failed=True), RunState.FAILED, {"g-monitor"}),
        (RestartRequest(1, include_tasks=True, only_failed=True), RunState.RUNNING, {"g-1"}),
        (
            RestartRequest(1, include_tasks=True, only_failed=True),
            RunState.FAILED,
            {"g-monitor", "g-1"},
        ),
        (RestartRequest(1, task_id="g-0"), RunState.FAILED, {"g-0"}),
        (RestartRequest(1, task_id="g-0", only_failed=True), RunState.FAILED, set()),
        (RestartRequest(1, task_id="g-7"), RunState.RUNNING, set()),
    ],
)
def test_which_tasks_a_request_covers(request_, itself, meant):
    tasks = (state("g-0"), state("g-1", RunState.FAILED))
    assert (
        covered_tasks(request_, ConnectorStatus("orders", "g", state=itself, tasks=tasks)) == meant
    )


def test_a_leader_that_forgets_what_it_accepted_is_caught_by_these_tests(
    mesh, patient, monkeypatch
):
    """The twin: one that does not read what was taken restarts again."""

    async def test(mesh):
        worker, _, before = await running(mesh, 1)
        await mesh.config.request_restart("orders", include_tasks=True)
        await until(lambda: all(epochs(worker)[i] > before[i] for i in before), "restarted")
        now = epochs(worker)
        await worker.disconnect()
        await mesh.first.resign()
        monkeypatch.setattr(RestartRequests, "load", lambda *_: None)
        await mesh.second.lead()
        worker.connect(mesh.second.address)
        await until(lambda: all(epochs(worker)[i] > now[i] for i in now), "restarted again")

    mesh(test, patient)
