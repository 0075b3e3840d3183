"""The control side of a sink of topics. One transaction may write to several topics.

It commits in two phases. Executors write and sync files that no reader sees. Prepare records the
files that count, and the offset service stores their names together with the offsets. Commit adds
them to the table of each topic, once.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from penstock.model import faults
from penstock.model.connector import CommitMode
from penstock.model.errors import ConfigError, InternalError
from penstock.model.stream import PreparedTxn, PutSlot, StreamSchema, WriteOpened
from penstock.model.topic import NewTopic, Retention
from penstock.topic.embedded.table_state import TopicSpec
from penstock.topic.embedded.topic_table import StagedFile, TopicTable, TopicThreads
from penstock.topic_files.folder import Folder
from penstock.topic_files.stored_types import to_stored_schema, without_partition

MAX_STATE_BYTES: Final = 48 << 10
"""Size of a state without a manifest. The limit is 64 KiB; the rest is reserved for later
fields."""

MANIFEST_FOLDER: Final = ".prepared"
"""Folder of manifests, beside the topics."""

_MANIFEST: Final = "manifest"


@dataclass(frozen=True, slots=True)
class PreparedFiles:
    """Files of a transaction by topic, in order. `manifest`: the file in `MANIFEST_FOLDER` with
    their names, if there is one.
    """

    files: Mapping[str, Sequence[StagedFile]]
    manifest: str = ""

    @property
    def rows(self) -> int:
        """Number of rows in all files."""
        return sum(file.rows for files in self.files.values() for file in files)


def encode_state(topics: Folder, name: str, prepared: PreparedFiles) -> bytes:
    """Return the state of a transaction. A state that is too large is written to a manifest, which
    is durable when this returns.
    """
    fields = {
        topic: [[file.path, file.partition, file.rows, file.bytes] for file in files]
        for topic, files in prepared.files.items()
    }
    state = json.dumps({"topics": fields}, separators=(",", ":")).encode()
    if len(state) <= MAX_STATE_BYTES:
        return state
    folder = topics.subfolder(MANIFEST_FOLDER)
    folder.create()
    # a transaction that is prepared again has another manifest
    manifest = f"{quote(name, safe='')[-180:]}-{uuid.uuid4().hex[:8]}.json"
    folder.put_new(manifest, state)
    return json.dumps({_MANIFEST: manifest}).encode()


def decode_state(topics: Folder, state: bytes) -> PreparedFiles:
    """Return the files of a transaction's state.

    Raises:
        InternalError: `topic.prepared_lost`: its manifest is missing.
    """
    fields: dict[str, Any] = json.loads(state or b"{}")
    manifest = ""
    if _MANIFEST in fields:
        manifest = str(fields[_MANIFEST]).rpartition("/")[2]
        try:
            fields = json.loads(topics.subfolder(MANIFEST_FOLDER).read(manifest))
        except FileNotFoundError as error:
            raise InternalError(
                "topic.prepared_lost",
                f"{topics.url}/{MANIFEST_FOLDER}/{manifest} is missing, which has the names of the "
                "files of a prepared transaction",
                fix="A user or a tool removed it. Reset the offsets of the connector to before it.",
            ) from error
    files = fields.get("topics", {})
    return PreparedFiles({t: [StagedFile(*f) for f in files[t]] for t in files}, manifest)


def delete_manifest(topics: Folder, prepared: PreparedFiles) -> None:
    """Delete the manifest of a transaction that is finished."""
    if prepared.manifest:
        topics.subfolder(MANIFEST_FOLDER).delete([prepared.manifest])


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """What a writer does to topics: what it creates them with, and what those that exist have
    afterwards: at least as many partitions, and a retention unless it is None.
    """

    new_topic: Callable[[str], NewTopic]
    least_partitions: Callable[[str], int]
    retention: Retention | None = None


@dataclass(slots=True)
class _Target:
    """A topic as the target of rows of one schema."""

    table: TopicTable
    key_columns: tuple[str, ...]
    casts: str


@dataclass(slots=True)
class _Committed:
    """The last committed transaction, so that committing it again changes nothing."""

    txn_id: int = 0
    prepared: PreparedFiles = field(default_factory=lambda: PreparedFiles({}))


class TopicWriter:
    """Appends to topics exactly once. Owned by one run of a task."""

    def __init__(
        self,
        task_id: str,
        changes: TopicChanges,
        topics: Folder,
        table_of: Callable[[str], TopicTable],
        on_commit: Callable[[TopicTable], None],
        threads: TopicThreads,
    ) -> None:
        """`on_commit` is called with each topic that has new rows."""
        self._task, self._changes, self._topics = task_id, changes, topics
        self._table_of, self._on_commit, self._threads = table_of, on_commit, threads
        self._epoch = 0
        self._targets: dict[int, _Target] = {}
        self._prepared: dict[int, PreparedFiles] = {}
        self._committed = _Committed()

    async def open(
        self,
        epoch: int,
        commit_mode: CommitMode,
        last_prepared: PreparedTxn | None,
        recover: bool,
    ) -> WriteOpened:
        """Commit a prepared transaction again when it may not have been committed.

        Raises:
            ConfigError: `delivery.not_available`.
            FencedError: `topic.stale_epoch`.
            InternalError: `topic.prepared_lost`.
        """
        if commit_mode not in {CommitMode.UNSPECIFIED, CommitMode.TWO_PHASE}:
            raise ConfigError(
                "delivery.not_available",
                f"a topic commits in two phases, {commit_mode.name} was requested",
                fix="Remove `delivery`: writes to a topic are exactly once.",
                config_path="delivery",
            )
        self._epoch = epoch
        if recover and last_prepared is not None:
            prepared = await self._threads.run(decode_state, self._topics, last_prepared.state)
            await self._append(last_prepared.txn_id, prepared)
        return WriteOpened(CommitMode.TWO_PHASE)

    async def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a topic; None when it does not exist."""
        table = self._table_of(dataset)
        return table.columns if await self._threads.run(table.exists) else None

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Create the topic, or add the columns and partitions that it lacks.

        Raises:
            SchemaError: `topic.schema_incompatible`, `topic.type_unsupported`, `topic.column_name`.
        """
        table, keys = self._table_of(schema.dataset), schema.key_columns
        new = self._changes.new_topic(schema.dataset)
        retention = self._changes.retention
        created = TopicSpec(new.partitions, keys, retention or new.retention)
        least = self._changes.least_partitions(schema.dataset)
        changed = TopicSpec(least, keys, retention)
        stored = without_partition(schema.arrow)
        await self._threads.run(table.ensure, stored, created, changed)
        casts = encode_casts(stored, table.columns)
        self._targets[schema.schema_id] = _Target(table, schema.key_columns, casts)

    def ticket(self, txn_id: int, slot: int, schema_id: int) -> dict[str, Any]:
        """Return the ticket with which an executor writes the files of a slot."""
        target = self._targets[schema_id]
        return {
            "kind": "embedded",
            **target.table.folder.to_ticket(),
            "topic": target.table.topic,
            "partitions": target.table.spec.partitions,
            "key_columns": list(target.key_columns),
            "casts": target.casts,
            "task": self._task,
            "epoch": self._epoch,
            "txn_id": txn_id,
            "slot": slot,
        }

    async def prepare(self, txn_id: int, slots: Sequence[PutSlot], token: bytes) -> PreparedTxn:
        """Record the files that count, in order of slot. Executors have synced them already."""
        files: dict[str, list[StagedFile]] = {}
        for slot in slots:
            for file in slot.detail.get("files", ()):
                staged = StagedFile(file["path"], file["partition"], file["rows"], file["bytes"])
                files.setdefault(file["topic"], []).append(staged)
        name = f"{self._task}-{self._epoch}-{txn_id}"
        prepared = PreparedFiles(files)
        state = await self._threads.run(encode_state, self._topics, name, prepared)
        self._prepared[txn_id] = await self._threads.run(decode_state, self._topics, state)
        faults.hit("topic.prepared")
        return PreparedTxn(txn_id, self._epoch, state, token)

    async def commit(self, txn_id: int) -> None:
        """Add the files to their topics. Idempotent.

        Raises:
            FencedError: `topic.stale_epoch`.
            InternalError: `topic.prepared_lost`, `topic.not_prepared`.
        """
        if txn_id == self._committed.txn_id:
            return
        prepared = self._prepared.get(txn_id)
        if prepared is None:
            raise InternalError("topic.not_prepared", f"transaction {txn_id} was not prepared")
        await self._append(txn_id, prepared)
        del self._prepared[txn_id]
        # the offset service has this transaction now, so the one before is never recovered
        await self._threads.run(delete_manifest, self._topics, self._committed.prepared)
        self._committed = _Committed(txn_id, prepared)

    async def close(self, grace: float) -> None:
        """Do nothing: the offset service has every prepared transaction."""

    async def _append(self, txn_id: int, prepared: PreparedFiles) -> None:
        for topic, files in prepared.files.items():
            table = self._table_of(topic)
            await self._threads.run(table.append, self._task, self._epoch, txn_id, files)
            self._on_commit(table)


def encode_casts(rows: pa.Schema, table: pa.Schema) -> str:
    """Return the columns that have a wider type in a topic than in its rows, as a schema in base64;
    empty when there is none, which is the usual case.
    """
    stored = to_stored_schema(rows)
    wider = [table.field(f.name) for f in stored if table.field(f.name).type != f.type]
    return base64.b64encode(pa.schema(wider).serialize().to_pybytes()).decode() if wider else ""
