"""Splits connectors into tasks, and watches the topics of a sink for partitions that need another
split.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from penstock.model.admin import PlannedConnector
from penstock.model.backoff import Backoff
from penstock.model.connector import Connector, Partition, TaskPlan
from penstock.model.errors import InternalError
from penstock.worker.config.resolved_config import ResolvedConfig, WorkerContext, acquire_plugin
from penstock_values.partition_ranges import OwnPartitions, find_overlap

log = logging.getLogger(__name__)


class TopicPartitions(Protocol):
    """What planning needs to know about topics."""

    async def count_partitions(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None when the topic does not exist."""

    async def list_names(self) -> list[str]:
        """Return the names of all topics."""


class Planner:
    """Splits connectors into tasks."""

    def __init__(self, context: WorkerContext, topics: TopicPartitions) -> None:
        self._context, self._topics = context, topics

    async def plan(self, connector: Connector) -> PlannedConnector:
        """Return the tasks of a valid connector. Equal input gives equal tasks."""
        resolved = await self._context.resolve(connector)
        settings = resolved.settings
        if settings.replay is not None:
            plan = settings.replay.plan(settings.dead_letter_topic)
            return number_plans(connector, [plan], monitor=False)
        if not resolved.reads_plugin:
            # a topic that does not exist yet may be created with any number of partitions
            partitions, monitor = await topic_partitions(self._topics, resolved, log.warning), True
        else:
            process, target = await acquire_plugin(self._context.host, resolved, "source")
            planned = await process.plan(target, settings.tasks_max)
            if planned.tasks:
                return number_plans(connector, planned.tasks, monitor=planned.monitor)
            partitions, monitor = list(planned.partitions), planned.monitor
        # 100,000 partitions take seconds, in which the loop must renew the worker's lease
        parts = await asyncio.to_thread(assign_partitions, partitions, settings.tasks_max)
        plans = (TaskPlan("", tuple(part)) for part in parts)
        return number_plans(connector, plans, monitor=monitor)


async def topic_partitions(
    topics: TopicPartitions, resolved: ResolvedConfig, warn: Callable[..., None] = lambda *_: None
) -> list[Partition]:
    """Return the partitions of a sink's topics. `warn` is called, as a logger is, about topics that
    match its pattern and are outside of its reach.

    Raises:
        ConfigError: `reach.topic`.
    """
    settings, reach, partitions = resolved.settings, resolved.reach, []
    existing = await topics.list_names() if settings.topics.pattern else ()
    found = settings.topics.select(existing)
    allowed = [topic for topic in found if reach.has_topic(topic)]
    for topic in settings.topics.names:
        reach.require_topic(topic, "topics")
    if left_out := len(found) - len(allowed):
        message = "%s: %d topics match `topics.regex` but are out of reach by rule %r: not read"
        warn(message, resolved.connector.name, left_out, reach.rule)
    for topic in allowed:
        count = await topics.count_partitions(topic) or settings.topic_partitions
        partitions += [Partition({"topic": topic, "partition": n}) for n in range(count)]
    return partitions


def number_plans(
    connector: Connector, plans: Iterable[TaskPlan], *, monitor: bool
) -> PlannedConnector:
    """Return the plans of a connector with task ids in their order.

    Raises:
        InternalError: `plan.finds_others`, `plan.ranges_overlap`: a partition could belong to
            several tasks.
    """
    # ids contain the generation, not the name: a later connector of the same name never gets this
    # plan (invariant 10)
    named = tuple(
        replace(plan, task_id=f"{connector.generation}-{n}") for n, plan in enumerate(plans)
    )
    if len(named) > 1:
        _check_ranges(connector.name, named)
    return PlannedConnector(named, monitor=monitor)


def _check_ranges(name: str, plans: Sequence[TaskPlan]) -> None:
    if any(plan.own_partitions.ranges is None for plan in plans):
        raise InternalError(
            "plan.finds_others",
            f"the plan of {name} has {len(plans)} tasks, and one that finds partitions by itself, "
            "without a range: a partition could belong to several tasks",
            fix="Report it to the author of the connector: a plan with several tasks names all "
            "partitions and watches for others in Monitor, or gives each task a range.",
        )
    ranges = [one for plan in plans for one in plan.ranges]
    if overlap := find_overlap(ranges):
        raise _overlapping(name, f"the ranges {overlap[0]} and {overlap[1]} overlap")
    for plan in plans:
        theirs = OwnPartitions((), tuple(one for one in ranges if one not in plan.ranges))
        for partition in plan.partitions if theirs.ranges else ():
            if partition.range is None and partition.id in theirs:
                raise _overlapping(name, f"{partition.id} is in the range of another task")


def _overlapping(name: str, why: str) -> InternalError:
    return InternalError(
        "plan.ranges_overlap",
        f"in the plan of {name} a partition could belong to several tasks: {why}",
        fix="Report it to the author of the connector: ranges of a plan are of one field, and none "
        "begins before another has ended.",
    )


def assign_partitions(partitions: Sequence[Partition], most: int) -> list[list[Partition]]:
    """Return the partitions of each task: by weight, heaviest first, always to the task with the
    lowest load.

    There is at least one task, even without a partition: it waits for some.
    """
    tasks: list[list[Partition]] = [[] for _ in range(max(1, min(most, len(partitions))))]
    loads = [(0.0, number) for number in range(len(tasks))]  # a heap: the lightest is the first
    for partition in sorted(partitions, key=lambda p: (-p.weight, p.id)):
        load, lightest = loads[0]
        tasks[lightest].append(partition)
        heapq.heapreplace(loads, (load + partition.weight, lightest))
    return tasks


FIRST_POLL_S: Final = 0.25
"""First interval between two polls of the topics."""
MAX_POLL_S: Final = 5.0
"""Longest interval between two polls. Polls are frequent while plans are new, because a sink is
often created together with its source, and slow down when nothing changes. Listing an object store
costs money; a longer interval delays the rows of a new partition.
"""


class TopicWatch:
    """Polls the partitions of a sink's topics. `list_partitions` returns those that exist."""

    def __init__(self, list_partitions: Callable[[], Awaitable[Sequence[Partition]]]) -> None:
        self._list_partitions = list_partitions
        self._known: frozenset[str] = frozenset()
        self._backoff = Backoff(FIRST_POLL_S, MAX_POLL_S)

    async def open(self, plans: Sequence[TaskPlan]) -> None:
        """Start to watch. `plans` are those in force."""
        await self.set_plans(plans)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Iterate over reasons to plan again, repeatedly as long as one holds."""
        while True:
            there = _ids(await self._list_partitions())
            if there != self._known:
                found, gone = len(there - self._known), len(self._known - there)
                yield f"{found} partitions of topics appeared, {gone} disappeared"
            await asyncio.sleep(self._backoff.delay_s)
            self._backoff.advance()

    async def set_plans(self, plans: Sequence[TaskPlan]) -> None:
        """Set the plans in force."""
        self._known = _ids(partition for plan in plans for partition in plan.partitions)
        self._backoff.reset()

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def make_topic_watch(topics: TopicPartitions, resolved: ResolvedConfig) -> TopicWatch:
    """Return the watch of a sink's topics."""
    return TopicWatch(partial(topic_partitions, topics, resolved))


def _ids(partitions: Iterable[Partition]) -> frozenset[str]:
    return frozenset(partition.id for partition in partitions)
