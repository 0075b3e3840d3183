"""All embedded topics of one folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.model.connector import Partition
from penstock.topic.embedded.names import folder_of, topic_of
from penstock.topic.embedded.position import read_reset
from penstock.topic.embedded.reader import EmbeddedReadStream
from penstock.topic.embedded.row_slices import TopicRows
from penstock.topic.embedded.table import TopicTable
from penstock.topic.embedded.table_state import Retention
from penstock.topic.embedded.threads import Threads
from penstock.topic.embedded.upkeep import Upkeep
from penstock.topic.embedded.wakeups import wakeups_for
from penstock.topic.embedded.writer import EmbeddedWriteStream, NewTopics
from penstock.topic_files import Folder, LocalFolder

log = logging.getLogger(__name__)

UPKEEP_EVERY: Final = 5.0
"""Seconds between two rounds of upkeep. A busy topic has some 200 new files by then; more often
costs idle CPU, less often makes readers open more small files."""

RARELY: Final = 6
"""How many times as long on an object store: each round asks about every topic, in every worker,
and each question is paid for."""

COMMITS: Final = 4
"""Commits and looks at once. They wait for disks and stores, not for the processor."""

LOOKUPS: Final = 2
"""Lookups of single rows at once, in threads of their own: they take as long as there are rows."""


class EmbeddedTopics:
    """Topics in a folder. `async with EmbeddedTopics(folder) as topics`."""

    def __init__(self, topics_dir: Path | Folder, retention: Retention | None = None) -> None:
        """`topics_dir` may be shared by processes of several machines (`topic_files.folder_of`).
        `retention` is that of topics that have none of their own.
        """
        folder = LocalFolder(topics_dir) if isinstance(topics_dir, Path) else topics_dir
        self._folder = folder
        self._rounds = 1 if isinstance(folder, LocalFolder) else RARELY
        self._tables: dict[str, TopicTable] = {}
        self._wakeups = wakeups_for(folder)
        self._threads = Threads("topic", COMMITS)
        self._upkeep_thread = Threads("topic-upkeep", 1)
        self._lookups = Threads("topic-rows", LOOKUPS)
        self._upkeep = Upkeep(folder, retention or Retention())
        self._caring: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._threads.run(self._folder.ready)
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
        self._threads.close()
        self._upkeep_thread.close()
        self._lookups.close()

    async def count(self, topic: str) -> int | None:
        """Return how many partitions a topic has; None when there is no such topic yet."""
        table = self._table(topic)
        return table.spec.partitions if await self._threads.run(table.exists) else None

    async def names(self) -> list[str]:
        """Return the topics that there are."""
        return await self._threads.run(self._names)

    def writer(
        self,
        task_id: str,
        partitions: int,
        retention: Retention | None = None,
        require: Callable[[str], None] = lambda _: None,
    ) -> EmbeddedWriteStream:
        """Return the write end of a task. Topics it makes get so many partitions; all topics it
        writes to get the retention, when one is given. `require` raises for a topic that it may not
        write to.
        """

        def table_of(topic: str) -> TopicTable:
            require(topic)
            return self._table(topic)

        return EmbeddedWriteStream(
            task_id,
            NewTopics(partitions, retention),
            self._folder,
            table_of,
            self._wakeups.tell,
            self._threads,
        )

    def reader(
        self,
        partitions: Sequence[Partition],
        offset_reset: str,
        credit_bytes: int,
        *,
        places: bool = False,
    ) -> EmbeddedReadStream:
        """Return the read end of a task, from the offsets of its partitions. With `places`, rows
        have the columns `__partition` and `__offset`.

        Raises:
            ConfigError: `topic.bad_reset`, `topic.bad_name`.
        """
        reset = read_reset(offset_reset)
        tables = {topic: self._table(topic) for topic in {str(p.key["topic"]) for p in partitions}}
        return EmbeddedReadStream(
            partitions,
            reset,
            credit_bytes,
            tables,
            self._wakeups,
            self._threads,
            places=places,
        )

    def rows(self, topic: str) -> TopicRows:
        """Return single rows of a topic, for those who look them up."""
        return TopicRows(self._table(topic), self._lookups)

    def _table(self, topic: str) -> TopicTable:
        # one for all who use a topic in this process: its log is read once, and commits take turns
        return self._tables.setdefault(topic, TopicTable(topic, self._folder.at(folder_of(topic))))

    def _names(self) -> list[str]:
        # a name that starts with a dot is no topic's: it would be escaped
        folders = (name for name in self._folder.folders() if not name.startswith("."))
        return [topic for topic in map(topic_of, folders) if self._table(topic).exists()]

    async def _care(self) -> None:
        while True:
            await asyncio.sleep(UPKEEP_EVERY * self._rounds)
            try:
                await self._upkeep_thread.run(self._look_after_all)
            except OSError as error:
                log.warning("topics could not be looked after, which is tried again: %s", error)

    def _look_after_all(self) -> None:
        self._upkeep.look_after_all()
        for name in self._folder.folders():
            if name.startswith("."):
                continue  # no topic's: its name would be escaped
            table = self._table(topic_of(name))
            try:
                self._upkeep.look_after(table)
            except Exception:
                log.exception("upkeep of topic %s failed; it is tried again", table.topic)
