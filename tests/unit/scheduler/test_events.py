"""What happened is kept, in order, over leaders and restarts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.errors import Diagnostic, ErrorClass, PenstockError
from penstock.model.events import MAX_EVENT_LENGTH, MAX_EVENTS, Event
from penstock.scheduler.leader.stored_state import StoredItems, oldest_beyond
from penstock.scheduler.state.events import (
    LIMIT_WINDOW_S,
    MAX_EVENTS_PER_WINDOW,
    EventLimit,
    EventLog,
    decode_events,
    encode_events,
    events_between_leaders,
    events_of_report,
)
from penstock.scheduler.state.numbered_log import MAX_STORED_ITEMS
from penstock.scheduler.state.records import EVENT_PREFIX
from support.waiting import until

AWAY = Diagnostic("test.away", "it is away", ErrorClass.RETRIABLE)
AWAY_TEXT = "[test.away] it is away"
STARTING = TaskStatus("g-0", "orders", 5, TaskState.STARTING)
RUNNING = replace(STARTING, state=TaskState.RUNNING)


def happened(before, after):
    known = {} if before is None else {before.task_id: before}
    found = events_of_report(known, {after.task_id: after}, "w1")
    return [(event.kind, event.message) for event in found]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (None, RUNNING, ["running"]),
        (STARTING, RUNNING, ["running"]),
        (RUNNING, RUNNING, []),
        (None, STARTING, []),
        (RUNNING, replace(RUNNING, batches=1, rows_written=3), ["first_commit"]),
        (RUNNING, replace(RUNNING, batches=1, rows_failed=2), ["first_commit", "rejected_rows"]),
        (replace(RUNNING, batches=1), replace(RUNNING, batches=9, rows_read=99), []),
        (RUNNING, replace(RUNNING, state=TaskState.PAUSED), ["paused"]),
        (RUNNING, replace(RUNNING, state=TaskState.COMPLETED), ["completed"]),
        (replace(RUNNING, batches=4), replace(RUNNING, epoch=6, batches=0), ["running"]),
    ],
)
def test_a_report_tells_what_changed(before, after, kinds):
    assert [kind for kind, _ in happened(before, after)] == kinds


def test_a_failure_has_its_reason_and_each_retry_is_one():
    failed = replace(RUNNING, state=TaskState.FAILED, diagnostic=AWAY)
    told = [("failed", "task g-0 of orders failed: [test.away] it is away")]
    assert happened(RUNNING, failed) == told
    retried = replace(RUNNING, state=TaskState.RESTARTING, diagnostic=AWAY, restarts=1)
    (first,) = happened(RUNNING, retried)
    assert first[0] == "retrying"
    assert len(happened(retried, replace(retried, restarts=2))) == 1
    assert happened(retried, retried) == []


def test_monitors_have_no_events():
    monitor = replace(RUNNING, task_id="g-monitor")
    assert happened(None, monitor) == []


def failures(reported, *last):
    log = EventLog()
    log.add(last, 1)
    found = events_between_leaders({reported.task_id: reported}, log.last_states(), "w1")
    return [(event.kind, event.message) for event in found]


@pytest.mark.parametrize(
    ("state", "last", "kinds"),
    [
        (TaskState.FAILED, ("running",), ["failed"]),
        (TaskState.FAILED, (), ["failed"]),
        (TaskState.FAILED, ("running", "failed"), []),
        (TaskState.FAILED, ("failed", "moved"), ["failed"]),
        (TaskState.FAILED, ("failed", "rejected_rows"), []),
        (TaskState.RESTARTING, ("failed",), ["retrying"]),
        (TaskState.COMPLETED, ("running",), ["completed"]),
        (TaskState.RUNNING, (), []),
    ],
)
def test_a_failure_that_no_leader_was_told_of_is_found_by_the_first_report(state, last, kinds):
    before = (Event(kind, "", "orders", "g-0") for kind in last)
    assert [kind for kind, _ in failures(replace(RUNNING, state=state), *before)] == kinds


def test_such_a_failure_has_its_reason():
    failed = replace(RUNNING, state=TaskState.FAILED, diagnostic=AWAY)
    assert failures(failed) == [("failed", "task g-0 of orders failed: [test.away] it is away")]


def test_a_connector_does_not_have_the_events_of_its_namesake():
    log = EventLog()
    log.add([Event("failed", "old", "orders", "g-0"), Event("failed", "new", "orders", "h-0")], 1)
    log.add([Event("worker_gone", "w1")], 1)
    assert [event.message for event in log.latest("orders", 0, 9, "h")] == ["new"]
    assert [event.message for event in log.latest("orders", 0, 9)] == ["old", "new"]
    assert len(log.latest("", 0, 9)) == 3


def test_ten_thousand_tasks_that_start_leave_room_for_other_events():
    limit = EventLimit()

    def runs(connector, count):
        return [Event("running", f"{n}", connector, f"g-{n}") for n in range(count)]

    first = limit.admit(runs("large", 10_000), 0.0)
    assert len(first) == MAX_EVENTS_PER_WINDOW
    assert limit.admit(runs("small", 3), 1.0) == runs("small", 1), "the first of each connector"
    failed = Event("failed", "", "large", "g-1")
    assert limit.admit([failed], 2.0) == [failed], "other kinds are not limited by it"
    assert limit.summarize(LIMIT_WINDOW_S - 1) == []
    (summary,) = limit.summarize(LIMIT_WINDOW_S)
    left_out = 10_000 - MAX_EVENTS_PER_WINDOW + 2
    assert summary == Event("running", f"and {left_out} more events of kind running")
    assert limit.summarize(2 * LIMIT_WINDOW_S) == []
    assert len(limit.admit(runs("large", 200), 2 * LIMIT_WINDOW_S)) == MAX_EVENTS_PER_WINDOW


def test_the_latest_events_are_kept_and_numbered():
    log = EventLog()
    log.add((Event("running", "x" * 9_999, f"c{n % 2}") for n in range(MAX_EVENTS + 10)), 7)
    found = log.latest("", 0, MAX_EVENTS)
    assert [event.number for event in found] == list(range(11, MAX_EVENTS + 11))
    assert {len(event.message) for event in found} == {MAX_EVENT_LENGTH}
    assert {event.at_ms for event in found} == {7}
    assert [event.number for event in log.latest("c1", 1_000, 3)] == [1006, 1008, 1010]
    assert log.latest("", 0, 0) == []


def test_what_is_stored_is_what_was_added_and_once():
    log = EventLog()
    log.add([Event("running", str(n)) for n in range(MAX_STORED_ITEMS + 1)], 1)
    entries = log.take_unstored()
    assert list(map(len, entries)) == [MAX_STORED_ITEMS, 1]
    log.record_stored(entries[0])
    log.add([Event("running", "late")], 2)
    assert [event.message for event in log.take_unstored()[0]] == [str(MAX_STORED_ITEMS), "late"]
    assert decode_events(encode_events(entries[1])) == entries[1]


def test_a_new_leader_goes_on_behind_what_may_have_been_read():
    log = EventLog()
    log.load([Event("running", "a", number=7)])
    log.add([Event("running", "b")], 1)
    assert [event.message for event in log.latest("", 7, 9)] == ["b"]
    assert log.latest("", 7, 9)[0].number > 1_000


def test_what_happens_before_a_leader_has_read_the_events_is_behind_them():
    log = EventLog()
    log.add([Event("running", "early")], 1)
    log.load([Event("running", "a", number=20_000)])
    assert [event.message for event in log.latest("", 0, 9)] == ["a", "early"]
    assert log.latest("", 20_000, 9) == log.take_unstored()[0]
    log.load([])
    assert len(log.latest("", 0, 9)) == 2, "a leader that reads its state again keeps them"


def test_old_entries_are_deleted_while_enough_events_are_left():
    sizes = {f"{n:03d}": StoredItems("", 10) for n in range(30)}
    assert oldest_beyond(sizes, 300) == []
    assert oldest_beyond(sizes, 275) == ["000", "001"]
    assert len(oldest_beyond({f"{n:04d}": StoredItems("", 1) for n in range(900)}, 10)) == 100


def test_events_are_listed_and_outlive_their_leader(mesh):
    async def test(mesh):
        async def listed(client, connector=""):
            return [event.kind for event in await client.list_events(connector, 0, 100)]

        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task is there")
        task = next(iter(worker.held))
        worker.set(task, TaskState.FAILED, AWAY)
        async with asyncio.timeout(60):
            while "failed" not in await listed(mesh.first.client, "orders"):
                await asyncio.sleep(0.01)
        kinds = await listed(mesh.first.client)
        assert kinds.index("worker_joined") < kinds.index("assigned") < kinds.index("failed")
        assert "worker_joined" not in await listed(mesh.first.client, "orders")
        async with asyncio.timeout(60):
            while not (await mesh.store.range(EVENT_PREFIX)).entries:
                await asyncio.sleep(0.01)
        await mesh.create("brief", 1)
        await until(lambda: len(worker.held) == 2, "another task")
        await mesh.config.delete("brief")
        async with asyncio.timeout(60):
            while "released" not in await listed(mesh.first.client, "brief"):
                await asyncio.sleep(0.01)
        await mesh.first.scheduler.leader().wait_for_turn()
        entries = (await mesh.store.range(EVENT_PREFIX)).entries
        stored = [event.kind for entry in entries for event in decode_events(entry.value)]
        await mesh.second.lead()
        found = await listed(mesh.second.client)
        assert found[: len(stored)] == stored
        assert "worker_joined" not in found[len(stored) :], "it was there before"
        last = max(e.number for entry in entries for e in decode_events(entry.value))
        again = await mesh.second.client.list_events("", last, 100)
        assert all(event.number > last for event in again)

    mesh(test)


def test_what_happened_at_the_end_of_a_term_is_stored_by_the_leader_that_resigns(mesh):
    async def test(mesh):
        mesh.join("w1")
        await mesh.create("orders", 1)
        async with asyncio.timeout(60):
            while not (await mesh.store.range(EVENT_PREFIX)).entries:
                await asyncio.sleep(0.01)
        leader = mesh.first.scheduler.leader()
        leader.events.add([Event("drained", "late")], 1)  # no turn follows
        await mesh.first.resign()
        await mesh.second.lead()
        async with asyncio.timeout(60):
            while "late" not in await _messages(mesh.second.client):
                await asyncio.sleep(0.01)

    mesh(test)


def test_a_task_that_fails_while_nobody_leads_has_an_event(mesh):
    async def test(mesh):
        worker = mesh.join("w1")
        await mesh.create("orders", 1)
        await until(lambda: worker.held, "the task is there")
        task = next(iter(worker.held))
        worker.set(task, TaskState.RUNNING)
        await mesh.first.resign()
        await worker.disconnect()
        worker.set(task, TaskState.FAILED, AWAY)
        await mesh.second.lead()
        worker.connect(mesh.second.address)
        async with asyncio.timeout(60):
            while f"task {task} of orders failed: {AWAY_TEXT}" not in await _messages(
                mesh.second.client
            ):
                await asyncio.sleep(0.01)

    mesh(test)


async def _messages(client):
    try:
        return [event.message for event in await client.list_events("", 0, 1_000)]
    except PenstockError:  # it has not read them yet
        return []
