"""The write end of a task whose rows go to topics: one transaction may touch several of them.

Two phases: executors write and sync files that no reader sees; prepare names those that count;
commit adds them to each topic's table, once. Between the two, the offset service keeps the names
together with the offsets.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.model import faults
from penstock.model.connector import CommitMode
from penstock.model.errors import ConfigError, InternalError
from penstock.model.stream import (
    Offsets,
    PreparedTxn,
    PutSlot,
    StreamSchema,
    TxnCommitted,
    WriteOpened,
)
from penstock.topic.embedded.table import TopicTable

MOST_STATE: Final = 48 << 10
"""Bytes of a transaction's state; a longer one goes to a file of its own that the state names."""


class EmbeddedWriteStream:
    """Appends to topics exactly once. Owned by one run of a task."""

    def __init__(
        self,
        task_id: str,
        partitions: int,
        table_of: Callable[[str], TopicTable],
        topics_dir: Path,
        committed: Callable[[Path], None],
    ) -> None:
        """`committed` is told the folder of a topic that grew."""
        self._task, self._partitions = task_id, partitions
        self._table_of, self._dir, self._committed = table_of, topics_dir, committed
        self._epoch = 0
        self._schemas: dict[int, tuple[TopicTable, tuple[str, ...]]] = {}
        self._prepared: dict[int, bytes] = {}

    async def open(
        self,
        epoch: int,
        commit_mode: CommitMode,
        last_prepared: PreparedTxn | None,
        recover: bool,
    ) -> WriteOpened:
        """Apply a prepared transaction again when it may not have been applied."""
        if commit_mode not in {CommitMode.UNSPECIFIED, CommitMode.TWO_PHASE}:
            raise ConfigError(
                "delivery.not_available",
                f"a topic commits in two phases, {commit_mode.name} was asked for",
                fix="Leave `delivery` out: a topic is exactly once.",
                config_path="delivery",
            )
        self._epoch = epoch
        if recover and last_prepared is not None:
            await asyncio.to_thread(self._apply, last_prepared.txn_id, last_prepared.state)
        return WriteOpened(CommitMode.TWO_PHASE)

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Make the topic, or add the columns that it lacks."""
        table = self._table_of(schema.dataset)
        await asyncio.to_thread(table.ensure, schema.arrow, self._partitions)
        self._schemas[schema.schema_id] = (table, schema.key_columns)

    def ticket(self, txn_id: int, slot: int, schema_id: int) -> dict[str, Any]:
        """Say where an executor writes the files of a slot."""
        table, keys = self._schemas[schema_id]
        return {
            "kind": "embedded",
            "root": str(table.root),
            "topic": table.topic,
            "partitions": table.log.partitions,
            "key_columns": list(keys),
            "task": self._task,
            "epoch": self._epoch,
            "txn_id": txn_id,
            "slot": slot,
        }

    async def prepare(
        self, txn_id: int, slots: Sequence[PutSlot], token: bytes, offsets: Offsets
    ) -> PreparedTxn:
        """Name the files that count. Executors have synced them already."""
        del offsets
        files: dict[str, list[Any]] = {}
        for slot in slots:
            for file in slot.detail.get("files", ()):
                entry = [file["path"], file["partition"], file["rows"], file["bytes"]]
                files.setdefault(file["topic"], []).append(entry)
        state = await asyncio.to_thread(self._bounded, txn_id, json.dumps(files).encode())
        self._prepared = {txn_id: state}  # the one before is applied: commits come in order
        faults.hit("topic.prepared")
        return PreparedTxn(txn_id, self._epoch, state, token)

    async def commit(self, txn_id: int) -> TxnCommitted:
        """Add the files to their topics. Idempotent."""
        state = self._prepared.get(txn_id)
        if state is None:
            raise InternalError("topic.not_prepared", f"transaction {txn_id} was not prepared")
        info = await asyncio.to_thread(self._apply, txn_id, state)
        for topic in info:
            self._committed(self._table_of(topic).root)
        return TxnCommitted(txn_id, info=info)

    async def abort(self, txn_id: int) -> None:
        """Forget a transaction; its files are orphans that upkeep removes."""
        self._prepared.pop(txn_id, None)

    async def close(self, grace: float) -> None:
        """Nothing is open."""

    def _apply(self, txn_id: int, state: bytes) -> dict[str, str]:
        versions = {}
        for topic, entries in self._files(state).items():
            files = [
                {"path": path, "partition": partition, "rows": rows, "bytes": size}
                for path, partition, rows, size in entries
            ]
            table = self._table_of(topic)
            versions[topic] = str(table.append(self._task, self._epoch, txn_id, files))
        return versions

    def _bounded(self, txn_id: int, state: bytes) -> bytes:
        if len(state) <= MOST_STATE:
            return state
        path = self._dir / f".prepared-{self._task}-{self._epoch}-{txn_id}.json"
        temporary = path.with_suffix(".new")
        with temporary.open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        return json.dumps({"": str(path)}).encode()

    def _files(self, state: bytes) -> Mapping[str, list[Any]]:
        files: dict[str, Any] = json.loads(state or b"{}")
        named = files.get("")
        if isinstance(named, str):
            files = json.loads(Path(named).read_bytes())
        return files
