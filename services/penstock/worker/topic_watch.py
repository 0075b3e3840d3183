"""Watches the topics of a sink: one that is made, or made anew, may have another number of
partitions than was planned.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

from penstock.model.connector import Partition, TaskPlan
from penstock.worker.design import Design
from penstock.worker.planning import TopicPartitions, topic_partitions

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
