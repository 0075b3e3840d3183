"""The write end of a task whose rows go to topics: one transaction may touch several of them.

Two phases: executors write and sync files that no reader sees; prepare names those that count;
commit adds them to each topic's table, once. Between the two, the offset service keeps the names
together with the offsets.
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
from penstock.model.stream import (
    Offsets,
    PreparedTxn,
    PutSlot,
    StreamSchema,
    TxnCommitted,
    WriteOpened,
)
from penstock.topic.embedded.table import StagedFile, TopicTable
from penstock.topic.embedded.table_state import Retention, TopicSpec
from penstock.topic.embedded.threads import Threads
from penstock.topic_files import Folder, stored_schema

MOST_STATE: Final = 48 << 10
"""Bytes of a state that needs no manifest. The limit is 64 KiB; the rest is for what comes."""

_MANIFEST: Final = "manifest"
FOLDER: Final = ".prepared"
"""Folder of manifests, beside the topics."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files of a transaction by topic, in order. `manifest`: the file in `FOLDER` that names them,
    if any.
    """

    files: Mapping[str, Sequence[StagedFile]]
    manifest: str = ""

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(file.rows for files in self.files.values() for file in files)


def written_state(topics: Folder, name: str, prepared: Prepared) -> bytes:
    """Return the state of a transaction; a manifest is durable when this returns."""
    fields = {
        topic: [[file.path, file.partition, file.rows, file.bytes] for file in files]
        for topic, files in prepared.files.items()
    }
    state = json.dumps({"topics": fields}, separators=(",", ":")).encode()
    if len(state) <= MOST_STATE:
        return state
    folder = topics.at(FOLDER)
    folder.make()
    # a transaction that is prepared again has a manifest of its own
    manifest = f"{quote(name, safe='')[-180:]}-{uuid.uuid4().hex[:8]}.json"
    folder.put_new(manifest, state)
    return json.dumps({_MANIFEST: manifest}).encode()


def read_state(topics: Folder, state: bytes) -> Prepared:
    """Return the transaction of a state.

    Raises:
        InternalError: `topic.prepared_lost`: its manifest is gone.
    """
    fields: dict[str, Any] = json.loads(state or b"{}")
    manifest = ""
    if _MANIFEST in fields:
        manifest = str(fields[_MANIFEST]).rpartition("/")[2]
        try:
            fields = json.loads(topics.at(FOLDER).read(manifest))
        except FileNotFoundError as error:
            raise InternalError(
                "topic.prepared_lost",
                f"{topics.url}/{FOLDER}/{manifest} is gone, which names the files of a prepared "
                "transaction",
                fix="Somebody removed it. Reset the offsets of the connector to before it.",
            ) from error
    files = fields.get("topics", {})
    return Prepared({t: [StagedFile(*f) for f in files[t]] for t in files}, manifest)


def dropped(topics: Folder, prepared: Prepared) -> None:
    """Remove what only an unfinished transaction needs."""
    if prepared.manifest:
        topics.at(FOLDER).delete([prepared.manifest])


@dataclass(frozen=True, slots=True)
class NewTopics:
    """What topics are made with that do not exist yet. A retention also changes those that do."""

    partitions: int = 1
    retention: Retention | None = None


@dataclass(slots=True)
class _Target:
    """A topic as rows of one schema go there."""

    table: TopicTable
    key_columns: tuple[str, ...]
    casts: str


@dataclass(slots=True)
class _Done:
    """The last transaction that was committed, so that committing it again changes nothing."""

    txn: TxnCommitted = field(default_factory=lambda: TxnCommitted(0))
    prepared: Prepared = field(default_factory=lambda: Prepared({}))


class EmbeddedWriteStream:
    """Appends to topics exactly once. Owned by one run of a task."""

    def __init__(
        self,
        task_id: str,
        new: NewTopics,
        topics: Folder,
        table_of: Callable[[str], TopicTable],
        grew: Callable[[TopicTable], None],
        threads: Threads,
    ) -> None:
        """`grew` is told a topic that has new rows."""
        self._task, self._new, self._topics = task_id, new, topics
        self._table_of, self._grew, self._threads = table_of, grew, threads
        self._epoch = 0
        self._targets: dict[int, _Target] = {}
        self._prepared: dict[int, Prepared] = {}
        self._done = _Done()

    async def open(
        self,
        epoch: int,
        commit_mode: CommitMode,
        last_prepared: PreparedTxn | None,
        recover: bool,
    ) -> WriteOpened:
        """Apply a prepared transaction again when it may not have been applied.

        Raises:
            ConfigError: `delivery.not_available`.
            FencedError: `topic.stale_epoch`.
            InternalError: `topic.prepared_lost`.
        """
        if commit_mode not in {CommitMode.UNSPECIFIED, CommitMode.TWO_PHASE}:
            raise ConfigError(
                "delivery.not_available",
                f"a topic commits in two phases, {commit_mode.name} was asked for",
                fix="Leave `delivery` out: a topic is exactly once.",
                config_path="delivery",
            )
        self._epoch = epoch
        if recover and last_prepared is not None:
            prepared = await self._threads.run(read_state, self._topics, last_prepared.state)
            await self._apply(last_prepared.txn_id, prepared)
        return WriteOpened(CommitMode.TWO_PHASE)

    async def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a topic; None when it was not made yet."""
        table = self._table_of(dataset)
        return table.columns if await self._threads.run(table.exists) else None

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Make the topic, or add the columns that it lacks.

        Raises:
            SchemaError: `topic.schema_incompatible`, `topic.type_unsupported`, `topic.column_name`.
        """
        table = self._table_of(schema.dataset)
        spec = TopicSpec(self._new.partitions, schema.key_columns, self._new.retention)
        await self._threads.run(table.ensure, schema.arrow, spec)
        casts = casts_for(schema.arrow, table.columns)
        self._targets[schema.schema_id] = _Target(table, schema.key_columns, casts)

    def ticket(self, txn_id: int, slot: int, schema_id: int) -> dict[str, Any]:
        """Say where an executor writes the files of a slot."""
        target = self._targets[schema_id]
        return {
            "kind": "embedded",
            **target.table.folder.place(),
            "topic": target.table.topic,
            "partitions": target.table.spec.partitions,
            "key_columns": list(target.key_columns),
            "casts": target.casts,
            "task": self._task,
            "epoch": self._epoch,
            "txn_id": txn_id,
            "slot": slot,
        }

    async def prepare(
        self, txn_id: int, slots: Sequence[PutSlot], token: bytes, offsets: Offsets
    ) -> PreparedTxn:
        """Name the files that count, in order of slot. Executors have synced them already."""
        del offsets
        files: dict[str, list[StagedFile]] = {}
        for slot in slots:
            for file in slot.detail.get("files", ()):
                staged = StagedFile(file["path"], file["partition"], file["rows"], file["bytes"])
                files.setdefault(file["topic"], []).append(staged)
        name = f"{self._task}-{self._epoch}-{txn_id}"
        prepared = Prepared(files)
        state = await self._threads.run(written_state, self._topics, name, prepared)
        self._prepared[txn_id] = await self._threads.run(read_state, self._topics, state)
        faults.hit("topic.prepared")
        return PreparedTxn(txn_id, self._epoch, state, token)

    async def commit(self, txn_id: int) -> TxnCommitted:
        """Add the files to their topics. Idempotent.

        Raises:
            FencedError: `topic.stale_epoch`.
            InternalError: `topic.prepared_lost`, `topic.not_prepared`.
        """
        if txn_id == self._done.txn.txn_id:
            return self._done.txn
        prepared = self._prepared.get(txn_id)
        if prepared is None:
            raise InternalError("topic.not_prepared", f"transaction {txn_id} was not prepared")
        info = await self._apply(txn_id, prepared)
        del self._prepared[txn_id]
        # the offset service has this transaction now, so the one before is never recovered
        await self._threads.run(dropped, self._topics, self._done.prepared)
        self._done = _Done(TxnCommitted(txn_id, prepared.rows, info), prepared)
        return self._done.txn

    async def abort(self, txn_id: int) -> None:
        """Forget a transaction; its files are orphans that upkeep removes."""
        prepared = self._prepared.pop(txn_id, None)
        if prepared is not None:
            await self._threads.run(dropped, self._topics, prepared)

    async def close(self, grace: float) -> None:
        """Nothing is open. A transaction that was prepared is the offset service's by now."""

    async def _apply(self, txn_id: int, prepared: Prepared) -> dict[str, str]:
        info = {}
        for topic, files in prepared.files.items():
            table = self._table_of(topic)
            version = await self._threads.run(table.append, self._task, self._epoch, txn_id, files)
            self._grew(table)
            info[topic] = str(version)
        return info


def casts_for(rows: pa.Schema, table: pa.Schema) -> str:
    """Return the columns that a topic has in a wider type than its rows have: a schema in base64,
    empty when there is none, which is the rule.
    """
    stored = stored_schema(rows)
    wider = [table.field(f.name) for f in stored if table.field(f.name).type != f.type]
    return base64.b64encode(pa.schema(wider).serialize().to_pybytes()).decode() if wider else ""
