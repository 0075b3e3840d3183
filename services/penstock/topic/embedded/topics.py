"""All embedded topics of one folder: their tables, readers, writers and upkeep, and the folder name
of each topic.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.aio import cancel_and_wait
from penstock.model.connector import Partition
from penstock.model.errors import ConfigError
from penstock.model.topic import NewTopic, Retention
from penstock.topic.embedded.row_ranges import TopicRows
from penstock.topic.embedded.topic_reader import TopicReader, parse_offset_reset
from penstock.topic.embedded.topic_table import TopicTable, TopicThreads
from penstock.topic.embedded.topic_writer import TopicChanges, TopicWriter
from penstock.topic.embedded.upkeep import Upkeep
from penstock.topic.embedded.wakeups import wakeups_for
from penstock.topic_files.folder import Folder
from penstock.topic_files.local_folder import LocalFolder

log = logging.getLogger(__name__)

UPKEEP_INTERVAL_S: Final = 5.0
"""Interval between two rounds of upkeep. A busy topic has about 200 new files by then. A shorter
one costs CPU when topics are idle, a longer one makes readers open more small files."""

STORE_UPKEEP_FACTOR: Final = 6
"""How many times longer the interval is on an object store: each round sends requests for every
topic, in every worker, and each request costs money."""

MAX_CONCURRENT_COMMITS: Final = 4
"""Concurrent commits and refreshes. They wait for disks and stores, not for the processor."""

MAX_CONCURRENT_LOOKUPS: Final = 2
"""Concurrent lookups of single rows, in threads of their own: their time depends on the number of
rows."""


class EmbeddedTopics:
    """Topics in a folder. `async with EmbeddedTopics(folder) as topics`."""

    def __init__(self, topics_dir: Path | Folder, retention: Retention | None = None) -> None:
        """Processes of several machines may share `topics_dir` (`topic_files.open_folder`).
        `retention` is for topics that have none of their own.
        """
        folder = LocalFolder(topics_dir) if isinstance(topics_dir, Path) else topics_dir
        self._folder = folder
        self._upkeep_factor = 1 if isinstance(folder, LocalFolder) else STORE_UPKEEP_FACTOR
        self._tables: dict[str, TopicTable] = {}
        self._wakeups = wakeups_for(folder)
        self._threads = TopicThreads("topic", MAX_CONCURRENT_COMMITS)
        self._upkeep_thread = TopicThreads("topic-upkeep", 1)
        self._lookup_threads = TopicThreads("topic-rows", MAX_CONCURRENT_LOOKUPS)
        self._upkeep = Upkeep(folder, retention or Retention())
        self._upkeep_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._threads.run(self._folder.check_usable)
        self._wakeups.start()
        self._upkeep_task = asyncio.create_task(self._run_upkeep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._upkeep_task is not None:
            await cancel_and_wait(self._upkeep_task)
        await self._wakeups.stop()
        self._threads.close()
        self._upkeep_thread.close()
        self._lookup_threads.close()

    async def count_partitions(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None when it does not exist."""
        table = self._table(topic)
        return table.spec.partitions if await self._threads.run(table.exists) else None

    async def list_names(self) -> list[str]:
        """Return the names of all topics."""
        return await self._threads.run(self._names)

    def writer(
        self,
        task_id: str,
        new_topic: Callable[[str], NewTopic] = lambda _: NewTopic(1),
        *,
        least_partitions: Callable[[str], int] = lambda _: 1,
        retention: Retention | None = None,
        require: Callable[[str], None] = lambda _: None,
    ) -> TopicWriter:
        """Return the sink writer of a task.

        Args:
            task_id: The task.
            new_topic: Returns what a topic is created with; `retention` counts more than its own.
            least_partitions: Returns how many a topic has at least, also one that exists.
            retention: The retention of all topics that it writes to; None leaves theirs.
            require: Raises for a topic that the task may not write to.
        """

        def table_of(topic: str) -> TopicTable:
            require(topic)
            return self._table(topic)

        return TopicWriter(
            task_id,
            TopicChanges(new_topic, least_partitions, retention),
            self._folder,
            table_of,
            self._wakeups.wake,
            self._threads,
        )

    def reader(
        self,
        partitions: Sequence[Partition],
        offset_reset: str,
        credit_bytes: int,
        *,
        with_positions: bool = False,
    ) -> TopicReader:
        """Return the source reader of a task, from the offsets of its partitions on. With
        `with_positions`, rows have the columns `__partition` and `__offset`.

        Raises:
            ConfigError: `topic.bad_reset`, `topic.bad_name`.
        """
        reset = parse_offset_reset(offset_reset)
        tables = {topic: self._table(topic) for topic in {str(p.key["topic"]) for p in partitions}}
        return TopicReader(
            partitions,
            reset,
            credit_bytes,
            tables,
            self._wakeups,
            self._threads,
            with_positions=with_positions,
        )

    def rows(self, topic: str) -> TopicRows:
        """Return access to single rows of a topic."""
        return TopicRows(self._table(topic), self._lookup_threads)

    def _table(self, topic: str) -> TopicTable:
        # all users of a topic in this process share one table: its log is read once, and commits
        # take turns
        folder = self._folder.subfolder(folder_name(topic))
        return self._tables.setdefault(topic, TopicTable(topic, folder))

    def _names(self) -> list[str]:
        return [topic for topic in self._topic_names() if self._table(topic).exists()]

    def _topic_names(self) -> list[str]:
        # a name with a dot at its start is not that of a topic, whose dot would be escaped
        folders = self._folder.list_folders()
        return [topic_name(folder) for folder in folders if not folder.startswith(".")]

    async def _run_upkeep(self) -> None:
        while True:
            await asyncio.sleep(UPKEEP_INTERVAL_S * self._upkeep_factor)
            try:
                await self._upkeep_thread.run(self._maintain_all)
            except OSError as error:
                log.warning("upkeep of topics failed, and is retried in the next round: %s", error)

    def _maintain_all(self) -> None:
        self._upkeep.maintain_folder()
        for name in self._topic_names():
            table = self._table(name)
            try:
                self._upkeep.maintain_topic(table)
            except Exception:
                log.exception(
                    "upkeep of topic %s failed, and is retried in the next round", table.topic
                )


_PLAIN = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9._\-]*")
_ESCAPE = re.compile(rb"~([0-9A-F]{2})")
_MAX_NAME_BYTES = 200


def folder_name(topic: str) -> str:
    """Return the folder name of a topic. Plain characters stay, others become `~` and two digits
    for each byte. Not `%`: paths of tables are URLs, in which Delta's library unescapes it once too
    often.

    Raises:
        ConfigError: `topic.bad_name`: empty, or too long for a file system.
    """
    escaped = "".join(_escape(c) for c in topic)
    if escaped.startswith("."):
        escaped = f"~2E{escaped[1:]}"
    if not topic or len(escaped) > _MAX_NAME_BYTES:
        raise ConfigError(
            "topic.bad_name",
            f"{topic[:80]!r} cannot be the name of a topic: it is empty or too long",
            fix=f"Use 1 to {_MAX_NAME_BYTES} characters; letters, digits, `.`, `_` and `-` count "
            "one, others up to twelve.",
        )
    return escaped


def topic_name(folder: str) -> str:
    """Return the topic of a folder name."""
    bytes_ = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), folder.encode())
    return bytes_.decode(errors="replace")


def _escape(character: str) -> str:
    if _PLAIN.fullmatch(character) or character == ".":
        return character
    return "".join(f"~{byte:02X}" for byte in character.encode())
