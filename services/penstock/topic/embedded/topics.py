"""All embedded topics of one folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.model.connector import Partition
from penstock.topic.embedded.names import folder_of, topic_of
from penstock.topic.embedded.reader import EmbeddedReadStream
from penstock.topic.embedded.table import TopicTable
from penstock.topic.embedded.upkeep import Retention, Upkeep
from penstock.topic.embedded.wakeups import Wakeups
from penstock.topic.embedded.writer import EmbeddedWriteStream

log = logging.getLogger(__name__)

UPKEEP_EVERY: Final = 30.0
"""Seconds between two rounds of upkeep. More often costs idle CPU, less often leaves more small
files.
"""


class EmbeddedTopics:
    """Topics in a folder. `async with EmbeddedTopics(folder) as topics`."""

    def __init__(self, topics_dir: Path, retention: Retention | None = None) -> None:
        self._dir = topics_dir
        self._wakeups = Wakeups()
        self._upkeep = Upkeep(retention or Retention())
        self._caring: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._dir.mkdir(parents=True, exist_ok=True)
        self._wakeups.start()
        self._caring = asyncio.create_task(self._care())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._caring is not None:
            self._caring.cancel()
            await asyncio.gather(self._caring, return_exceptions=True)
        await self._wakeups.stop()

    async def count(self, topic: str) -> int | None:
        """Return how many partitions a topic has; None when there is no such topic yet."""
        table = self._table(topic)
        return table.log.partitions if await asyncio.to_thread(table.exists) else None

    def writer(self, task_id: str, partitions: int) -> EmbeddedWriteStream:
        """Return the write end of a task; topics it makes get so many partitions."""
        tables: dict[str, TopicTable] = {}

        def table_of(topic: str) -> TopicTable:
            return tables.setdefault(topic, self._table(topic))

        return EmbeddedWriteStream(task_id, partitions, table_of, self._dir, self._wakeups.tell)

    def reader(
        self, partitions: Sequence[Partition], offset_reset: str, credit_bytes: int
    ) -> EmbeddedReadStream:
        """Return the read end of a task, from the offsets of its partitions."""
        return EmbeddedReadStream(
            partitions, offset_reset, credit_bytes, self._table, self._wakeups
        )

    def _table(self, topic: str) -> TopicTable:
        return TopicTable(topic, self._dir / folder_of(topic))

    async def _care(self) -> None:
        while True:
            await asyncio.sleep(UPKEEP_EVERY)
            for folder in sorted(self._dir.glob("*/_delta_log")):
                table = self._table(topic_of(folder.parent.name))
                try:
                    await asyncio.to_thread(self._upkeep.look_after, table)
                except Exception:
                    log.exception("upkeep of topic %s failed; it is tried again", table.topic)
