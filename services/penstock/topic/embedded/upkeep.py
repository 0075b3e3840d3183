"""Upkeep of topics, off the commit path: checkpoints of the log, compaction, retention, orphans.

Every step holds the table's lock only for its commit, and is bounded, so that a writer never waits
long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import RemoveAction

from penstock.model import faults
from penstock.topic.embedded.log import INDEX, TopicFile
from penstock.topic.embedded.table import TopicTable, add_action

log = logging.getLogger(__name__)

CHECKPOINT_EVERY: Final = 100
SMALL_BYTES: Final = 8 << 20
LEAST_RUN: Final = 16
"""Small neighbours that are worth a compaction. Fewer rewrite rows again and again; more leave many
files.
"""
MOST_RUN: Final = 256
ORPHAN_AGE: Final = 3600.0
"""Seconds before a file that no version names is an orphan. A slow transaction may be that old, not
older.
"""
REMOVED_AGE: Final = 600.0
"""Seconds that a removed file is kept for readers that are in it."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows are kept. 0 means for ever. `seconds` since they were committed; `bytes` of a
    topic's partition.
    """

    seconds: float = 0.0
    bytes: int = 0


class Upkeep:
    """Looks after the topics of one folder. Methods block: call them in a thread."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._checkpointed: dict[Path, int] = {}
        self._removed: dict[Path, float] = {}

    def look_after(self, table: TopicTable) -> None:
        """Do what is due for a topic."""
        if not table.exists():
            return
        self.compact(table)
        self.expire(table, time.time())
        self.checkpoint(table)
        self.sweep(table, time.time())

    def checkpoint(self, table: TopicTable) -> None:
        """Write a checkpoint of the log when it has grown long."""
        last = self._checkpointed.get(table.root, 0)
        if table.log.version - last >= CHECKPOINT_EVERY:
            with table.locked():
                table.delta().create_checkpoint()
                self._checkpointed[table.root] = table.log.version

    def compact(self, table: TopicTable) -> int:
        """Merge runs of small neighbours; returns how many files went. Offsets stay as they are."""
        gone = 0
        table.log.refresh()
        for partition, files in list(table.log.files.items()):
            for run in _small_runs(files):
                gone += self._merge(table, partition, run)
        return gone

    def expire(self, table: TopicTable, now: float) -> int:
        """Remove files past their retention, oldest first; returns how many. The newest file always
        stays.
        """
        gone = 0
        with table.locked():
            removes = []
            for files in table.log.files.values():
                removes += [_remove(file) for file in self._expired(files, now)]
            if removes:
                faults.hit("topic.expiring")
                table.commit(removes, {})
                gone = len(removes)
                for action in removes:
                    self._removed[table.root / action.path] = now
        return gone

    def sweep(self, table: TopicTable, now: float) -> None:
        """Delete removed files after their grace, and orphans of dead attempts."""
        for path, since in list(self._removed.items()):
            if path.parent == table.root and now - since >= REMOVED_AGE:
                path.unlink(missing_ok=True)
                del self._removed[path]
        live = {file.path for files in table.log.files.values() for file in files}
        for path in table.root.glob("*.parquet"):
            if path.name not in live and path not in self._removed:
                with suppress(FileNotFoundError):
                    if now - path.stat().st_mtime >= ORPHAN_AGE:
                        path.unlink()

    def _merge(self, table: TopicTable, partition: int, run: Sequence[TopicFile]) -> int:
        rows = sum(file.rows for file in run)
        name = f"compact-{partition}-{run[0].base}-{time.time_ns()}.parquet"
        path = table.root / name
        schema = pa.unify_schemas(
            [pq.read_schema(table.root / file.path) for file in run], promote_options="default"
        )
        with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False) as writer:
            start = 0
            for file in run:
                rows_of = pq.read_table(table.root / file.path)
                index = pa.array(range(start, start + file.rows), pa.int64())
                place = rows_of.schema.get_field_index(INDEX)
                rows_of = rows_of.set_column(place, INDEX, index)
                writer.write_table(_filled(rows_of, schema))
                start += file.rows
        now = time.time_ns() // 1_000_000
        size = path.stat().st_size
        with table.locked():
            if not set(run) <= set(table.log.files.get(partition, ())):
                path.unlink()
                return 0
            faults.hit("topic.compacting")
            add = add_action(name, size, partition, run[0].base, rows, run[-1].modified_ms or now)
            add.data_change = False
            table.commit([*(_remove(file) for file in run), add], {})
        for file in run:
            self._removed[table.root / file.path] = time.time()
        return len(run)

    def _expired(self, files: Sequence[TopicFile], now: float) -> Iterable[TopicFile]:
        total = sum(file.bytes for file in files)
        for file in files[:-1]:  # the last file says where the next offset is
            old = (
                self._retention.seconds and now - file.modified_ms / 1000 > self._retention.seconds
            )
            large = self._retention.bytes and total > self._retention.bytes
            if not old and not large:
                return
            total -= file.bytes
            yield file


def _small_runs(files: Sequence[TopicFile]) -> Iterable[list[TopicFile]]:
    # the newest files are left alone: their readers are at them now
    for small, run in groupby(files[:-1], key=lambda file: file.bytes < SMALL_BYTES):
        found = list(run)
        if small and len(found) >= LEAST_RUN:
            yield found[:MOST_RUN]


def _remove(file: TopicFile) -> RemoveAction:
    return RemoveAction(
        file.path, deletion_timestamp=time.time_ns() // 1_000_000, data_change=False
    )


def _filled(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        rows.column(f.name) if f.name in rows.schema.names else pa.nulls(rows.num_rows, f.type)
        for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
