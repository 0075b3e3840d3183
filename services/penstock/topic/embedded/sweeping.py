"""Files that no version names are deleted once nobody can want them: what was removed, what dead
attempts left, old versions of the log.

An executor's file is not named while its transaction is prepared, and a prepared transaction may
wait long for its task to come back. So age alone decides little: a file is dead when the log has a
later transaction of its task, or a newer epoch of it; a task that never comes back loses its files
after `ABANDONED_AGE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.topic.embedded.log import newest_checkpoint, versions_before
from penstock.topic.embedded.table import EPOCH_SUFFIX, FORGET, TopicTable
from penstock.topic.embedded.table_state import TopicState
from penstock.topic.embedded.writer import FOLDER
from penstock.topic_files import (
    TEMPORARY,
    FileInfo,
    Folder,
    is_compacted,
    parse_staged_name,
)
from penstock.topic_files.layout import task_in_name

REMOVED_AGE: Final = 600.0
"""Seconds that a removed file is kept for readers that are in it: longer than a query of another
tool takes, shorter fills the disk less."""

ORPHAN_AGE: Final = 3600.0
"""Seconds before the leftover of a dead attempt is deleted. The attempt may still be writing to
it."""

ABANDONED_AGE: Final = 7 * 86_400.0
"""Seconds that a transaction may wait between prepare and commit for a task that crashed, and whose
connector is stopped. Then its rows are lost, and the task says so (`topic.prepared_lost`)."""

LOG_VERSIONS: Final = 1000
"""Versions of the log kept before the newest checkpoint, for those who read it on one by one."""

LOG_AGE: Final = 2 * FORGET
"""Seconds that they are kept at least: nobody goes on from a state that is so old."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What a version says about files: those that are alive, removed, and how far each task is."""

    live: frozenset[str]
    removed_ms: Mapping[str, int]
    done: Mapping[str, tuple[int, int]]

    @staticmethod
    def of(state: TopicState) -> _Known:
        """Return what a state says."""
        live = frozenset(file.path for files in state.files.values() for file in files)
        done = {
            task_in_name(task): (state.transactions.get(task + EPOCH_SUFFIX, 0), txn)
            for task, txn in state.transactions.items()
        }
        return _Known(live, dict(state.tombstones), done)

    def is_dead(self, name: str, age: float, now: float) -> bool:
        """Tell whether a file may be deleted."""
        if name in self.live:
            return False
        if name in self.removed_ms:
            return now - self.removed_ms[name] / 1000 >= REMOVED_AGE
        if is_compacted(name):
            return age >= ORPHAN_AGE
        staged = parse_staged_name(name)
        if staged is None:
            return False  # not ours
        epoch, txn = self.done.get(staged.task, (0, 0))
        decided = staged.txn <= txn or staged.epoch < epoch
        return age >= (ORPHAN_AGE if decided else ABANDONED_AGE)


def sweep(table: TopicTable, now: float) -> int:
    """Delete what nobody can want; returns how many files went."""
    # listed before the log is read: a file that is committed in between is then known to be alive
    found = [file for file in table.folder.files() if file.name.endswith(".parquet")]
    table.refresh()
    known = table.inspect(_Known.of)
    dead = [file.name for file in found if known.is_dead(file.name, _age(file, now), now)]
    table.folder.delete(dead)
    begun = [file.name for file in table.log.files(TEMPORARY) if _age(file, now) >= ORPHAN_AGE]
    old = _old_versions(table.log, now)
    table.log.delete([*begun, *old])
    return len(dead) + len(begun) + len(old)


def sweep_manifests(topics: Folder, now: float) -> None:
    """Delete manifests of transactions that were given up."""
    folder = topics.at(FOLDER)
    folder.delete([file.name for file in folder.files() if _age(file, now) >= ABANDONED_AGE])


def _old_versions(log: Folder, now: float) -> list[str]:
    """Return the log's files that no reader needs, oldest first."""
    checkpoint = newest_checkpoint(log)
    if checkpoint is None:
        return []
    old = versions_before(log, checkpoint - LOG_VERSIONS)
    return [file.name for file in old if _age(file, now) >= LOG_AGE]


def _age(file: FileInfo, now: float) -> float:
    return max(0.0, now - file.modified)
