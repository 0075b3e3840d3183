"""Upkeep of topics, off the commit path: checkpoints of the log, compaction, retention, leftovers.

Every step is bounded and commits like any writer, so several processes may look after the same
topics: they do some work twice, and nothing wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable

from penstock.model import faults
from penstock.topic.embedded import log
from penstock.topic.embedded.compaction import LEAST_RUN, compact
from penstock.topic.embedded.log import checkpoint_files, newest_checkpoint
from penstock.topic.embedded.sweeping import sweep, sweep_manifests
from penstock.topic.embedded.table import TopicTable
from penstock.topic.embedded.table_state import Action, Retention, TopicFile, TopicState, head_key
from penstock.topic_files import Folder


def expire(table: TopicTable, retention: Retention, now: float) -> int:
    """Remove files past their retention, oldest first; returns how many.

    The topic's own retention goes before `retention`. Their data stays until `sweep` deletes it.
    """
    gone = 0

    def removed(state: TopicState) -> Sequence[Action] | None:
        nonlocal gone
        rule = state.spec.retention or retention
        lines: list[Action] = []
        gone = 0
        for partition, files in state.files.items():
            heads = list(expired(files, rule, now))
            if heads:
                gone += len(heads)
                lines += _lines(partition, files, heads, int(now * 1000))
        return [log.info(int(now * 1000), "DELETE", {}), *lines] if lines else None

    table.refresh()
    if table.inspect(removed) is None:  # the rule: nothing to do, and nothing to make durable
        return 0
    faults.hit("topic.expiring")
    table.commit("topic.expire", removed)
    return gone


def expired(files: Sequence[TopicFile], rule: Retention, now: float) -> Iterator[TopicFile]:
    """Yield the files at the head of a partition that are past a retention.

    By size at least the newest file stays, by age none has to.
    """
    total = sum(file.bytes for file in files)
    for place, file in enumerate(files):
        old = rule.seconds > 0 and now - file.modified_ms / 1000 > rule.seconds
        large = 0 < rule.bytes < total and place < len(files) - 1
        if not old and not large:
            return
        total -= file.bytes
        yield file


def _lines(
    partition: int, files: Sequence[TopicFile], heads: Sequence[TopicFile], now_ms: int
) -> Iterator[Action]:
    for file in heads:
        yield log.remove(partition, file, now_ms, rows_go=True)
    if len(heads) == len(files):
        # offsets never go back, also when no row is left that says where they are
        yield log.transaction(head_key(partition), files[-1].end, now_ms)


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
