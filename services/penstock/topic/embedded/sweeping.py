"""Files that no version names are deleted once nobody can want them: what was removed, what dead
attempts left, old versions of the log.

An executor's file is not named while its transaction is prepared, and a prepared transaction may
wait long for its task to come back. So age alone decides little: a file is dead when the log has a
later transaction of its task, or a newer epoch of it; a task that never comes back loses its files
after `ABANDONED_AGE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.topic.embedded.log import TEMPORARY, log_of, newest_checkpoint, versions_before
from penstock.topic.embedded.prepared import FOLDER
from penstock.topic.embedded.state import TopicState
from penstock.topic.embedded.table import EPOCH_SUFFIX, TopicTable
from penstock.topic_files import is_compacted, parse_staged_name
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

LOG_AGE: Final = 3600.0
"""Seconds that they are kept at least."""


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
    found = {path.name: age for path in table.root.glob("*.parquet") if (age := _age(path, now))}
    table.refresh()
    known = table.inspect(_Known.of)
    dead = [table.root / name for name, age in found.items() if known.is_dead(name, age, now)]
    begun = log_of(table.root).glob(f"{TEMPORARY}*")
    dead += [path for path in begun if _age(path, now) >= ORPHAN_AGE]
    dead += _old_versions(table, now)
    for path in dead:
        path.unlink(missing_ok=True)
    return len(dead)


def sweep_manifests(topics_dir: Path, now: float) -> None:
    """Delete manifests of transactions that were given up."""
    for path in (topics_dir / FOLDER).glob("*"):
        if _age(path, now) >= ABANDONED_AGE:
            path.unlink(missing_ok=True)


def _old_versions(table: TopicTable, now: float) -> list[Path]:
    """Return the log's files that no reader needs, oldest first: what is missing is then always the
    beginning.
    """
    checkpoint = newest_checkpoint(table.root)
    if checkpoint is None:
        return []
    old = versions_before(table.root, checkpoint - LOG_VERSIONS)
    return [path for path in old if _age(path, now) >= LOG_AGE]


def _age(path: Path, now: float) -> float:
    with suppress(FileNotFoundError):
        return max(0.001, now - path.stat().st_mtime)
    return 0.0
