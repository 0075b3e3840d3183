"""The monitor of a connector: tells the scheduler when partitions appeared or went.

It has lives and a status like a task, and moves no rows: new plans are news to it, and a connector
that is paused is watched on, so that it goes on with all that is there then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from penstock.model.connector import Partition, TaskPlan, TaskState
from penstock.model.errors import RetriableError
from penstock.worker.config.resolved_config import Design, Renewal, Watched
from penstock.worker.planning.plans import TopicPartitions, topic_partitions
from penstock.worker.ports import Watch
from penstock.worker.task.supervisor import Assigned, Life, RestartPolicy

log = logging.getLogger(__name__)


REST: Final = 1.0
"""Seconds between two wishes that are passed on: the leader follows no more. Shorter sends whole
reports for nothing, longer delays the second of two files."""


@dataclass(frozen=True, slots=True)
class MonitorSpec:
    """What a monitor is made of. `watch` makes what one life of it listens to, and knows whether
    the secrets for that still hold; `plans` tells those in force, `wish` passes on why others are
    wanted.
    """

    watch: Callable[[], Awaitable[Watched]]
    plans: Callable[[], Awaitable[Sequence[TaskPlan]]]
    wish: Callable[[str], None]


class Monitor(Life):
    """Watches one connector."""

    def __init__(
        self,
        assigned: Assigned,
        spec: MonitorSpec,
        policy: RestartPolicy,
        on_change: Callable[[], None],
    ) -> None:
        """Prepare to watch."""
        super().__init__(assigned, policy, on_change)
        self._spec = spec
        self._plan_epoch = assigned.plan_epoch
        self._news = asyncio.Event()

    def follow(self, wanted: Assigned) -> None:
        """Let the monitor know the plans in force."""
        if wanted.plan_epoch != self._plan_epoch:
            self._plan_epoch = wanted.plan_epoch
            self._news.set()

    async def _live(self) -> TaskState:
        await self._unless_stopped(self._watch())
        return TaskState.STOPPED

    async def _watch(self) -> None:
        watch, renewal = await self._spec.watch()
        try:
            self._news.clear()
            await watch.open(await self._spec.plans())
            self._running()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._hear(watch))
                group.create_task(self._tell(watch))
                group.create_task(_until_changed(renewal))
        finally:
            await watch.close()

    async def _hear(self, watch: Watch) -> None:
        async for reason in watch:
            log.info("connector %s is to be planned anew: %s", self.connector, reason)
            self._spec.wish(reason)
            await asyncio.sleep(REST)

    async def _tell(self, watch: Watch) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await watch.tell(await self._spec.plans())


async def _until_changed(renewal: Renewal) -> None:
    await renewal.changed()
    raise RetriableError(
        "secrets.changed",
        "a secret is another one now",
        fix="Nothing is to be done: it watches anew with it.",
    )


FIRST_LOOK: Final = 0.25
LONGEST: Final = 5.0
"""Seconds between two looks: often while plans are new, for a sink is often made together with its
source, and more and more rarely when nothing changes. A look at an object store is a question that
is paid for; longer leaves the rows of a new partition waiting."""


class TopicWatch:
    """What a monitor of a sink listens to. `look` tells the partitions that there are."""

    def __init__(self, look: Callable[[], Awaitable[Sequence[Partition]]]) -> None:
        self._look = look
        self._known: frozenset[str] = frozenset()
        self._pause = FIRST_LOOK

    async def open(self, plans: Sequence[TaskPlan]) -> None:
        """Begin to watch; `plans` are those in force."""
        await self.tell(plans)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Iterate over reasons for another plan, again and again while there is one."""
        while True:
            there = _ids(await self._look())
            if there != self._known:
                found, gone = len(there - self._known), len(self._known - there)
                yield f"{found} partitions of topics appeared, {gone} are gone"
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * 2, LONGEST)

    async def tell(self, plans: Sequence[TaskPlan]) -> None:
        """Say which plans are in force now."""
        self._known = _ids(partition for plan in plans for partition in plan.partitions)
        self._pause = FIRST_LOOK

    async def close(self) -> None:
        """Nothing is held."""


def watch_of(topics: TopicPartitions, design: Design) -> TopicWatch:
    """Return the watch of a sink's topics."""
    return TopicWatch(partial(topic_partitions, topics, design))


def _ids(partitions: Iterable[Partition]) -> frozenset[str]:
    return frozenset(partition.id for partition in partitions)
