"""The state machine: which tasks move, wait, restart (invariants 4, 7 and 11)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.simulated import Simulation
from penstock.model.connector import TargetState, TaskState, TaskStatus
from penstock.model.errors import Diagnostic, ErrorClass, Severity
from penstock.model.status import RunState
from penstock.scheduler.leader.connector_plans import ConnectorPlans, PlanningLoop
from penstock.scheduler.state.cluster import ClusterSettings
from penstock.scheduler.state.records import OwnedTask, TaskRecord
from penstock.scheduler.state.restarts import MAX_INTERNAL_RESTARTS, RESTARTS, FailureAction
from penstock.scheduler.state.statuses import derive_connector_status
from penstock.scheduler.state.workers import DISCONNECTED_AFTER_S, Member, Report, Workers


def cluster(workers=3, connectors=4, tasks=3, **settings):
    mesh = Simulation(settings=ClusterSettings(**settings))
    for n in range(workers):
        mesh.join(f"n{n}")
    for n in range(connectors):
        mesh.create(f"c{n}", tasks)
    mesh.settle()
    return mesh


def starts_of(mesh, happens):
    before = Counter(mesh.moves.starts)
    happens()
    mesh.settle()
    assert mesh.moves.violations == []
    return mesh.moves.starts - before


def test_a_fourth_worker_takes_30_of_120_tasks_and_90_never_stop():
    mesh = cluster(3, 30, 4)
    moved = starts_of(mesh, lambda: mesh.join("n3"))
    assert (len(moved), set(moved.values())) == (30, {1})
    assert set(mesh.loads().values()) == {30}


@given(st.integers(0, 4), st.integers(0, 2**16))
def test_whatever_happens_once_is_settled_within_two_rounds(what, seed):
    mesh = cluster(4, 5, 3)
    mesh.random.seed(seed)
    some = mesh.random.choice(sorted(mesh.workers))
    before = mesh.rounds
    [
        lambda: mesh.join("new"),
        lambda: mesh.lose(some),
        lambda: mesh.create("new", 6),
        lambda: mesh.create("c1", mesh.random.randint(1, 9)),
        lambda: mesh.create("c1", 3, topic="other"),
    ][what]()
    mesh.settle()
    assert mesh.rounds - before <= 2
    assert set(mesh.running()) == mesh.wanted()


def test_a_new_configuration_restarts_the_tasks_of_its_connector_alone():
    mesh = cluster()
    changed = starts_of(mesh, lambda: mesh.create("c1", 3, topic="other"))
    assert {id_.partition(":")[0] for id_ in changed} == {"c1"}


def test_another_target_state_is_no_new_configuration():
    mesh = cluster()
    assert not starts_of(mesh, lambda: mesh.target("c1", TargetState.PAUSED))
    assert not starts_of(mesh, lambda: mesh.target("c1", TargetState.RUNNING))


def test_no_changed_task_starts_before_all_old_tasks_of_the_connector_have_stopped():
    """A partition may have gone from one task to another one."""
    mesh = cluster(2, 1, 4)
    for worker in mesh.workers.values():
        worker.slow = 0
    slow = next(iter(mesh.workers.values()))
    slow.slow = 50
    old = {id_: o.epoch for id_, o in mesh.store.items()}
    mesh.create("c0", 4, topic="other")
    for _ in range(10):
        mesh.step()
    held = {h.epoch for w in mesh.workers.values() for h in w.held.values()}
    assert held <= set(old.values())
    mesh.settle()
    assert set(mesh.running()) == mesh.wanted()
    assert min(o.epoch for o in mesh.store.values()) > max(old.values())


def test_another_leader_restarts_nothing_also_in_the_middle_of_a_move():
    mesh = cluster(3, 10, 3)
    for worker in mesh.workers.values():
        worker.slow = 5
    before = Counter(mesh.moves.starts)
    mesh.join("n3")
    mesh.step()
    mesh.step()
    mesh.lead()
    mesh.settle()
    assert mesh.moves.violations == []
    again = mesh.moves.starts - before
    # 30 tasks on four workers: seven of them move; one that was told to leave may start again
    assert len(again) <= 10
    assert not starts_of(mesh, mesh.lead)


def test_breaking_the_renounce_check_gives_tasks_two_owners(arm):
    """The twin: what every test here asserts is not there any more."""
    mesh = cluster(3, 10, 3)
    for worker in mesh.workers.values():
        worker.slow = 5
    arm("scheduler.renounce_check=break")
    mesh.join("n3")
    for _ in range(6):
        mesh.step()
    assert any("2 owners" in violation for violation in mesh.moves.violations)


def test_a_lost_workers_tasks_wait_for_it_and_return_and_nothing_else_moves():
    mesh = cluster(3, 4, 3, rebalance_delay_s=50)
    lost = next(iter(mesh.workers))
    name, its = mesh.workers[lost].member.name, set(mesh.workers[lost].held)

    def bounce():
        mesh.lose(lost)
        for _ in range(20):
            mesh.step()
        assert set(mesh.running()) == mesh.wanted() - its
        mesh.join(name)

    assert set(starts_of(mesh, bounce)) == its
    assert set(mesh.loads().values()) == {4}


def test_after_the_delay_the_tasks_are_reassigned_once():
    mesh = cluster(3, 4, 3, rebalance_delay_s=20)
    lost = next(iter(mesh.workers))
    its = set(mesh.workers[lost].held)
    before = Counter(mesh.moves.starts)
    mesh.lose(lost)
    for _ in range(25):
        mesh.step()
    assert mesh.moves.starts - before == Counter(its)
    assert set(mesh.running()) == mesh.wanted()


@pytest.mark.parametrize("unwanted", ["deleted", "stopped"])
def test_the_delay_does_not_hold_tasks_that_should_no_longer_run(unwanted):
    mesh = cluster(2, 1, 2, rebalance_delay_s=600)
    mesh.lose(next(iter(mesh.workers)))
    mesh.step()
    assert len(mesh.store) == 2
    mesh.delete("c0") if unwanted == "deleted" else mesh.target("c0", TargetState.STOPPED)
    mesh.settle()
    assert mesh.store == {}
    assert mesh.cluster.next_due_at(mesh.now) is None


def test_without_the_delay_a_worker_of_the_same_name_gets_the_tasks_back():
    mesh = cluster(3, 4, 3)
    lost = next(iter(mesh.workers))
    name, its = mesh.workers[lost].member.name, set(mesh.workers[lost].held)
    joined = []

    def bounce():
        joined.append(mesh.join(name))
        mesh.lose(lost)

    moved = starts_of(mesh, bounce)
    assert set(moved) == its
    assert {mesh.running()[id_] for id_ in its} == set(joined)


def test_a_report_about_another_epoch_does_not_count():
    mesh = cluster(1, 1, 1)
    ((worker, (id_,)),) = ((w, w.held) for w in mesh.workers.values())
    worker.held[id_].epoch -= 1
    worker.held[id_].state = TaskState.FAILED
    mesh.cluster.record_report(worker.report(), mesh.now)
    owned = mesh.cluster.owned[id_]
    assert mesh.cluster.workers.task_status(id_, owned) is None
    assert not mesh.cluster.restarts.due_restarts(mesh.now + 1000)


def test_an_owner_that_is_newer_than_the_list_of_members_is_not_gone():
    mesh = cluster(1, 1, 1)
    ((id_, owned),) = mesh.store.items()
    newer = OwnedTask(
        TaskRecord("unseen", "", owned.record.generation, owned.record.digest), 10_000
    )
    mesh.cluster.load_records({id_: newer}, 10_000)
    assert (
        mesh.cluster.decide_writes(mesh.now) == []
        or not mesh.cluster.decide_writes(mesh.now)[0].records
    )
    members = [worker.member for worker in mesh.workers.values()]
    mesh.cluster.update_members(members, 10_001, mesh.now)
    (write,) = mesh.cluster.decide_writes(mesh.now)
    assert write.records[id_].worker == members[0].id


def test_an_older_list_is_ignored():
    mesh = cluster(2, 1, 2)
    mesh.cluster.update_members([], 0, mesh.now)
    mesh.cluster.update_connectors([], 1)
    assert mesh.cluster.decide_writes(mesh.now) == []
    assert len(mesh.cluster.workers.members) == 2


def test_a_worker_that_never_connected_and_owns_nothing_gets_nothing():
    mesh = cluster(2, 4, 1)
    mesh.revision += 1
    members = [worker.member for worker in mesh.workers.values()]
    mesh.cluster.update_members([*members, Member("silent")], mesh.revision, mesh.now)
    assert mesh.cluster.decide_writes(mesh.now) == []


def test_a_lost_write_is_decided_again():
    mesh = cluster(2, 1, 2)
    mesh.fail_writes = 3
    assert len(starts_of(mesh, lambda: mesh.create("new", 3))) == 3


def test_a_move_whose_write_has_no_response_still_ends():
    mesh = cluster(3, 10, 3)
    mesh.join("n3")
    while not mesh.cluster.leaving:
        mesh.step()
    moving = set(mesh.cluster.leaving)
    mesh.lose_answers = 2
    mesh.settle()
    assert mesh.lose_answers == 0
    assert not mesh.cluster.leaving
    assert moving <= set(mesh.running()) == mesh.wanted()
    assert mesh.moves.violations == []


@pytest.mark.parametrize(
    ("kind", "again"),
    [
        (ErrorClass.RETRIABLE, True),
        (ErrorClass.UNSPECIFIED, True),
        (ErrorClass.FENCED, True),
        (ErrorClass.CONFIG, False),
        (ErrorClass.AUTH, False),
        (ErrorClass.OFFSET_LOST, False),
    ],
)
def test_a_failed_task_is_restarted_by_the_class_of_its_error(kind, again):
    mesh = cluster(1, 1, 2)
    id_ = min(mesh.running())
    epoch = mesh.store[id_].epoch
    worker = next(iter(mesh.workers.values()))
    assert starts_of(mesh, lambda: worker.fail(id_, kind)) == Counter({id_: 1} if again else {})
    assert (mesh.store[id_].epoch > epoch) is again
    assert mesh.store[id_].record.restarts == int(again)


def test_restart_max_ends_restarts_also_under_another_leader():
    mesh = cluster(1, 1, 1)
    mesh.create("c0", 1, **{"restart.max": "2"})
    mesh.settle()
    worker = next(iter(mesh.workers.values()))
    (id_,) = mesh.running()
    for restarts in (1, 2):
        mesh.lead()
        worker.fail(id_, ErrorClass.RETRIABLE)
        mesh.settle()
        assert mesh.store[id_].record.restarts == restarts
    worker.fail(id_, ErrorClass.RETRIABLE)
    assert not starts_of(mesh, lambda: None)
    mesh.cluster.request_restarts([id_], mesh.now)
    assert starts_of(mesh, lambda: None) == {id_: 1}
    assert mesh.store[id_].record.restarts == 0


def test_another_configuration_resets_the_count_of_restarts():
    mesh = cluster(1, 1, 1)
    mesh.create("c0", 1, **{"restart.max": "1", "topic": "wrong"})
    mesh.settle()
    worker = next(iter(mesh.workers.values()))
    (id_,) = mesh.running()
    for _ in range(2):
        worker.fail(id_, ErrorClass.RETRIABLE)
        mesh.settle()
    assert mesh.cluster.restarts.history(id_).action is FailureAction.WAIT
    mesh.create("c0", 1, **{"restart.max": "1", "topic": "right"})
    mesh.settle()
    assert mesh.store[id_].record.restarts == 0
    assert starts_of(mesh, lambda: worker.fail(id_, ErrorClass.RETRIABLE)) == {id_: 1}


def test_a_task_that_moves_after_a_quiet_period_starts_with_no_restarts():
    mesh = cluster(2, 1, 2)
    id_ = min(mesh.running())
    owner = mesh.running()[id_]
    mesh.workers[owner].fail(id_, ErrorClass.RETRIABLE)
    mesh.settle()
    assert mesh.store[id_].record.restarts == 1
    mesh.now += int(RESTARTS.healthy_after_s)
    mesh.step()
    mesh.drain(owner)
    mesh.settle()
    assert (mesh.running()[id_] != owner, mesh.store[id_].record.restarts) == (True, 0)


@pytest.mark.parametrize(
    ("in_a_row", "fate"), [(0, FailureAction.RESTART), (MAX_INTERNAL_RESTARTS, FailureAction.WAIT)]
)
def test_restarts_in_place_count_against_a_defect_only_in_a_row(in_a_row, fate):
    mesh = cluster(1, 1, 1)
    (id_,) = mesh.running()
    (worker,) = mesh.workers.values()
    why = Diagnostic("test.defect", "defect", ErrorClass.INTERNAL)
    status = TaskStatus(
        id_, "c0", worker.held[id_].epoch, TaskState.FAILED, why, restarts=9,
        restarts_in_a_row=in_a_row,
    )  # fmt: skip
    mesh.cluster.record_report(Report(worker.member.id, worker.seen, {id_: status}), mesh.now)
    assert mesh.cluster.restarts.history(id_).action is fate


def test_a_failed_task_that_waits_is_moved_and_deleted_like_any_other():
    mesh = cluster(2, 1, 2)
    id_ = min(mesh.running())
    owner = mesh.running()[id_]
    mesh.workers[owner].fail(id_, ErrorClass.CONFIG)
    mesh.settle()
    mesh.drain(owner)
    mesh.settle()
    assert mesh.running()[id_] != owner
    mesh.delete("c0")
    mesh.settle()
    assert mesh.store == {}


def test_a_task_deleted_between_a_round_and_its_assignments_is_released():
    """Its owner never hears of it, so it has to hear that there is nothing."""
    mesh = cluster(2, 1, 2)
    send = mesh.cluster.take_assignments

    def after_a_delete():
        if "brief" in mesh.connectors:
            mesh.delete("brief")
        return send()

    mesh.cluster.take_assignments = after_a_delete
    assert not starts_of(mesh, lambda: mesh.create("brief", 3))
    assert mesh.store.keys() == mesh.wanted()


def test_tasks_of_outdated_plans_continue_and_no_new_task_starts():
    mesh = cluster(2, 1, 2)
    one = mesh.connectors["c0"]
    stale = type(one)(one.connector, one.plans, one.plan_epoch, "another")
    mesh.connectors["c0"] = stale
    assert not starts_of(mesh, mesh._tell)
    assert not starts_of(mesh, mesh.lead)
    assert not starts_of(mesh, lambda: mesh.lose(next(iter(mesh.workers))))
    mesh.connectors["c0"] = one
    assert len(starts_of(mesh, mesh._tell)) == 1


def test_a_worker_that_cannot_be_reached_keeps_its_tasks_and_gets_no_new_ones():
    mesh = cluster(2, 2, 3)
    silent, other = mesh.workers.values()
    its = set(silent.held)
    mesh.cluster.workers.close_session(silent.member.id)
    moved = []
    for now in (5, DISCONNECTED_AFTER_S + 1):
        mesh.now += int(now)
        mesh._tell()
        before = set(mesh.store)
        mesh.create(f"new{now}", 4)
        for write in mesh.cluster.decide_writes(mesh.now):
            mesh.cluster.record_write(write, mesh.revision)
        owners = {i: o.record.worker for i, o in mesh.cluster.owned.items() if i not in before}
        moved.append({w for i, w in owners.items() if i.startswith(f"new{now}")})
    assert moved == [{silent.member.id, other.member.id}, {other.member.id}]
    assert {mesh.cluster.owned[id_].record.worker for id_ in its} == {silent.member.id}
    assert not mesh.cluster.leaving


def test_lag_decides_the_number_of_tasks_between_the_bounds(caplog):
    mesh = Simulation()
    worker = mesh.workers[mesh.join("n0")]
    bounds = {"tasks.min": "2", "tasks.max": "4", "lag.target": "10s"}
    mesh.create("c", 2, **bounds)
    mesh.settle()
    planning = PlanningLoop(
        RESTARTS, Random(1), None, None, ConnectorPlans(None), lambda *_: None, lambda: 0.0
    )
    schedule = planning.schedule
    able = Workers()
    able.update_members([Member("a", address="a")], 1, 0)

    def after(seconds, left):
        """Return how many tasks are wished for while each has so many rows left."""
        began, wishes = mesh.now, []
        while mesh.now < began + seconds:
            mesh.now += 2
            tasks = {
                id_: TaskStatus(
                    id_, "c", h.epoch, h.state, rows_written=mesh.now * 100, rows_left=left
                )
                for id_, h in worker.held.items()
            }
            mesh.cluster.record_report(Report(worker.member.id, worker.seen, tasks), mesh.now)
            planning._observe_lag(mesh.cluster, mesh.now)
            for wish in schedule.due_requests(mesh.cluster.connectors.values(), able, mesh.now):
                wishes.append(wish.tasks)
                mesh.create("c", wish.tasks)
                mesh.settle()
                schedule.record_success(mesh.connectors["c"].generation, "a", mesh.now)
        return wishes

    def warned():
        """Return the keys that the status of the connector warns about."""
        status = derive_connector_status(
            mesh.cluster, schedule, mesh.cluster.connectors[generation]
        )
        assert status.state is RunState.RUNNING
        found = status.diagnostic
        return found and (found.code, found.severity, found.config_path)

    generation = mesh.connectors["c"].generation
    assert after(60, 100) == []
    assert not caplog.records
    assert warned() is None
    assert after(60, -1) == []
    (told,) = caplog.messages
    assert "connector c: [config.no_effect] `lag.target` has no effect here" in told
    assert warned() == ("config.no_effect", Severity.WARNING, "lag.target")
    assert after(120, 100_000) == [3, 4]
    assert warned() is None
    assert after(2000, 0) == [3, 2]
