"""Splitting a connector into tasks: what only a machine with the plugins can do."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from penstock.client import PlannedConnector
from penstock.model.connector import (
    Connector,
    ConnectorKind,
    Partition,
    TaskPlan,
)
from penstock.model.errors import (
    InternalError,
)
from penstock.plugin import PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.worker.config.reach import NO_RULES, Rules
from penstock.worker.config.resolved_config import Design, acquire, design_of

log = logging.getLogger(__name__)


class TopicPartitions(Protocol):
    """What planning needs to know of topics."""

    async def count(self, topic: str) -> int | None:
        """Return how many partitions a topic has; None when there is no such topic yet."""

    async def names(self) -> list[str]:
        """Return all topics."""


class Planner:
    """Splits connectors."""

    def __init__(
        self,
        host: PluginHost,
        topics: TopicPartitions,
        secrets: Secrets = NO_SECRETS,
        reach: Rules = NO_RULES,
    ) -> None:
        self._host, self._topics = host, topics
        self._secrets, self._reach = secrets, reach

    async def plan(self, connector: Connector) -> PlannedConnector:
        """Return the tasks of a valid connector. The same input gives the same tasks."""
        design = await self._design(connector)
        settings = design.settings
        if settings.replay is not None:
            plan = settings.replay.plan(settings.letters_topic)
            return numbered(connector, [plan], monitor=False)
        if design.kind in {ConnectorKind.SINK, ConnectorKind.MIRROR}:
            # a topic that is not there yet may be made with any number of partitions
            partitions, monitor = await topic_partitions(self._topics, design, log.warning), True
        else:
            process, target = await acquire(self._host, design, "source")
            planned = await process.plan(target, settings.tasks_max)
            if planned.tasks:
                return numbered(connector, planned.tasks, monitor=planned.monitor)
            partitions, monitor = list(planned.partitions), planned.monitor
        # 100,000 take seconds, in which the loop must keep the worker a member
        parts = await asyncio.to_thread(spread, partitions, settings.tasks_max)
        plans = (TaskPlan("", tuple(part)) for part in parts)
        return numbered(connector, plans, monitor=monitor)

    async def _design(self, connector: Connector) -> Design:
        return await design_of(self._host, self._secrets, connector, self._reach)


async def topic_partitions(
    topics: TopicPartitions, design: Design, tell: Callable[..., None] = lambda *_: None
) -> list[Partition]:
    """Return the partitions of a sink's topics; `tell` is told of those that match its pattern and
    that it may not reach, as a log is.

    Raises:
        ConfigError: `reach.topic`.
    """
    settings, reach, partitions = design.settings, design.reach, []
    existing = await topics.names() if settings.topics.pattern else ()
    found = settings.topics.among(existing)
    allowed = [topic for topic in found if reach.has_topic(topic)]
    for topic in settings.topics.names:
        reach.require_topic(topic, "topics")
    if left_out := len(found) - len(allowed):
        message = "%s: %d topics that match `topics.regex` are outside of its rule %r, and not read"
        tell(message, design.connector.name, left_out, reach.rule)
    for topic in allowed:
        count = await topics.count(topic) or settings.topic_partitions
        partitions += [Partition({"topic": topic, "partition": n}) for n in range(count)]
    return partitions


def numbered(connector: Connector, plans: Iterable[TaskPlan], *, monitor: bool) -> PlannedConnector:
    """Return a connector's plan with the ids of its tasks, in their order.

    Raises InternalError (plan.finds_others) when one of several tasks finds partitions by itself.
    """
    # generations, not names, are keys: a namesake made later never meets this plan (invariant 10)
    named = tuple(
        replace(plan, task_id=f"{connector.generation}-{n}") for n, plan in enumerate(plans)
    )
    if len(named) > 1 and any(plan.finds_others for plan in named):
        raise InternalError(
            "plan.finds_others",
            f"the plan of {connector.name} has {len(named)} tasks, and one that finds partitions "
            "by itself: nobody could tell whose they are",
            fix="A connector that is planned with several tasks names all partitions, and watches "
            "for others in Monitor.",
        )
    return PlannedConnector(named, monitor=monitor)


def spread(partitions: Sequence[Partition], most: int) -> list[list[Partition]]:
    """Return the partitions of each task: by weight, heaviest first, always to the lightest task,
    the first of several.

    At least one task, even when there is no partition yet: it waits for some.
    """
    tasks: list[list[Partition]] = [[] for _ in range(max(1, min(most, len(partitions))))]
    loads = [(0.0, number) for number in range(len(tasks))]  # a heap: the lightest is the first
    for partition in sorted(partitions, key=lambda p: (-p.weight, p.id)):
        load, lightest = loads[0]
        tasks[lightest].append(partition)
        heapq.heapreplace(loads, (load + partition.weight, lightest))
    return tasks
