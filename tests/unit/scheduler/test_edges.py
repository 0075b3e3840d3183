"""Frames, keys, sessions as membership, rules of a configuration, who plans."""

from __future__ import annotations

import asyncio
import random

import pytest

from penstock.model.connector import Connector, Partition, TargetState, TaskPlan
from penstock.model.errors import ConfigError, FencedError, RetriableError
from penstock.scheduler import SoleLeader, StoreLeadership
from penstock.scheduler.leading.leadership import LEADER
from penstock.scheduler.leading.members import Roster
from penstock.scheduler.leading.sessions import FRAME_BYTES, Outbox, frames_of
from penstock.scheduler.state.events import Assign, Assigned, Member
from penstock.scheduler.state.failures import RestartPolicy
from penstock.scheduler.state.ownership import Workers
from penstock.scheduler.state.plan_needs import UNSEEN, PlanNeeds
from penstock.scheduler.state.records import (
    Planned,
    Record,
    decode_record,
    encode_record,
    record_key,
)
from penstock.scheduler.state.scaling import ScalingRules
from penstock.scheduler.state.wanted import MOST_TASKS, Wanted, config_digest, rules_of, task_digest
from penstock.store import Entry, SqliteStore


def assigned(number, size=0, *, known=False):
    plan = TaskPlan(f"g-{number}", (Partition({"p": number}, payload=bytes(size)),))
    return Assigned(plan.task_id, 5, Connector("c", {}), plan, known)


