"""The scheduler's log says what moves, in words."""

from penstock.scheduler.leader.decision_log import MAX_LINES, describe_members, describe_write
from penstock.scheduler.state.cluster import RecordWrite
from penstock.scheduler.state.desired_state import monitor_id
from penstock.scheduler.state.records import OwnedTask, TaskRecord
from penstock.scheduler.state.workers import Member


def record(worker, restarts=0):
    return TaskRecord(f"id-{worker}", worker, "g", "digest", restarts)


def lines(records, owned=(), living=("a", "b")):
    before = {id_: OwnedTask(one, 1) for id_, one in dict(owned).items()}
    write = RecordWrite(records, dict.fromkeys(records, 1))
    found = describe_write(write, before, {"g": "orders"}, {f"id-{name}" for name in living})
    return [event.message for event in found]


def test_a_task_that_starts_moves_or_ends_has_a_line():
    assert lines({"g-0": record("a")}) == ["task g-0 of orders goes to a"]
    moved = lines({"g-0": record("b")}, {"g-0": record("a")})
    assert moved == ["task g-0 of orders goes from a to b"]
    lost = lines({"g-0": record("b")}, {"g-0": record("a")}, living=("b",))
    assert lost == ["task g-0 of orders goes from a, which is lost, to b"]
    assert lines({"g-0": None}, {"g-0": record("a")}) == ["task g-0 of orders ends on a"]


def test_a_task_that_stays_tells_why_it_starts_again():
    again = lines({"g-0": record("a", 2)}, {"g-0": record("a", 1)})
    assert again == ["task g-0 of orders starts again on a, the 2nd time in a row"]
    eleventh = lines({"g-0": record("a", 11)}, {"g-0": record("a", 10)})
    assert eleventh[0].endswith("the 11th time in a row")
    anew = lines({"g-0": record("a")}, {"g-0": record("a")})
    assert anew == ["task g-0 of orders starts anew on a"]


def test_monitors_are_left_out_and_very_many_tasks_are_counted():
    assert lines({monitor_id("g"): record("a")}) == []
    many = lines({f"g-{n}": record("a") for n in range(200)})
    assert len(many) == MAX_LINES + 1
    assert many[-1] == "and 150 more tasks"


def test_workers_that_come_and_go_have_a_line():
    before = {"1": Member("1", "a"), "2": Member("2", "b")}
    after = {"2": Member("2", "b"), "3": Member("3")}
    found = [(event.kind, event.message) for event in describe_members(before, after)]
    assert found == [("worker_gone", "worker a is gone"), ("worker_joined", "worker 3 is there")]
    assert describe_members(after, after) == []
