"""Partitions divided again: each once, evenly, and unchanged tasks keep their plans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.connector import Partition, TaskPlan
from penstock.scheduler.state.desired_state import plan_content
from penstock.scheduler.state.plans import update_plans

G = "0f"


def parts(*numbers, weight=1.0):
    return tuple(Partition({"p": n}, weight=weight) for n in numbers)


def planned(numbers):
    return [TaskPlan("", parts(*numbers))]


def numbers_of(plan):
    return {p.key["p"] for p in plan.partitions}


def unchanged(before, after):
    old = {plan.task_id: plan_content(plan) for plan in before}
    return [plan.task_id for plan in after if old.get(plan.task_id) == plan_content(plan)]


def test_one_partition_more_changes_one_task():
    before = update_plans(G, (), planned(range(9)), 3)
    after = update_plans(G, before, planned(range(10)), 3)
    assert [len(plan.partitions) for plan in before] == [3, 3, 3]
    assert len(unchanged(before, after)) == 2


def test_partitions_that_vanish_change_only_the_tasks_that_had_them():
    before = update_plans(G, (), planned(range(9)), 3)
    gone = min(numbers_of(before[1]))
    after = update_plans(G, before, planned(set(range(9)) - {gone}), 3)
    assert unchanged(before, after) == [f"{G}-0", f"{G}-2"]


def test_offsets_order_and_weights_are_no_change():
    plan = TaskPlan(f"{G}-0", parts(1, 2))
    other = TaskPlan("", tuple(Partition(p.key, {"at": 5}, weight=3) for p in parts(2, 1)))
    (after,) = update_plans(G, [plan], [other], 1)
    assert plan_content(after) == plan_content(plan)


def test_another_payload_is_a_change():
    old = TaskPlan(f"{G}-0", parts(1))
    (after,) = update_plans(G, [old], [TaskPlan("", (Partition({"p": 1}, payload=b"x"),))], 1)
    assert plan_content(after) != plan_content(old)
    assert after.partitions[0].payload == b"x"


def test_groups_of_the_connector_keep_their_ids_where_they_are_equal():
    fresh = [TaskPlan("", parts(n), {"table": str(n)}) for n in range(3)]
    before = update_plans(G, (), fresh, 1)
    assert [plan.task_id for plan in before] == [f"{G}-{n}" for n in range(3)]
    after = update_plans(G, before, [fresh[2], TaskPlan("", parts(7), {"table": "7"}), fresh[1]], 1)
    assert unchanged(before, after) == [f"{G}-1", f"{G}-2"]
    assert {plan.config["table"]: plan.task_id for plan in after}["7"] == f"{G}-0"


def test_without_partitions_one_task_waits_for_some():
    assert update_plans(G, (), [], 3) == (TaskPlan(f"{G}-0"),)


def test_many_partitions_are_divided():
    before = update_plans(G, (), planned(range(20_000)), 1)
    after = update_plans(G, before, planned(range(20_000)), 4)
    assert [len(plan.partitions) for plan in after] == [5_000] * 4


@given(
    st.lists(st.integers(0, 40), unique=True, max_size=30),
    st.lists(st.integers(0, 40), unique=True, max_size=30),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_any_change_keeps_each_partition_once_and_tasks_even(first, second, few, many):
    before = update_plans(G, (), planned(first), few)
    after = update_plans(G, before, planned(second), many)
    found = [p.key["p"] for plan in after for p in plan.partitions]
    assert sorted(found) == sorted(second)
    sizes = [len(plan.partitions) for plan in after]
    assert len(after) == max(1, min(many, len(second)))
    assert max(sizes) - min(sizes) <= 1
    assert len({plan.task_id for plan in after}) == len(after)
    assert update_plans(G, after, planned(second), many) == after


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=30), st.integers(1, 6))
def test_weights_are_even_within_one_partition(weights, most):
    fresh = [TaskPlan("", tuple(Partition({"p": n}, weight=w) for n, w in enumerate(weights)))]
    after = update_plans(G, (), fresh, most)
    loads = [sum(p.weight for p in plan.partitions) for plan in after]
    heaviest = after[loads.index(max(loads))]
    gap = max(loads) - min(loads)
    assert all(p.weight >= gap - 1e-6 for p in heaviest.partitions)