def test_an_assignment_is_cut_into_frames_and_only_the_last_one_ends_it():
    frames = list(frames_of(Assign("w", 7, tuple(assigned(n, FRAME_BYTES // 2) for n in range(5)))))
    assert [frame.more for frame in frames] == [True, True, False]
    assert {frame.revision for frame in frames} == {7}
    assert [len(frame.tasks) for frame in frames] == [2, 2, 1]
    assert all(frame.ByteSize() < 2 * FRAME_BYTES for frame in frames)


def test_an_empty_assignment_is_one_frame():
    (frame,) = frames_of(Assign("w", 7, ()))
    assert (frame.revision, frame.more) == (7, False)


def test_a_known_task_travels_without_its_plan():
    (frame,) = frames_of(Assign("w", 7, (assigned(0, known=True),)))
    assert [(kept.task_id, kept.epoch) for kept in frame.kept] == [("g-0", 5)]
    assert not frame.tasks


def test_a_slow_reader_gets_the_newest_assignment_and_none_before():
    async def main():
        outbox = Outbox()
        for revision in range(1, 100):
            outbox.put(Assign("w", revision, ()))
        frames = outbox.frames()
        assert (await anext(frames)).revision == 99
        outbox.end(RetriableError("test.first", "first"))
        outbox.end(RetriableError("test.second", "second"))
        with pytest.raises(RetriableError, match=r"test\.first"):
            await anext(frames)

    asyncio.run(main())


def test_a_record_comes_back_and_fields_of_a_newer_version_are_left_out():
    record = Record("w", "n", "g", "d", 3)
    value = encode_record(record).replace(b"{", b'{"new":1,', 1)
    id_, owned = decode_record(Entry(record_key("g-0"), value, 9))
    assert (id_, owned.record, owned.epoch) == ("g-0", record, 9)


def test_sessions_are_membership_where_there_is_no_lease():
    roster = Roster(5)
    roster.expect([Member("old", "n")], 0)
    roster.declare(Member("new"))
    assert [m.id for m in roster.alive(4, 7)[0]] == ["old", "new"]
    assert roster.next_due() == 5
    assert [m.id for m in roster.alive(5, 7)[0]] == ["new"]
    roster.closed("new", 6)
    roster.declare(Member("new"))
    assert [m.id for m in roster.alive(100, 7)[0]] == ["new"]
    assert roster.next_due() is None


def test_by_lease_a_session_adds_what_a_worker_says_of_itself():
    roster = Roster(None)
    assert roster.alive(0, 7) is None
    assert roster.declare(Member("w", "n", "here", {"zone": "a"}, 2.0))
    roster.leased([Member("w", address="there")], 5)
    assert roster.alive(0, 7) == ([Member("w", "n", "there", {"zone": "a"}, 2.0)], 5)


def test_rules_of_a_configuration_and_defaults_for_what_cannot_be_read():
    rules = rules_of({"tasks.max": "8", "tasks.min": "2", "lag.target": "5s", "placement": "a=b"})
    assert rules.scaling == ScalingRules(2, 8, 5.0)
    assert rules.placement == (("a", ("b",)),)
    wrong = {"tasks.max": "many", "placement": "nonsense", "task.weight": "x", "restart.max": "?"}
    assert rules_of(wrong) == rules_of({})
    assert rules_of({"tasks.max": "1000000"}).scaling.most == MOST_TASKS


def test_a_digest_is_of_what_runs_and_not_of_its_state():
    connector = Connector("c", {"a": "1", "b": "2"}, revision=1)
    same = Connector("c", {"b": "2", "a": "1"}, target_state=TargetState.PAUSED, revision=9)
    assert config_digest(connector) == config_digest(same)
    assert config_digest(connector) != config_digest(Connector("c", {"a": "1"}))
    at = TaskPlan("g-0", (Partition({"p": 1}, {"at": 7}),))
    assert task_digest("f", at) == task_digest("f", TaskPlan("g-0", (Partition({"p": 1}),)))


def needs_and_workers(*members):
    workers = Workers()
    workers.update(members, 1, 0)
    return PlanNeeds(RestartPolicy(first=1, jitter=0), random.Random(1)), workers


def test_a_plan_is_wished_once_and_by_another_worker_after_a_failure():
    needs, workers = needs_and_workers(Member("a", address="a"), Member("b", address="b"))
    wanted = Wanted(Connector("c", {"tasks.max": "3"}, generation="g"))
    (wish,) = needs.wishes([wanted], workers, 0)
    assert (wish.worker, wish.tasks) == ("a", 3)
    assert needs.wishes([wanted], workers, 0) == []
    needs.failed(wish, RetriableError("test.away", "away").diagnostic, 0)
    assert needs.failure(wanted).code == "test.away"
    assert needs.wishes([wanted], workers, 0.5) == []
    assert needs.next_due(0.5) == 1
    (wish,) = needs.wishes([wanted], workers, 1)
    assert wish.worker == "b"


def test_a_wrong_configuration_is_planned_again_when_it_is_another_one_or_a_person_asks():
    needs, workers = needs_and_workers(Member("a", address="a"))
    wanted = Wanted(Connector("c", {}, generation="g"))
    (wish,) = needs.wishes([wanted], workers, 0)
    needs.failed(wish, ConfigError("test.wrong", "wrong").diagnostic, 0)
    assert needs.wishes([wanted], workers, 1000) == []
    other = Wanted(Connector("c", {"a": "b"}, generation="g"))
    (wish,) = needs.wishes([other], workers, 1000)
    needs.failed(wish, ConfigError("test.wrong", "wrong").diagnostic, 1000)
    needs.ask("g")
    assert len(needs.wishes([other], workers, 1000)) == 1


def test_a_connector_is_not_planned_again_before_the_plans_that_were_made_are_seen():
    needs, workers = needs_and_workers(Member("a", address="a"))
    connector = Connector("c", {}, generation="g")
    old = Wanted(connector)
    assert len(needs.wishes([old], workers, 0)) == 1
    needs.made("g", "a", Planned(old.form, 7), 1)
    needs.suggest("g")
    assert needs.wishes([old], workers, 3) == []
    seen = Wanted(connector, (TaskPlan("g-0"),), 7, old.form)
    (wish,) = needs.wishes([seen], workers, 4)
    assert wish.old == seen.plans


def test_plans_that_say_the_same_are_seen_by_what_they_were_made_for():
    needs, workers = needs_and_workers(Member("a", address="a"))
    connector = Connector("c", {"a": "new"}, generation="g")
    old = Wanted(connector, (TaskPlan("g-0"),), 7, "another configuration")
    assert len(needs.wishes([old], workers, 0)) == 1
    needs.made("g", "a", Planned(old.form, 7), 1)
    assert needs.wishes([old], workers, 1) == []
    assert needs.wishes([Wanted(connector, old.plans, 7, old.form)], workers, 2) == []
    assert needs.next_due(2) is None


def test_plans_that_are_never_seen_are_made_again():
    needs, workers = needs_and_workers(Member("a", address="a"))
    wanted = Wanted(Connector("c", {}, generation="g"))
    assert len(needs.wishes([wanted], workers, 0)) == 1
    needs.made("g", "a", Planned(wanted.form, 7), 0)
    assert needs.wishes([wanted], workers, UNSEEN - 1) == []
    assert len(needs.wishes([wanted], workers, UNSEEN)) == 1


def test_a_stopped_connector_and_one_that_no_worker_fits_are_not_planned():
    needs, workers = needs_and_workers(Member("a", address="a"), Member("b"))
    stopped = Connector("c", {}, target_state=TargetState.STOPPED, generation="g")
    placed = Connector("d", {"placement": "zone=a"}, generation="h")
    assert needs.wishes([Wanted(stopped), Wanted(placed)], workers, 0) == []


def test_a_lag_that_stays_asks_for_more_tasks():
    needs, workers = needs_and_workers(Member("a", address="a"))
    connector = Connector("c", {"tasks.max": "8", "lag.target": "10s"}, generation="g")
    plans = (TaskPlan("g-0"), TaskPlan("g-1"))
    wanted = Wanted(connector, plans, 5, config_digest(connector))
    assert needs.scales(wanted)
    for now in range(0, 70, 5):
        needs.observe(wanted, 10_000, now * 10, now)
    (wish,) = needs.wishes([wanted], workers, 70)
    assert wish.tasks > 2


def test_leadership_by_a_key_fences_the_one_before(tmp_path):
    async def main():
        store = await SqliteStore.open(tmp_path / "state.db")
        first, second = StoreLeadership(store, "first"), StoreLeadership(store, "second")
        with pytest.raises(FencedError, match=r"scheduler\.not_leader"):
            await first.write([], [("k", b"0")])
        await first.take()
        await first.write([], [("k", b"1")])
        await second.take()
        assert first.leads()  # it does not know yet
        with pytest.raises(FencedError, match=r"scheduler\.not_leader") as caught:
            await first.write([], [("k", b"2")])
        assert caught.value.diagnostic.suggestion == "second"
        assert not first.leads()
        assert (first.leader(), second.leader()) == ("second", "second")
        await second.write([], [("k", b"3")])
        assert (await store.get("k"))["k"].value == b"3"
        await SoleLeader(store, "only").write([], [(LEADER, None)])
        await second.look()
        assert second.leader() == ""
        await store.close()

    asyncio.run(main())
