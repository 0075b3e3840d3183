"""Readers of topics on an object store sleep until something was committed: told by a writer of
this process, or by asking for the next version, which is the only way there.

One asks for all readers of a topic: often while there is news, and more and more rarely when there
is none, because each question costs money and the way to the store and back.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from penstock.topic.embedded.table import TopicTable
from penstock.topic.embedded.threads import Threads

log = logging.getLogger(__name__)


SHORTEST: Final = 0.1
"""Seconds between two questions about a topic that has news: what a row of another process waits
at most then. Shorter gains little over what the store itself takes."""

LONGEST: Final = 1.0
"""Seconds between two about one that is quiet. At Amazon's prices 2 dollars a month and topic in
each process that reads it; longer is cheaper, and the first row after a pause waits as long."""

GROWTH: Final = 1.5

ASKING: Final = 4
"""Questions under way at once."""


@dataclass(slots=True)
class _Topic:
    """A topic that is read: who sleeps, and who asks."""

    asking: asyncio.Task[None]
    sleepers: set[asyncio.Event] = field(default_factory=set)


class Polling:
    """Events by topic. Belongs to the event loop that started it."""

    def __init__(self) -> None:
        self._topics: dict[TopicTable, _Topic] = {}
        self._threads = Threads("topic-poll", ASKING)

    def start(self) -> None:
        """Nothing is asked before somebody reads."""

    async def stop(self) -> None:
        """Let go."""
        asking = [topic.asking for topic in self._topics.values()]
        self._topics.clear()
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._threads.close()

    def add(self, table: TopicTable, event: asyncio.Event) -> None:
        """Set `event` when a topic may have grown, which need not exist yet."""
        topic = self._topics.get(table)
        if topic is None:
            topic = _Topic(asyncio.create_task(self._ask(table)))
            self._topics[table] = topic
        topic.sleepers.add(event)

    def remove(self, table: TopicTable, event: asyncio.Event) -> None:
        """Forget an event."""
        topic = self._topics.get(table)
        if topic is None:
            return
        topic.sleepers.discard(event)
        if not topic.sleepers:
            del self._topics[table]
            topic.asking.cancel()

    def tell(self, table: TopicTable) -> None:
        """Wake the readers of a topic."""
        topic = self._topics.get(table)
        for event in topic.sleepers if topic else ():
            event.set()

    async def _ask(self, table: TopicTable) -> None:
        told, pause = -1, SHORTEST
        while True:
            await asyncio.sleep(pause)
            try:
                await self._threads.run(table.refresh)
            except Exception as error:  # noqa: BLE001 - readers meet it when they look, and say so
                log.debug("topic %s was asked in vain: %s", table.topic, error)
                self.tell(table)
                pause = LONGEST
                continue
            if table.version == told:
                pause = min(LONGEST, pause * GROWTH)
            else:
                # whoever of this process read it on, its readers may not know yet
                told, pause = table.version, SHORTEST
                self.tell(table)
