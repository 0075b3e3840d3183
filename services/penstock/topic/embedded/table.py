"""One topic: its table is made, evolved, and appended to exactly once.

Offsets are known only at commit, and must follow each other without a gap. So a commit is made
under a lock on the table's folder (`flock`, released by the kernel whatever happens to its holder):
read the newest version, give every file its base, write the next version. The base is a Delta
partition value: it lives in the log, not in the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    Transaction,
)
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from penstock.model import faults
from penstock.model.errors import FencedError, RetriableError, SchemaError
from penstock.topic.embedded.log import (
    BASE,
    EPOCH_SUFFIX,
    INDEX,
    PARTITION,
    TopicLog,
)

HIDDEN = frozenset({PARTITION, BASE, INDEX})
"""Columns of the table that are about a row's place, not of the row."""

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class TopicTable:
    """A topic's table. Methods block: call them in a thread, one at a time."""

    def __init__(self, topic: str, root: Path) -> None:
        self.topic, self.root = topic, root
        self.log = TopicLog(root)
        self._table: DeltaTable | None = None

    def exists(self) -> bool:
        """Tell whether the topic was made."""
        return (self.root / "_delta_log").is_dir() and (self.log.refresh() or self.log.version >= 0)

    def ensure(self, schema: pa.Schema, partitions: int) -> pa.Schema:
        """Make the topic, or add the columns it lacks; returns the schema of its rows.

        Raises:
            SchemaError: `topic.schema_incompatible`.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self.log.refresh()
            if self.log.version < 0:
                self._create(schema, partitions)
            else:
                self._evolve(schema)
            self.log.refresh()
        return row_schema(self.log)

    def append(
        self, task_id: str, epoch: int, txn_id: int, files: Sequence[Mapping[str, Any]]
    ) -> int:
        """Add a transaction's files, unless they are there already; returns the version.

        Raises:
            FencedError: `topic.stale_epoch` (invariant 4).
            RetriableError: `topic.commit_failed`.
        """
        with self._locked():
            self.log.refresh()
            newest = self.log.transactions.get(task_id + EPOCH_SUFFIX, 0)
            if epoch < newest:
                raise FencedError(
                    "topic.stale_epoch",
                    f"task {task_id} is at epoch {newest} in topic {self.topic}, {epoch} is older",
                )
            done = self.log.transactions.get(task_id, 0) >= txn_id
            if done and not faults.hit("topic.repeat_check"):
                return self.log.version
            transactions = {task_id: txn_id, task_id + EPOCH_SUFFIX: epoch}
            faults.hit("topic.committing")
            self.commit(self._adds(files), transactions)
            faults.hit("topic.committed")
            return self.log.version

    def commit(self, actions: Sequence[Any], transactions: Mapping[str, int]) -> None:
        """Write the next version. The caller holds the lock and has refreshed."""
        table = self._open()
        try:
            table.create_write_transaction(
                list(actions),
                mode="append",
                schema=table.schema(),
                partition_by=[PARTITION, BASE],
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(k, v) for k, v in transactions.items()]
                ),
                post_commithook_properties=_NO_HOOKS,
            )
        except (DeltaError, OSError) as error:
            self._table = None
            raise RetriableError(
                "topic.commit_failed",
                f"topic {self.topic}: {error}",
                fix="Check space and permissions of the topics folder.",
            ) from error
        self.log.refresh()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the table's lock with the log refreshed, for upkeep."""
        with self._locked():
            self.log.refresh()
            yield

    def delta(self) -> DeltaTable:
        """Return the table at its newest version."""
        return self._open()

    def _adds(self, files: Sequence[Mapping[str, Any]]) -> list[AddAction]:
        bases: dict[int, int] = {}
        now = time.time_ns() // 1_000_000
        adds = []
        for file in files:
            partition = int(file["partition"])
            base = bases.get(partition, self.log.next_offset(partition))
            bases[partition] = base + int(file["rows"])
            adds.append(add_action(file["path"], file["bytes"], partition, base, file["rows"], now))
        return adds

    def _create(self, schema: pa.Schema, partitions: int) -> None:
        whole = pa.schema(
            [
                *(pa.field(f.name, f.type, nullable=True) for f in schema),
                pa.field(INDEX, pa.int64()),
                pa.field(PARTITION, pa.int32()),
                pa.field(BASE, pa.int64()),
            ]
        )
        DeltaTable.create(
            str(self.root),
            schema=whole,
            mode="ignore",
            partition_by=[PARTITION, BASE],
            name=self.topic,
            # deltalake takes no properties that it does not know
            description=json.dumps({"partitions": partitions}),
        )

    def _evolve(self, schema: pa.Schema) -> None:
        has = {f.name: f.type for f in row_schema(self.log)}
        for column in schema:
            if column.name in has and has[column.name] != column.type:
                raise SchemaError(
                    "topic.schema_incompatible",
                    f"column `{column.name}` of topic {self.topic} is {has[column.name]}, "
                    f"rows have {column.type}",
                    fix="Cast the column with a transform, or route the rows to another topic.",
                    dataset=self.topic,
                )
        missing = [pa.field(f.name, f.type) for f in schema if f.name not in has]
        if missing:
            table = self._open()
            table.alter.add_columns(list(Schema.from_arrow(pa.schema(missing)).fields))

    def _open(self) -> DeltaTable:
        if self._table is None:
            self._table = DeltaTable(str(self.root))
        else:
            self._table.update_incremental()
        return self._table

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(
            self.root / ".penstock.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def add_action(path: str, size: int, partition: int, base: int, rows: int, at_ms: int) -> AddAction:
    """Return the log's entry for a file."""
    return AddAction(
        path,
        size,
        {PARTITION: str(partition), BASE: str(base)},
        at_ms,
        True,
        json.dumps({"numRecords": rows}),
    )


def row_schema(log: TopicLog) -> pa.Schema:
    """Return the schema of a topic's rows: without the columns that are about their place."""
    return pa.schema([f for f in log.schema or () if f.name not in HIDDEN])
