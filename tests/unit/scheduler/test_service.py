"""The service over real sockets and a real store: sessions, moves, restarts, other leaders."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock.client import SchedulerClient
from penstock.model.connector import ApplyAction, TargetState, TaskState
from penstock.model.errors import (
    ConfigError,
    Diagnostic,
    ErrorClass,
    FencedError,
    RetriableError,
)
from penstock.model.status import RunState
from penstock.scheduler import ClusterSettings, service
from penstock.scheduler.leader import stored_state
from penstock.scheduler.leader.connector_plans import ConnectorFeed
from penstock.scheduler.state.records import EVENT_PREFIX
from support.waiting import until

TRANSIENT = Diagnostic("test.away", "it is away", ErrorClass.RETRIABLE)
WRONG = Diagnostic("test.wrong", "it is wrong", ErrorClass.CONFIG)


async def state_of(client, name, number=0):
    (status,) = await client.list_statuses(name)
    return status.tasks[number] if len(status.tasks) > number else None


async def until_state(client, name, state, number=0):
    async with asyncio.timeout(60):
        while True:
            task = await state_of(client, name, number)
            if task is not None and task.state is state:
                return task
            await asyncio.sleep(0.01)


def test_a_connector_is_planned_and_its_tasks_run_on_all_workers(mesh):
    async def test(mesh):
        mesh.join("w1")
        mesh.join("w2")
        await mesh.create("orders", 6)
        await until(lambda: mesh.loads() == [3, 3], "tasks are spread")
        task = await until_state(mesh.first.client, "orders", RunState.RUNNING)
        assert task.worker in {"w1", "w2"}
        (status,) = await mesh.first.client.list_statuses("orders")
        assert status.state is RunState.RUNNING
        assert status.worker in {"w1", "w2"}
        assert [t.number for t in status.tasks] == list(range(6))

    mesh(test)


@pytest.mark.parametrize("together", [0, 100, 300, service.MAX_BATCH_BYTES])
def test_all_statuses_are_sent_once_and_in_order_however_many_fit_into_a_message(
    mesh, monkeypatch, together
):
    monkeypatch.setattr(service, "MAX_BATCH_BYTES", together)
    names = [f"c{number:02}" for number in range(20)]

    async def test(mesh):
        assert await mesh.first.client.list_statuses() == []
        for name in reversed(names):
            await mesh.create(name, 1)
        statuses = mesh.first.client.list_statuses
        async with asyncio.timeout(60):
            while len(found := await statuses()) < len(names):
                await asyncio.sleep(0.01)
        assert [one.name for one in found] == names

    mesh(test)


def test_an_epoch_is_the_revision_of_the_assignment_that_gave_the_task(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 2)
        await until(lambda: len(worker.held) == 2, "tasks run")
        page = await mesh.store.range("assignment/")
        stored = {entry.key.removeprefix("assignment/"): entry.revision for entry in page.entries}
        assert stored == {id_: status.epoch for id_, status in worker.held.items()}
        assert worker.seen >= max(stored.values())

    mesh(test)


def test_a_third_worker_takes_its_share_and_nothing_else_moves(mesh):
    async def test(mesh):
        old = [mesh.join("w1"), mesh.join("w2")]
        await mesh.create("orders", 12)
        await until(lambda: mesh.loads() == [6, 6], "tasks are spread")
        new = mesh.join("w3")
        await until(lambda: mesh.loads() == [4, 4, 4], "the share was taken")
        assert len(new.starts) == 4
        assert [len(worker.starts) for worker in old] == [6, 6]
        assert all(worker.kept for worker in old)  # what goes on travels without its plan

    mesh(test)


def test_a_task_is_given_on_only_when_its_owner_has_let_go(mesh):
    async def test(mesh):
        old = mesh.join("w1")
        await mesh.create("orders", 2)
        await until(lambda: len(old.held) == 2, "tasks run")
        old.stubborn = set(old.held)
        new = mesh.join("w2")
        leader = mesh.first.scheduler.leader()
        await until(lambda: leader.cluster.leaving, "a task was told to leave")
        for _ in range(5):
            await leader.wait_for_turn()
        assert (len(old.held), len(new.held)) == (2, 0)
        assert leader.cluster.rebalances.summary().completed == 0
        old.give_in()
        await until(lambda: len(new.held) == 1, "the task was given on")
        await until(lambda: leader.cluster.rebalances.summary().completed == 1, "it was counted")

    mesh(test)


def test_breaking_the_renounce_check_gives_a_task_two_owners(mesh, arm):
    """The twin: what the test above asserts is not there any more."""

    async def test(mesh):
        old = mesh.join("w1")
        await mesh.create("orders", 2)
        await until(lambda: len(old.held) == 2, "tasks run")
        old.stubborn = set(old.held)
        arm("scheduler.renounce_check=break")
        new = mesh.join("w2")
        await until(lambda: new.held.keys() & old.held.keys(), "two hold one task")

    mesh(test)


def test_tasks_of_a_worker_that_is_gone_move_and_others_do_not(mesh):
    async def test(mesh):
        lost, other = mesh.join("w1"), mesh.join("w2")
        await mesh.create("orders", 4)
        await until(lambda: mesh.loads() == [2, 2], "tasks are spread")
        before = list(other.starts)
        await lost.disconnect()
        await until(lambda: len(other.held) == 4, "the tasks were taken over")
        assert other.starts[:2] == before
        assert len(other.starts) == 4

    mesh(test)


def test_another_leader_restarts_nothing(mesh):
    async def test(mesh):
        workers = [mesh.join("w1"), mesh.join("w2")]
        await mesh.create("orders", 6)
        await until(lambda: mesh.loads() == [3, 3], "tasks are spread")
        epochs = {id_: s.epoch for w in workers for id_, s in w.held.items()}
        await mesh.second.lead()
        for worker in workers:
            await worker.disconnect()
            worker._task = None
            worker.connect(mesh.second.address)
        leader = mesh.second.scheduler.leader()
        await until(lambda: len(leader.sessions) == 2, "both are there")
        await leader.wait_for_turn()
        await leader.wait_for_turn()
        assert [len(worker.starts) for worker in workers] == [3, 3]
        assert epochs == {id_: s.epoch for w in workers for id_, s in w.held.items()}

    mesh(test)


def test_held_tasks_are_returned_with_the_revision_of_epochs(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        stored = await mesh.create("orders", 2)
        await until(lambda: len(worker.held) == 2, "tasks run")
        newest = max(status.epoch for status in worker.held.values())
        held = await mesh.first.client.list_held_tasks(stored.generation)
        assert set(held.tasks) == set(worker.held)
        assert held.revision >= newest
        nothing = await mesh.first.client.list_held_tasks("another")
        assert nothing.tasks == ()
        await mesh.create("more", 1)
        await until(lambda: len(worker.held) == 3, "the third task runs")
        assert max(status.epoch for status in worker.held.values()) > nothing.revision

    mesh(test)


def test_a_leader_that_has_not_read_what_is_stored_does_not_say_that_nothing_is_held(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        stored = await mesh.create("orders", 2)
        await until(lambda: len(worker.held) == 2, "tasks run")
        await mesh.second.leadership.acquire()
        mesh.second.leading = asyncio.create_task(mesh.second.scheduler.lead())
        await asyncio.sleep(0)  # it leads, and its first read is under way
        assert len((await mesh.second.client.list_held_tasks(stored.generation)).tasks) == 2

    mesh(test)


def test_the_late_write_of_an_old_leader_is_refused_and_ends_it(mesh, patient):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: len(worker.held) == 1, "the task runs")
        await mesh.second.lead()
        await mesh.create("more", 1)  # the old leader would assign it
        await asyncio.wait_for(mesh.first.leading, 60)
        await until(lambda: worker.error is not None, "the session ended")
        assert worker.error.code == "scheduler.not_leader"
        assert worker.error.diagnostic.suggestion == mesh.second.address
        page = await mesh.store.range("assignment/")
        assert len(page.entries) == 1

    mesh(test, patient)


def test_breaking_the_leader_check_lets_an_old_leader_write(mesh):
    """The twin: what the test above asserts is not there any more."""

    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: len(worker.held) == 1, "the task runs")
        mesh.first.leadership.compares = False
        await mesh.second.leadership.acquire()
        await mesh.create("more", 1)
        await until(lambda: len(worker.held) == 2, "the old leader assigned")

    mesh(test)


def test_an_instance_that_does_not_lead_names_the_one_that_does(mesh):
    async def test(mesh):
        await mesh.second.leadership.refresh()
        for call in (
            mesh.second.client.get_cluster(),
            mesh.second.client.list_statuses(),
            mesh.second.client.drain_worker("w1"),
        ):
            with pytest.raises(RetriableError, match=r"scheduler\.not_leader") as caught:
                await call
            assert caught.value.diagnostic.suggestion == mesh.first.address

    mesh(test)


def test_a_drained_worker_is_emptied_until_that_is_undone(mesh):
    async def test(mesh):
        worker, other = mesh.join("w1"), mesh.join("w2")
        await mesh.create("orders", 4)
        await until(lambda: mesh.loads() == [2, 2], "tasks are spread")
        assert await mesh.first.client.drain_worker("w1") == 2
        await until(lambda: not worker.held and len(other.held) == 4, "it is empty")
        assert await mesh.first.client.drain_worker("w1") == 0
        found = await mesh.first.client.get_cluster()
        assert [(w.id, w.draining, w.tasks) for w in found.workers] == [
            ("w1", True, 0),
            ("w2", False, 4),
        ]
        assert [e.key for e in (await mesh.store.range("drain/")).entries] == ["drain/w1"]
        await mesh.first.client.drain_worker("w1", undo=True)
        await until(lambda: mesh.loads() == [2, 2], "it has tasks again")

    mesh(test)


def test_a_worker_is_drained_by_its_name_where_that_is_its_own(mesh):
    async def test(mesh):
        for id_, name in (("w1", "east"), ("w2", "west"), ("w3", "west")):
            mesh.join(id_, name=name)
        await until(lambda: len(mesh.first.scheduler.leader().cluster.workers.members) == 3, "all")
        assert await mesh.first.client.drain_worker("east") == 0
        assert [e.key for e in (await mesh.store.range("drain/")).entries] == ["drain/w1"]
        with pytest.raises(ConfigError, match=r"worker_ambiguous.*2 workers.*w2 or w3"):
            await mesh.first.client.drain_worker("west")

    mesh(test)


def test_a_worker_that_declares_draining_is_drained(mesh):
    async def test(mesh):
        mesh.join("w1")
        leaving = mesh.join("w2")
        await mesh.create("orders", 4)
        await until(lambda: mesh.loads() == [2, 2], "tasks are spread")
        leaving.rest["draining"] = True
        leaving._news.set()
        await until(lambda: not leaving.held, "it is empty")

    mesh(test)


def test_a_transient_failure_is_restarted_in_place_under_a_new_epoch(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task runs")
        ((id_, status),) = worker.held.items()
        worker.set(id_, TaskState.FAILED, TRANSIENT)
        await until(lambda: worker.held[id_].epoch > status.epoch, "it was restarted")
        task = await until_state(mesh.first.client, "orders", RunState.RUNNING)
        assert task.restarts == 1

    mesh(test)


def test_a_task_that_opens_again_after_a_failure_says_why(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task runs")
        (id_,) = worker.held
        worker.set(id_, TaskState.STARTING)
        await until_state(mesh.first.client, "orders", RunState.UNASSIGNED)
        worker.set(id_, TaskState.STARTING, TRANSIENT, restarts=1)
        task = await until_state(mesh.first.client, "orders", RunState.RESTARTING)
        assert task.diagnostic == TRANSIENT

    mesh(test)


def test_a_task_that_opens_for_the_first_time_says_why_its_last_attempt_failed(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task runs")
        (id_,) = worker.held
        worker.set(id_, TaskState.STARTING, TRANSIENT)
        task = await until_state(mesh.first.client, "orders", RunState.UNASSIGNED)
        assert (task.diagnostic, task.task.diagnostic) == (TRANSIENT, TRANSIENT)
        worker.set(id_, TaskState.RUNNING)
        task = await until_state(mesh.first.client, "orders", RunState.RUNNING)
        assert (task.diagnostic, task.task.diagnostic) == (None, None)

    mesh(test)

    mesh(test)


def test_plugins_set_up_what_is_outside_for_each_new_configuration_and_no_replan(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task runs")
        plans = mesh.plans
        assert plans.applied == [ApplyAction.CREATE]
        planned = len(plans.asked)
        await mesh.config.request_restart("orders")
        await until(lambda: len(plans.asked) > planned, "it is planned anew")
        assert plans.applied == [ApplyAction.CREATE]
        await mesh.create("orders", 1, topic="other")
        await until(lambda: len(plans.applied) == 2, "the new configuration is applied")
        assert plans.applied == [ApplyAction.CREATE, ApplyAction.UPDATE]

    mesh(test)


def test_plugins_hear_which_configuration_was_applied_last_also_when_its_plan_failed(mesh):
    async def test(mesh):
        worker, plans = mesh.join("w1"), mesh.plans
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task runs")
        plans.error = ConfigError("x.wrong", "the table is not there")
        for number, topic in enumerate(("second", "third"), start=2):
            await mesh.create("orders", 1, topic=topic)
            await until(lambda number=number: len(plans.last) == number, f"{topic} is applied")
        first, second, third = plans.last
        assert first is None
        assert "topic" not in second
        assert third["topic"] == "second"

    mesh(test)


def test_a_wrong_configuration_waits_for_an_operator_or_a_new_revision(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task runs")
        ((id_, status),) = worker.held.items()
        worker.set(id_, TaskState.FAILED, WRONG)
        task = await until_state(mesh.first.client, "orders", RunState.FAILED)
        assert task.diagnostic.code == "test.wrong"
        assert task.worker == "w1"
        await mesh.first.scheduler.leader().wait_for_turn()
        assert worker.held[id_].epoch == status.epoch
        await mesh.config.request_restart("orders", include_tasks=True, only_failed=True)
        await until(lambda: worker.held[id_].epoch > status.epoch, "the person was heard")
        worker.set(id_, TaskState.FAILED, WRONG)
        await until_state(mesh.first.client, "orders", RunState.FAILED)
        await mesh.create("orders", 1, topic="other")
        await until_state(mesh.first.client, "orders", RunState.RUNNING)

    mesh(test)


def test_a_fenced_task_is_released_before_it_is_assigned_again(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task runs")
        ((id_, status),) = worker.held.items()
        worker.set(id_, TaskState.STOPPED, FencedError("offset.stale_epoch", "old").diagnostic)
        await until(lambda: worker.held.get(id_, status).epoch > status.epoch, "assigned anew")

    mesh(test)


def test_partitions_that_appear_restart_only_the_task_that_gets_them(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        stored = await mesh.create("orders", 4, **{"tasks.max": "2"})
        await until(lambda: len(worker.held) == 2, "tasks run")
        before = {id_: status.epoch for id_, status in worker.held.items()}
        plan = mesh.plans.plan

        async def grown(address, connector):
            config = {**connector.config, "partitions": "5"}
            return await plan(address, type(connector)(connector.name, config))

        mesh.plans.plan = grown
        mesh.first.scheduler.leader().request_replan(stored.generation)
        await until(
            lambda: {i: s.epoch for i, s in worker.held.items()} not in (before, {}), "planned"
        )
        await until(lambda: len(worker.held) == 2, "both run")
        changed = [id_ for id_ in before if worker.held[id_].epoch != before[id_]]
        assert len(changed) == 1

    mesh(test)


def test_a_connector_is_paused_stopped_resumed_and_deleted(mesh):
    async def test(mesh):
        worker, client = mesh.join("w1"), mesh.first.client
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task runs")
        ((id_, status),) = worker.held.items()
        await mesh.config.set_target_state("orders", TargetState.PAUSED)
        await until(lambda: worker.paused == {id_}, "the worker hears of it")
        assert (await client.list_statuses("orders"))[0].tasks[0].state is RunState.RUNNING
        worker.set(id_, TaskState.PAUSED)  # what was on its way is done
        await until_state(client, "orders", RunState.PAUSED)
        assert worker.held[id_].epoch == status.epoch
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        await until(lambda: not worker.held, "the task is released")
        assert (await client.list_statuses("orders"))[0].state is RunState.STOPPED
        await mesh.config.set_target_state("orders", TargetState.RUNNING)
        await until(lambda: worker.held, "the task runs again")
        assert worker.held[id_].epoch > status.epoch
        await mesh.config.delete("orders")
        await until(lambda: not worker.held, "the task is gone")
        leader = mesh.first.scheduler.leader()
        await until(lambda: not leader.cluster.owned, "the records are gone")
        await leader.wait_for_turn()
        keys = {e.key for e in (await mesh.store.range("")).entries}
        left = {key for key in keys if not key.startswith(EVENT_PREFIX)}
        assert left == {"scheduler/leader", "scheduler/round"}

    mesh(test)


def test_a_plan_that_fails_is_the_connectors_own_failure(mesh):
    async def test(mesh):
        worker, client = mesh.join("w1"), mesh.first.client
        mesh.plans.error = ConfigError("test.plan", "no such table", fix="Name one.")
        await mesh.create("orders", 1)
        leader = mesh.first.scheduler.leader()
        await until(lambda: mesh.plans.asked, "it was tried")
        await until(
            lambda: any(
                leader.plan_schedule.failure_of(c) for c in leader.cluster.connectors.values()
            ),
            "failed",
        )
        (status,) = await client.list_statuses("orders")
        assert (status.state, status.diagnostic.code) == (RunState.FAILED, "test.plan")
        tries = len(mesh.plans.asked)
        await leader.wait_for_turn()
        assert len(mesh.plans.asked) == tries  # it waits for a person
        mesh.plans.error = None
        await mesh.config.request_restart("orders")
        await until(lambda: worker.held, "the task runs")

    mesh(test)


@pytest.mark.parametrize("point", ["scheduler.storing", "scheduler.stored"])
def test_a_round_that_fails_is_decided_again_from_what_is_stored(mesh, arm, point):
    async def test(mesh):
        worker = mesh.join("w1")
        leader = mesh.first.scheduler.leader()
        await until(lambda: worker.seen, "it has an assignment")
        arm(f"{point}=raise@1")
        await mesh.create("orders", 3)
        await until(lambda: len(worker.held) == 3, "tasks run all the same")
        assert leader.statistics()["failed"] == 1
        assert len(worker.starts) == 3

    mesh(test)


def test_a_second_session_of_a_worker_ends_its_first(mesh):
    async def test(mesh):
        first = mesh.join("w1")
        await until(lambda: first.seen, "the session is open")
        second = mesh.join("w1")
        mesh.workers["first"] = first
        await until(lambda: first.error is not None, "the first one ended")
        assert first.error.code == "scheduler.session_replaced"
        await until(lambda: second.seen, "the second one goes on")

    mesh(test)


def test_what_is_not_there_is_not_found(mesh):
    async def test(mesh):
        mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: mesh.loads() == [1], "it runs")
        client = mesh.first.client
        for call in (
            client.list_statuses("order"),
            client.drain_worker("w2"),
        ):
            with pytest.raises(ConfigError, match=r"scheduler\.not_found"):
                await call

    mesh(test)


def gated(monkeypatch, where, name):
    """Let something wait, each time, until the gate that is returned is open."""
    gate, real = asyncio.Event(), getattr(where, name)

    async def waiting(*arguments):
        await gate.wait()
        return await real(*arguments)

    monkeypatch.setattr(where, name, waiting)
    return gate


async def refusals(*calls):
    """The codes by which calls were refused; all of them have to be."""
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, RetriableError) for one in found), found
    return {one.code for one in found}


def test_a_new_leader_answers_nothing_that_it_does_not_know_yet(mesh, patient, monkeypatch):
    """An empty list of held tasks would let a person change offsets under a task that runs."""

    async def test(mesh):
        mesh.join("w1")
        generation = (await mesh.create("orders", 1)).generation
        await until(lambda: mesh.loads() == [1], "it runs")
        loads = gated(monkeypatch, stored_state, "load_state")
        lists = gated(monkeypatch, ConnectorFeed, "_list")
        await mesh.second.lead()
        async with SchedulerClient(mesh.second.address, 4.0) as hasty:
            ask = (
                hasty.list_held_tasks(generation),
                hasty.get_cluster(),
                hasty.list_statuses("orders"),
            )
            assert await refusals(*ask, hasty.drain_worker("w1")) == {"scheduler.starting"}
            held = asyncio.create_task(mesh.second.client.list_held_tasks(generation))
            status = asyncio.create_task(mesh.second.client.list_statuses("orders"))
            loads.set()
            assert (await held).tasks == tuple(mesh.workers["w1"].held)
            ask = (hasty.list_statuses("orders"), hasty.list_statuses(), hasty.drain_worker("w1"))
            assert await refusals(*ask) == {"scheduler.starting"}
            lists.set()
            assert [one.name for one in await status] == ["orders"]
            await mesh.second.client.drain_worker("w1")

    mesh(test, patient)


@pytest.mark.parametrize("delayed", [True, False])
def test_two_living_workers_of_one_name_are_warned_of_once_where_it_matters(
    mesh, patient, caplog, delayed
):
    async def test(mesh):
        leader = mesh.first.scheduler.leader()
        for id_ in ("w1", "w2", "w3"):
            mesh.join(id_, name="alone" if id_ == "w3" else "host")
        await until(lambda: len(leader.sessions) == 3, "all are there")
        await leader.wait_for_turn()
        await leader.wait_for_turn()
        found = [r.getMessage() for r in caplog.records if "instance.name" in r.getMessage()]
        assert len(found) == int(delayed)
        assert all("w1 and w2" in text and "w3" not in text for text in found)

    mesh(test, replace(patient, cluster=ClusterSettings(60.0 if delayed else 0.0)))


def test_a_task_that_matches_no_worker_reports_why(mesh):
    async def test(mesh):
        mesh.join("w1", labels={"zone": "a"})
        await mesh.create("orders", 1, placement="zone=b")
        async with asyncio.timeout(60):
            while not (await mesh.first.client.list_statuses()):
                await asyncio.sleep(0.01)
        mesh.join("w2", labels={"zone": "b"})
        await until_state(mesh.first.client, "orders", RunState.RUNNING)
        await mesh.workers["w2"].disconnect()
        async with asyncio.timeout(60):
            while (await state_of(mesh.first.client, "orders")).diagnostic is None:
                await asyncio.sleep(0.01)
        task = await until_state(mesh.first.client, "orders", RunState.UNASSIGNED)
        assert (task.worker, task.diagnostic.code) == ("", "scheduler.no_worker")

    mesh(test)


def test_a_drained_worker_stays_empty_under_another_leader(mesh):
    async def test(mesh):
        worker, other = mesh.join("w1"), mesh.join("w2")
        await mesh.create("orders", 4)
        await until(lambda: mesh.loads() == [2, 2], "tasks are spread")
        await mesh.first.client.drain_worker("w1")
        await until(lambda: len(other.held) == 4, "it is empty")
        leader = await mesh.second.lead()
        await leader.wait_for_turn()  # the drained one owns nothing, and is not there yet
        for one in (other, worker):
            await one.disconnect()
            one.connect(mesh.second.address)
        await until(lambda: len(leader.sessions) == 2, "both are there")
        await leader.wait_for_turn()
        await leader.wait_for_turn()
        assert (len(worker.held), len(other.held)) == (0, 4)
        assert [e.key for e in (await mesh.store.range("drain/")).entries] == ["drain/w1"]

    mesh(test)
