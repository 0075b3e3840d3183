"""Small files become large ones; offsets stay. Which ones is pure; the rest reads and writes.

A micro-batch is a file, so a topic that is written to 40 times a second has 40 new files a second.
Runs of neighbours are merged where the result is at least `GROWTH` times the largest of them: so a
row is written again at most log(`TARGET_BYTES` / its file) / log(`GROWTH`) times, however the files
came.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from penstock.model import faults
from penstock.topic.embedded import log
from penstock.topic.embedded.table import TopicTable
from penstock.topic.embedded.table_state import Action, TopicFile, TopicState
from penstock.topic_files import RowFile, new_compacted_name, read_rows

TARGET_BYTES: Final = 64 << 20
"""A file of this size is left alone. Larger ones make retention coarse."""

LEAST_RUN: Final = 16
"""Neighbours that are worth a version of the log."""

MOST_RUN: Final = 512
"""Files that are opened one after another for one version of the log."""

GROWTH: Final = 4
"""How much larger than its largest part a merged file must be. Smaller rewrites rows more often,
larger leaves more files."""


def compact(table: TopicTable) -> int:
    """Merge what is worth it; returns how many files went."""
    table.refresh()
    partitions = table.inspect(lambda state: {p: list(f) for p, f in state.files.items()})
    return sum(
        _merge(table, partition, run)
        for partition, files in partitions.items()
        for run in runs_of(files)
    )


def runs_of(files: Sequence[TopicFile]) -> Iterator[Sequence[TopicFile]]:
    """Yield the runs of neighbours that are worth merging."""
    run: list[TopicFile] = []
    size = 0
    for file in files:
        large = file.bytes >= TARGET_BYTES // GROWTH
        # over a hole the numbers of the rows behind it would no longer be their offsets
        apart = bool(run) and file.base != run[-1].end
        if large or apart or size + file.bytes > TARGET_BYTES or len(run) == MOST_RUN:
            yield from _worth(run)
            run, size = [], 0
        if not large:
            run.append(file)
            size += file.bytes
    yield from _worth(run)


def _worth(run: Sequence[TopicFile]) -> Iterator[Sequence[TopicFile]]:
    """Yield a run; or, when one file in it is too large, what is before and after that one."""
    pending = [run]
    while pending:
        part = pending.pop()
        if len(part) < LEAST_RUN:
            continue
        largest = max(range(len(part)), key=lambda place: part[place].bytes)
        if sum(file.bytes for file in part) >= GROWTH * part[largest].bytes:
            yield part
        else:
            pending += [part[largest + 1 :], part[:largest]]


def _merge(table: TopicTable, partition: int, run: Sequence[TopicFile]) -> int:
    merged = _written(table, partition, run)

    def replaced(state: TopicState) -> Sequence[Action] | None:
        if not state.has_all(partition, run):
            return None  # retention, or another process' compaction, was there meanwhile
        now = time.time_ns() // 1_000_000
        return [
            log.info(now, "OPTIMIZE", {"partition": partition, "files": len(run)}),
            *(log.remove(partition, file, now, rows_go=False) for file in run),
            log.add(partition, merged, new_rows=False),
        ]

    faults.hit("topic.compacting")
    table.commit("topic.compact", replaced)
    if table.inspect(lambda state: state.has(merged.path)):
        return len(run)
    table.folder.delete([merged.path])
    return 0


def _written(table: TopicTable, partition: int, run: Sequence[TopicFile]) -> TopicFile:
    """Return one durable file with the rows of several, numbered anew from the first one's base."""
    name = new_compacted_name(partition, run[0].base)
    columns = table.columns
    merged = RowFile(table.folder, name, columns)
    parts = table.folder.opened((file.path, file.bytes) for file in run)
    try:
        for file in run:
            for rows in read_rows(next(parts), columns, 0, file.rows):
                merged.write(rows)
        size = merged.close()
    except BaseException:
        merged.discard()
        raise
    table.folder.sync()
    newest = max(file.modified_ms for file in run)
    return TopicFile(run[0].base, merged.rows, name, size, newest)
