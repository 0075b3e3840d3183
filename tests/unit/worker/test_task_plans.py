"""How a connector is split into tasks."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.connector_config.settings import read_settings
from penstock.model.connector import Connector, ConnectorKind, Partition, TaskPlan
from penstock.model.errors import ConfigError, InternalError
from penstock.worker import task_plans
from penstock.worker.config.resolved_config import WorkerContext
from penstock.worker.task_plans import Planner, assign_partitions, number_plans
from penstock_values.partition_ranges import PartitionRange
from unit.worker.test_resolved_config import NO_HOST

NAMED = Partition({"file": "a"})
FINDS = Partition({"find": "*"}, finds_others=True)
CONNECTOR = Connector("c", {}, ConnectorKind.SOURCE, generation="g1")


def plan(*partitions: Partition) -> TaskPlan:
    return TaskPlan("", partitions)


def test_task_ids_have_the_generation_and_a_number() -> None:
    planned = number_plans(CONNECTOR, [plan(NAMED), plan()], monitor=True)
    assert [task.task_id for task in planned.plans] == ["g1-0", "g1-1"]
    assert planned.monitor


def test_a_single_task_may_find_partitions_by_itself() -> None:
    assert number_plans(CONNECTOR, [plan(NAMED, FINDS)], monitor=False).plans[0].finds_others


def test_one_of_several_tasks_may_not_find_partitions_by_itself() -> None:
    with pytest.raises(InternalError) as caught:
        number_plans(CONNECTOR, [plan(NAMED), plan(FINDS)], monitor=False)
    assert caught.value.code == "plan.finds_others"
    assert "Monitor" in caught.value.diagnostic.fix


def hosts(start: str, end: str) -> Partition:
    return Partition({"hosts": f"{start}-{end}"}, range=PartitionRange("host", start, end))


def test_several_tasks_share_partitions_by_ranges() -> None:
    plans = [plan(hosts("", "m")), plan(hosts("m", "t"), hosts("t", "")), plan(NAMED)]
    first, second, third = number_plans(CONNECTOR, plans, monitor=False).plans
    ids = [Partition({"host": host, "metric": "cpu"}).id for host in ("a", "m", "z")]
    assert [id_ in first.own_partitions for id_ in ids] == [True, False, False]
    assert [id_ in second.own_partitions for id_ in ids] == [False, True, True]
    assert [id_ in third.own_partitions for id_ in [*ids, NAMED.id]] == [False, False, False, True]


@pytest.mark.parametrize(
    "plans",
    [
        [plan(hosts("", "n")), plan(hosts("m", ""))],
        [plan(hosts("", "")), plan(hosts("m", "n"))],
        [plan(hosts("a", "b")), plan(Partition({}, range=PartitionRange("rack", "c", "d")))],
        [plan(hosts("a", "b")), plan(Partition({"host": "aa"}))],
    ],
)
def test_no_partition_is_in_the_ranges_of_two_tasks(plans: list[TaskPlan]) -> None:
    with pytest.raises(InternalError) as caught:
        number_plans(CONNECTOR, plans, monitor=False)
    assert caught.value.code == "plan.ranges_overlap"
    assert number_plans(CONNECTOR, plans[:1], monitor=False).plans


@given(
    some.lists(some.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0, 1e9]), max_size=40), some.integers(1, 9)
)
def test_the_heaviest_goes_first_and_always_to_the_lightest_task(weights, most) -> None:
    partitions = [Partition({"n": n}, weight=weight) for n, weight in enumerate(weights)]
    tasks: list[list[Partition]] = [[] for _ in range(max(1, min(most, len(partitions))))]
    loads = [0.0] * len(tasks)
    for partition in sorted(partitions, key=lambda p: (-p.weight, p.id)):
        lightest = loads.index(min(loads))
        tasks[lightest].append(partition)
        loads[lightest] += partition.weight
    assert assign_partitions(partitions, most) == tasks


@pytest.mark.timed("the work must not be quadratic")
def test_many_partitions_are_assigned_to_many_tasks_quickly() -> None:
    partitions = [Partition({"n": n}) for n in range(40_000)]
    began = time.process_time()
    assert {len(part) for part in assign_partitions(partitions, 20_000)} == {2}
    assert time.process_time() - began < 4


class Topics:
    """Topics of a thousand partitions."""

    async def count_partitions(self, _: str) -> int:
        return 1000

    async def list_names(self) -> list[str]:
        return ["shop.items", "shop.orders", "shop.orders.old", "shopping"]


def topics_of(**config: str) -> list[str]:
    connector = Connector(
        "c", {"connector.class": "x", **config}, ConnectorKind.SINK, generation="g1"
    )
    planned = asyncio.run(Planner(WorkerContext(NO_HOST), Topics()).plan(connector))
    found = [partition.key["topic"] for task in planned.plans for partition in task.partitions]
    return sorted(set(found))


def test_a_pattern_selects_topics_whose_whole_name_matches():
    assert topics_of(**{"topics.regex": r"shop\.[a-z]+"}) == ["shop.items", "shop.orders"]


def test_a_pattern_and_names_select_each_topic_once():
    found = topics_of(**{"topics.regex": r"shop.*orders", "topics": "shop.orders,later"})
    assert found == ["later", "shop.orders"]


def test_an_invalid_pattern_is_reported_with_its_key():
    _, findings = read_settings({"name": "c", "topics.regex": "shop.("})
    assert [(f.code, f.config_path) for f in findings] == [("config.bad_pattern", "topics.regex")]


def test_a_slow_pattern_is_reported_with_its_key(monkeypatch):
    async def names(_: Topics) -> list[str]:
        return ["a" * 60 + "!"]

    monkeypatch.setattr(Topics, "list_names", names)
    with pytest.raises(ConfigError) as caught:
        topics_of(**{"topics.regex": "(a|aa)+"})
    told = caught.value.diagnostic
    assert (told.code, told.config_path) == ("config.slow_pattern", "topics.regex")


def test_partitions_are_assigned_outside_of_the_event_loop(monkeypatch) -> None:
    where = []

    def noted(*args: Any) -> list[list[Partition]]:
        where.append(threading.current_thread())
        return assign_partitions(*args)

    monkeypatch.setattr(task_plans, "assign_partitions", noted)
    config = {"topics": "a,b", "tasks.max": "7", "connector.class": "x"}
    connector = Connector("c", config, ConnectorKind.SINK, generation="g1")
    planned = asyncio.run(Planner(WorkerContext(NO_HOST), Topics()).plan(connector))
    assert [len(task.partitions) for task in planned.plans] == [286] * 5 + [285] * 2
    assert threading.current_thread() not in where
