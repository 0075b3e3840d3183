"""Upkeep of topics, off the commit path: retention, compaction, checkpoints of the log, and
deletion of files that no reader needs.

Every step is bounded, and commits like any writer. So several processes may do the upkeep of the
same topics: some work is then done twice, but nothing is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable

from penstock.model import faults
from penstock.model.topic import Retention
from penstock.topic.embedded import delta_log
from penstock.topic.embedded.delta_log import (
    find_newest_checkpoint,
    list_checkpoint_files,
    list_files_before,
)
from penstock.topic.embedded.table_state import Action, TopicFile, TopicState, next_offset_key
from penstock.topic.embedded.topic_table import EPOCH_SUFFIX, MAX_STATE_AGE_S, TopicTable
from penstock.topic.embedded.topic_writer import MANIFEST_FOLDER
from penstock.topic_files.file_reader import read_rows
from penstock.topic_files.file_writer import RowFileWriter
from penstock.topic_files.folder import FileInfo, Folder
from penstock.topic_files.layout import (
    is_compacted,
    new_compacted_name,
    parse_staged_name,
    task_in_name,
)
from penstock.topic_files.local_folder import TEMPORARY_PREFIX

CHECKPOINT_VERSIONS: Final = 100
"""Minimum number of versions between two checkpoints. They are read one by one when a topic is
opened."""

FILES_PER_VERSION: Final = 20
"""A checkpoint lists all files. For this number of files it may come one version later."""

DELETE_INTERVAL_S: Final = 300.0
"""Interval between two deletions of unused files of a topic: each lists its folder."""

TARGET_BYTES: Final = 64 << 20
"""Size of a file that is not compacted any more. Larger files make retention coarse."""

MIN_RUN_FILES: Final = 16
"""Number of neighbouring files that justify a version of the log."""

MAX_RUN_FILES: Final = 512
"""Number of files that are read one after another for one version of the log."""

MIN_GROWTH: Final = 4
"""How many times larger than its largest part a merged file must be. A smaller number rewrites rows
more often, a larger one leaves more files."""

REMOVED_FILE_AGE_S: Final = 600.0
"""How long a removed file is kept for its readers. Longer than a query of another tool; a shorter
time uses less disk."""

ORPHAN_AGE_S: Final = 3600.0
"""Age at which a file of a dead attempt is deleted. The attempt may still be writing to it."""

ABANDONED_AGE_S: Final = 7 * 86_400.0
"""How long a transaction may wait between prepare and commit, for a task that crashed and whose
connector is stopped. Then its rows are lost, and the task reports it (`topic.prepared_lost`)."""

MIN_LOG_VERSIONS: Final = 1000
"""Versions of the log kept before the newest checkpoint, for processes that read them one by
one."""

MIN_LOG_AGE_S: Final = 2 * MAX_STATE_AGE_S
"""How long they are kept at least. No process goes on from a state of this age."""


@dataclass(slots=True)
class _TopicUpkeep:
    """What was done for a topic."""

    version: int = -1
    deleted_at: float = 0.0


class Upkeep:
    """Does the upkeep of the topics of one folder. Methods block: call them in a thread."""

    def __init__(self, topics: Folder, retention: Retention) -> None:
        self._topics, self._retention = topics, retention
        self._done: dict[str, _TopicUpkeep] = {}

    def maintain_topic(self, table: TopicTable) -> None:
        """Do the upkeep of a topic that is due. An idle topic costs one check for a new version."""
        if not table.exists():
            return
        done = self._done.setdefault(table.folder.url, _TopicUpkeep())
        now = time.time()
        expire(table, self._retention, now)
        if table.version != done.version:
            if table.inspect(_max_files_of_partition) >= MIN_RUN_FILES:
                compact(table)
            write_checkpoint(table)
            done.version = table.version
        if now - done.deleted_at >= DELETE_INTERVAL_S:
            delete_unused_files(table, now)
            done.deleted_at = now

    def maintain_folder(self) -> None:
        """Do the upkeep that concerns no single topic."""
        delete_abandoned_manifests(self._topics, time.time())


def _max_files_of_partition(state: TopicState) -> int:
    return max((len(files) for files in state.files.values()), default=0)


# retention


def expire(table: TopicTable, retention: Retention, now: float) -> int:
    """Remove files past their retention, oldest first; returns their number.

    The topic's own retention takes precedence. `delete_unused_files` deletes the content later.
    """
    removed = 0

    def compose(state: TopicState) -> Sequence[Action] | None:
        nonlocal removed
        rule = state.spec.retention or retention
        actions: list[Action] = []
        removed = 0
        for partition, files in state.files.items():
            expired = list(expired_files(files, rule, now))
            if expired:
                removed += len(expired)
                actions += _remove_expired(partition, files, expired, int(now * 1000))
        return [delta_log.commit_info(int(now * 1000), "DELETE", {}), *actions] if actions else None

    table.refresh()
    if table.inspect(compose) is None:  # usually there is nothing to remove, nor to make durable
        return 0
    faults.hit("topic.expiring")
    table.commit("topic.expire", compose)
    return removed


def expired_files(files: Sequence[TopicFile], rule: Retention, now: float) -> Iterator[TopicFile]:
    """Yield the first files of a partition that are past a retention.

    Retention by size keeps at least the newest file, retention by age may remove all.
    """
    total = sum(file.bytes for file in files)
    for index, file in enumerate(files):
        is_old = rule.seconds > 0 and now - file.modified_ms / 1000 > rule.seconds
        is_excess = 0 < rule.bytes < total and index < len(files) - 1
        if not is_old and not is_excess:
            return
        total -= file.bytes
        yield file


def _remove_expired(
    partition: int, files: Sequence[TopicFile], expired: Sequence[TopicFile], now_ms: int
) -> Iterator[Action]:
    for file in expired:
        yield delta_log.remove_file(partition, file, now_ms, drops_rows=True)
    if len(expired) == len(files):
        # offsets never go back, also when no row is left from which they could be known
        yield delta_log.set_transaction(next_offset_key(partition), files[-1].end, now_ms)


# compaction: a micro-batch is a file, so 40 commits a second make 40 files a second. Runs of
# neighbours are merged where the result is at least MIN_GROWTH times the largest of them. So a row
# is rewritten at most log(TARGET_BYTES / its file) / log(MIN_GROWTH) times, however the files came.


def compact(table: TopicTable) -> int:
    """Merge small files into large ones; offsets stay. Returns the number of merged files."""
    table.refresh()
    partitions = table.inspect(lambda state: {p: list(f) for p, f in state.files.items()})
    return sum(
        _merge_files(table, partition, run)
        for partition, files in partitions.items()
        for run in find_runs(files)
    )


def find_runs(files: Sequence[TopicFile]) -> Iterator[Sequence[TopicFile]]:
    """Yield the runs of neighbouring files that are worth merging. Pure."""
    run: list[TopicFile] = []
    size = 0
    for file in files:
        is_large = file.bytes >= TARGET_BYTES // MIN_GROWTH
        # after a gap, the numbers of rows in the merged file would not match their offsets
        has_gap = bool(run) and file.base != run[-1].end
        is_full = size + file.bytes > TARGET_BYTES or len(run) == MAX_RUN_FILES
        if is_large or has_gap or is_full:
            yield from _worth_merging(run)
            run, size = [], 0
        if not is_large:
            run.append(file)
            size += file.bytes
    yield from _worth_merging(run)


def _worth_merging(run: Sequence[TopicFile]) -> Iterator[Sequence[TopicFile]]:
    """Yield a run; or, when one file in it is too large, the parts before and after that file."""
    pending = [run]
    while pending:
        part = pending.pop()
        if len(part) < MIN_RUN_FILES:
            continue
        largest = max(range(len(part)), key=lambda index: part[index].bytes)
        if sum(file.bytes for file in part) >= MIN_GROWTH * part[largest].bytes:
            yield part
        else:
            pending += [part[largest + 1 :], part[:largest]]


def _merge_files(table: TopicTable, partition: int, run: Sequence[TopicFile]) -> int:
    merged = _write_merged(table, partition, run)

    def compose(state: TopicState) -> Sequence[Action] | None:
        if not state.has_files(partition, run):
            return None  # retention, or the compaction of another process, was faster
        now_ms = time.time_ns() // 1_000_000
        info = {"partition": partition, "files": len(run)}
        return [
            delta_log.commit_info(now_ms, "OPTIMIZE", info),
            *(delta_log.remove_file(partition, file, now_ms, drops_rows=False) for file in run),
            delta_log.add_file(partition, merged, new_rows=False),
        ]

    faults.hit("topic.compacting")
    table.commit("topic.compact", compose)
    if table.inspect(lambda state: state.has_file(merged.path)):
        return len(run)
    table.folder.delete([merged.path])
    return 0


def _write_merged(table: TopicTable, partition: int, run: Sequence[TopicFile]) -> TopicFile:
    """Write one durable file with the rows of several, numbered from the base of the first one."""
    name = new_compacted_name(partition, run[0].base)
    columns = table.columns
    merged = RowFileWriter(table.folder, name, columns)
    parts = table.folder.open_files((file.path, file.bytes) for file in run)
    try:
        for file in run:
            for rows in read_rows(next(parts), columns, 0, file.rows):
                merged.write(rows)
        size = merged.close()
    except BaseException:
        merged.discard()
        raise
    table.folder.sync()
    newest_ms = max(file.modified_ms for file in run)
    return TopicFile(run[0].base, merged.rows, name, size, newest_ms)


# checkpoints


def write_checkpoint(table: TopicTable) -> bool:
    """Write a checkpoint of the log when it has grown long enough; True when it was written."""
    last = find_newest_checkpoint(table.log)
    files = table.inspect(lambda state: sum(len(files) for files in state.files.values()))
    new_versions = table.version - (-1 if last is None else last)
    if new_versions < max(CHECKPOINT_VERSIONS, files // FILES_PER_VERSION):
        return False
    delta = DeltaTable(table.folder.url, storage_options=table.folder.delta_options)
    delta.create_checkpoint()
    # the library does not sync; versions before it may be deleted only when it is durable
    table.log.sync(part.name for part in list_checkpoint_files(table.log))
    return True


# deletion of unused files: an executor's file has no version while its transaction is prepared, and
# a prepared transaction may wait long for its task. So age alone decides little. A file is dead
# when the log has a later transaction of its task, or a newer epoch of it; a task that never
# returns loses its files after ABANDONED_AGE_S.


@dataclass(frozen=True, slots=True)
class _KnownFiles:
    """What a version knows: files that are part of it, removed files, and each task's epoch and
    last transaction.
    """

    live: frozenset[str]
    removed_ms: Mapping[str, int]
    committed: Mapping[str, tuple[int, int]]

    @staticmethod
    def from_state(state: TopicState) -> _KnownFiles:
        live = frozenset(file.path for files in state.files.values() for file in files)
        committed = {
            task_in_name(task): (state.transactions.get(task + EPOCH_SUFFIX, 0), txn)
            for task, txn in state.transactions.items()
        }
        return _KnownFiles(live, dict(state.tombstones), committed)

    def is_unused(self, name: str, age_s: float, now: float) -> bool:
        """Return whether a file may be deleted."""
        if name in self.live:
            return False
        if name in self.removed_ms:
            return now - self.removed_ms[name] / 1000 >= REMOVED_FILE_AGE_S
        if is_compacted(name):
            return age_s >= ORPHAN_AGE_S
        staged = parse_staged_name(name)
        if staged is None:
            return False  # not a file of this product
        epoch, txn = self.committed.get(staged.task, (0, 0))
        is_dead = staged.txn <= txn or staged.epoch < epoch
        return age_s >= (ORPHAN_AGE_S if is_dead else ABANDONED_AGE_S)


def delete_unused_files(table: TopicTable, now: float) -> int:
    """Delete files that no reader and no transaction needs: removed files, files of dead attempts,
    and old versions of the log. Returns their number.
    """
    # listed before the log is read: a file that is committed in between is then known to be live
    files = [file for file in table.folder.list_files() if file.name.endswith(".parquet")]
    table.refresh()
    known = table.inspect(_KnownFiles.from_state)
    unused = [file.name for file in files if known.is_unused(file.name, _age_s(file, now), now)]
    table.folder.delete(unused)
    temporary = [
        file.name
        for file in table.log.list_files(TEMPORARY_PREFIX)
        if _age_s(file, now) >= ORPHAN_AGE_S
    ]
    old_versions = _old_versions(table.log, now)
    table.log.delete([*temporary, *old_versions])
    return len(unused) + len(temporary) + len(old_versions)


def delete_abandoned_manifests(topics: Folder, now: float) -> None:
    """Delete manifests of transactions that were never committed."""
    folder = topics.subfolder(MANIFEST_FOLDER)
    folder.delete(
        [file.name for file in folder.list_files() if _age_s(file, now) >= ABANDONED_AGE_S]
    )


def _old_versions(log: Folder, now: float) -> list[str]:
    """Return the files of the log that no reader needs, oldest first."""
    checkpoint = find_newest_checkpoint(log)
    if checkpoint is None:
        return []
    old = list_files_before(log, checkpoint - MIN_LOG_VERSIONS)
    return [file.name for file in old if _age_s(file, now) >= MIN_LOG_AGE_S]


def _age_s(file: FileInfo, now: float) -> float:
    return max(0.0, now - file.modified_at)
