"""Frames, stored records, membership by session, task rules, and the plan schedule."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from penstock.model.connector import Connector, Partition, TargetState, TaskPlan
from penstock.model.errors import ConfigError, FencedError, RetriableError
from penstock.scheduler import SoleLeadership
from penstock.scheduler.leader.sessions import FRAME_BYTES, Outbox, Roster, assignment_frames
from penstock.scheduler.state.cluster import AssignedTask, WorkerAssignment
from penstock.scheduler.state.desired_state import (
    MAX_TASKS,
    DesiredConnector,
    ScalingRules,
    digest_config,
    digest_task,
    parse_task_rules,
)
from penstock.scheduler.state.plans import PlanSchedule
from penstock.scheduler.state.records import (
    TaskRecord,
    decode_record,
    encode_record,
    record_key,
)
from penstock.scheduler.state.restarts import RESTARTS
from penstock.scheduler.state.workers import Member, Workers
from penstock.store.port import Entry
from penstock.store.sqlite import SqliteStore
from support.leadership import LEADER_KEY, StoreLeadership


def assigned(number, size=0, *, known=False):
    plan = TaskPlan(f"g-{number}", (Partition({"p": number}, payload=bytes(size)),))
    return AssignedTask(plan.task_id, 5, Connector("c", {}), plan, known)


def test_an_assignment_is_cut_into_frames_and_only_the_last_one_ends_it():
    frames = list(
        assignment_frames(
            WorkerAssignment("w", 7, tuple(assigned(n, FRAME_BYTES // 2) for n in range(5)))
        )
    )
    assert [frame.more for frame in frames] == [True, True, False]
    assert {frame.revision for frame in frames} == {7}
    assert [len(frame.tasks) for frame in frames] == [2, 2, 1]
    assert all(frame.ByteSize() < 2 * FRAME_BYTES for frame in frames)


def test_an_empty_assignment_is_one_frame():
    (frame,) = assignment_frames(WorkerAssignment("w", 7, ()))
    assert (frame.revision, frame.more) == (7, False)


def test_a_known_task_travels_without_its_plan():
    (frame,) = assignment_frames(WorkerAssignment("w", 7, (assigned(0, known=True),)))
    assert [(kept.task_id, kept.epoch) for kept in frame.kept] == [("g-0", 5)]
    assert not frame.tasks


def test_a_slow_reader_gets_the_newest_assignment_and_none_before():
    async def main():
        outbox = Outbox()
        for revision in range(1, 100):
            outbox.put(WorkerAssignment("w", revision, ()))
        frames = outbox.frames()
        assert (await anext(frames)).revision == 99
        outbox.end(RetriableError("test.first", "first"))
        outbox.end(RetriableError("test.second", "second"))
        with pytest.raises(RetriableError, match=r"test\.first"):
            await anext(frames)

    asyncio.run(main())


def test_a_record_comes_back_and_fields_of_a_newer_version_are_left_out():
    record = TaskRecord("w", "n", "g", "d", 3)
    value = encode_record(record).replace(b"{", b'{"new":1,', 1)
    id_, owned = decode_record(Entry(record_key("g-0"), value, 9))
    assert (id_, owned.record, owned.epoch) == ("g-0", record, 9)


def test_sessions_are_membership_where_there_is_no_lease():
    roster = Roster(5)
    roster.expect([Member("old", "n")], 0)
    roster.declare(Member("new"))
    assert [m.id for m in roster.alive(4, 7)[0]] == ["old", "new"]
    assert roster.next_due_at() == 5
    assert [m.id for m in roster.alive(5, 7)[0]] == ["new"]
    roster.record_closed("new", 6)
    roster.declare(Member("new"))
    assert [m.id for m in roster.alive(100, 7)[0]] == ["new"]
    assert roster.next_due_at() is None


def test_by_lease_a_session_adds_what_a_worker_declares():
    roster = Roster(None)
    assert roster.alive(0, 7) is None
    assert roster.declare(Member("w", "n", "here", {"zone": "a"}, 2.0))
    roster.set_leased([Member("w", address="there")], 5)
    assert roster.alive(0, 7) == ([Member("w", "n", "there", {"zone": "a"}, 2.0)], 5)


def test_rules_of_a_configuration_and_defaults_for_what_cannot_be_read():
    rules = parse_task_rules(
        {"tasks.max": "8", "tasks.min": "2", "lag.target": "5s", "placement": "a=b"}
    )
    assert rules.scaling == ScalingRules(2, 8, 5.0)
    assert rules.placement == (("a", ("b",)),)
    wrong = {"tasks.max": "many", "placement": "nonsense", "task.weight": "x", "restart.max": "?"}
    assert parse_task_rules(wrong) == parse_task_rules({})
    assert parse_task_rules({"tasks.max": "1000000"}).scaling.max_tasks == MAX_TASKS


def test_a_digest_is_of_what_runs_and_not_of_its_state():
    connector = Connector("c", {"a": "1", "b": "2"}, revision=1)
    same = Connector("c", {"b": "2", "a": "1"}, target_state=TargetState.PAUSED, revision=9)
    assert digest_config(connector) == digest_config(same)
    assert digest_config(connector) != digest_config(Connector("c", {"a": "1"}))
    at = TaskPlan("g-0", (Partition({"p": 1}, {"at": 7}),))
    assert digest_task("f", at) == digest_task("f", TaskPlan("g-0", (Partition({"p": 1}),)))


def needs_and_workers(*members):
    workers = Workers()
    workers.update_members(members, 1, 0)
    return PlanSchedule(replace(RESTARTS, jitter=0), random.Random(1)), workers


def test_a_plan_is_requested_once_and_of_another_worker_after_a_failure():
    schedule, workers = needs_and_workers(Member("a", address="a"), Member("b", address="b"))
    wanted = DesiredConnector(Connector("c", {"tasks.max": "3"}, generation="g"))
    (wish,) = schedule.due_requests([wanted], workers, 0)
    assert (wish.worker, wish.tasks) == ("a", 3)
    assert schedule.due_requests([wanted], workers, 0) == []
    schedule.record_failure(wish, RetriableError("test.away", "away").diagnostic, 0)
    assert schedule.failure_of(wanted).code == "test.away"
    assert schedule.due_requests([wanted], workers, 0.5) == []
    assert schedule.next_due_at(0.5) == 1
    (wish,) = schedule.due_requests([wanted], workers, 1)
    assert wish.worker == "b"


def test_a_wrong_configuration_is_planned_again_after_a_change_or_a_request():
    schedule, workers = needs_and_workers(Member("a", address="a"))
    wanted = DesiredConnector(Connector("c", {}, generation="g"))
    (wish,) = schedule.due_requests([wanted], workers, 0)
    schedule.record_failure(wish, ConfigError("test.wrong", "wrong").diagnostic, 0)
    assert schedule.due_requests([wanted], workers, 1000) == []
    other = DesiredConnector(Connector("c", {"a": "b"}, generation="g"))
    (wish,) = schedule.due_requests([other], workers, 1000)
    schedule.record_failure(wish, ConfigError("test.wrong", "wrong").diagnostic, 1000)
    schedule.request_now("g")
    assert len(schedule.due_requests([other], workers, 1000)) == 1


def test_a_stopped_connector_and_one_that_no_worker_fits_are_not_planned():
    schedule, workers = needs_and_workers(Member("a", address="a"), Member("b"))
    stopped = Connector("c", {}, target_state=TargetState.STOPPED, generation="g")
    placed = Connector("d", {"placement": "zone=a"}, generation="h")
    assert (
        schedule.due_requests([DesiredConnector(stopped), DesiredConnector(placed)], workers, 0)
        == []
    )


def test_a_lasting_lag_requests_more_tasks():
    schedule, workers = needs_and_workers(Member("a", address="a"))
    connector = Connector("c", {"tasks.max": "8", "lag.target": "10s"}, generation="g")
    plans = (TaskPlan("g-0"), TaskPlan("g-1"))
    wanted = DesiredConnector(connector, plans, 5, digest_config(connector))
    assert schedule.scales_by_lag(wanted)
    for now in range(0, 70, 5):
        schedule.observe_progress(wanted, 10_000, now * 10, now)
    (wish,) = schedule.due_requests([wanted], workers, 70)
    assert wish.tasks > 2


def test_leadership_by_a_key_fences_the_one_before(tmp_path):
    async def main():
        store = await SqliteStore.open(tmp_path / "state.db")
        first, second = StoreLeadership(store, "first"), StoreLeadership(store, "second")
        with pytest.raises(FencedError, match=r"scheduler\.not_leader"):
            await first.write([], [("k", b"0")])
        await first.acquire()
        await first.write([], [("k", b"1")])
        await second.acquire()
        assert first.is_leader()  # it does not know yet
        with pytest.raises(FencedError, match=r"scheduler\.not_leader") as caught:
            await first.write([], [("k", b"2")])
        assert caught.value.diagnostic.suggestion == "second"
        assert not first.is_leader()
        assert (first.leader_address(), second.leader_address()) == ("second", "second")
        await second.write([], [("k", b"3")])
        assert (await store.get("k"))["k"].value == b"3"
        await SoleLeadership(store, "only").write([], [(LEADER_KEY, None)])
        await second.refresh()
        assert second.leader_address() == ""
        await store.close()

    asyncio.run(main())
