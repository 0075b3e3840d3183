"""Upkeep of topics, off the commit path: checkpoints of the log, compaction, retention, leftovers.

Every step is bounded and commits like any writer, so several processes may look after the same
topics: they do some work twice, and nothing wrong.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable

from penstock.topic.embedded.compaction import LEAST_RUN, compact
from penstock.topic.embedded.log import checkpoint_files, newest_checkpoint
from penstock.topic.embedded.retention import expire
from penstock.topic.embedded.spec import Retention
from penstock.topic.embedded.state import TopicState
from penstock.topic.embedded.sweeping import sweep, sweep_manifests
from penstock.topic.embedded.table import TopicTable
from penstock.topic_files import Folder

CHECKPOINT_EVERY: Final = 100
"""Versions between two checkpoints at least: as many are read one by one when a topic is opened."""

FILES_PER_VERSION: Final = 20
"""A checkpoint lists all files; so many files wait one version longer for it."""

SWEEP_EVERY: Final = 300.0
"""Seconds between two looks for leftovers of a topic: each lists its folder."""


@dataclass(slots=True)
class _Seen:
    """What was done for a topic."""

    version: int = -1
    swept: float = 0.0


class Upkeep:
    """Looks after the topics of one folder. Methods block: call them in a thread."""

    def __init__(self, topics: Folder, retention: Retention) -> None:
        self._topics, self._retention = topics, retention
        self._seen: dict[str, _Seen] = {}

    def look_after(self, table: TopicTable) -> None:
        """Do what is due for a topic. An idle one costs a look for its next version."""
        if not table.exists():
            return
        seen = self._seen.setdefault(table.folder.url, _Seen())
        now = time.time()
        expire(table, self._retention, now)
        if table.version != seen.version:
            if table.inspect(_most_files) >= LEAST_RUN:
                compact(table)
            checkpoint(table)
            seen.version = table.version
        if now - seen.swept >= SWEEP_EVERY:
            sweep(table, now)
            seen.swept = now

    def look_after_all(self) -> None:
        """Do what is due for no topic alone."""
        sweep_manifests(self._topics, time.time())


def checkpoint(table: TopicTable) -> bool:
    """Write a checkpoint of the log when it has grown long; True when it was."""
    last = newest_checkpoint(table.log)
    files = table.inspect(lambda state: sum(len(files) for files in state.files.values()))
    grown = table.version - (-1 if last is None else last)
    if grown < max(CHECKPOINT_EVERY, files // FILES_PER_VERSION):
        return False
    delta = DeltaTable(table.folder.url, storage_options=table.folder.delta_options)
    delta.create_checkpoint()
    # the library leaves it to the kernel; the versions before it may be deleted only once it lasts
    table.log.sync(part.name for part in checkpoint_files(table.log))
    return True


def _most_files(state: TopicState) -> int:
    return max((len(files) for files in state.files.values()), default=0)
