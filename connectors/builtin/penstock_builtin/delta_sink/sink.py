"""`delta-sink`: rows of a dataset in a Delta table, exactly once."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH100

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import pyarrow as pa

from penstock_builtin.delta_sink.merging import key_of
from penstock_builtin.delta_sink.staging import DeltaStaging, Writing
from penstock_builtin.delta_sink.types import table_schema
from penstock_builtin.opening import telling
from penstock_builtin.rowcolumns import OP, operation_schema, row_names
from penstock_connector import (
    ConfigError,
    Staging,
    TransactionalSink,
    key,
)
from penstock_connector.reach import Reaching

if TYPE_CHECKING:
    from penstock_builtin.delta_sink.table import File


@dataclass(frozen=True)
class DeltaSinkConfig(Reaching):
    """Which table, and how it is written."""

    path: str = key(
        type="file", doc="Folder of the table. ${topic} is the rows' topic.", required=True
    )
    compression: str = key(
        "snappy", doc="Of Parquet.", choices=("none", "snappy", "zstd", "gzip", "lz4")
    )
    write_mode: str = key(
        "append",
        doc="`append` adds rows, and refuses changes of rows; `upsert` keeps the last row of each "
        "key: changes change, deletes delete, a truncation empties the table.",
        choices=("append", "upsert"),
    )
    pk_fields: tuple[str, ...] = key(
        (), doc="Columns of the key of `write.mode=upsert`; empty: those that the rows name."
    )
    operation_column: str = key(
        "",
        doc="A column of this name that has `create`, `update`, `delete`, …; changes are then "
        "added as rows. Empty: there is none.",
    )
    reserved_columns: bool = key(
        False, doc="Write columns like `__op`, too; changes are then added as rows."
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        if self.pk_fields and not self.merges:
            raise ConfigError(
                "config.contradiction",
                "`pk.fields` is a key to merge rows by, and `write.mode` is append",
                fix="Set `write.mode=upsert`, or leave `pk.fields` out.",
                config_path="pk.fields",
            )

    @property
    def merges(self) -> bool:
        """Whether rows are merged by their keys."""
        return self.write_mode == "upsert"

    def require_reach(self) -> None:
        """Refuse a folder that may not be reached."""
        self.reach.require_template(self.path, "path")


class DeltaSink(TransactionalSink[DeltaSinkConfig]):
    """A Delta table.

    Makes the table, adds columns as they come, and adds rows or merges them by key: a transaction
    is one entry of the table's log, exactly once.
    """

    name = "delta-sink"
    title = "A Delta table"
    commit_every: ClassVar[float] = 1.0  # a file for each transaction: fewer, larger ones

    @classmethod
    def check(cls, config: DeltaSinkConfig) -> None:
        """Refuse a path that is a file."""
        if Path(config.path).is_file():
            raise ConfigError(
                "delta.not_a_folder",
                f"{config.path} is a file",
                fix="Name a folder: a table is a folder.",
                config_path="path",
            )

    def connect(self, task_id: str, epoch: int) -> None:
        """Take note of whose rows these are."""
        from penstock_builtin.delta_sink.table import Table  # noqa: PLC0415 - slow to import

        self._table = Table
        self._task = task_id
        self._life = f"{epoch}-{secrets.token_hex(4)}"
        self._numbers = itertools.count()
        self._numbered: dict[str, int] = {}
        self._keys: dict[tuple[str, bytes], tuple[str, ...]] = {}

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Make the table, or add the columns that it lacks."""
        if self.config.merges:
            keys = tuple(key_of(self.config.pk_fields, schema, key_columns))
            self._keys[dataset, _fingerprint(schema)] = keys
        return self._table(self._path(dataset)).evolve(self._columns(schema))

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a file in the table's folder that the table does not know."""
        path = self._path(dataset)
        number = next(self._numbers)
        task = quote(self._task, safe="")
        name = f"part-{task}-{self._life}-{txn_id}-{slot}-{attempt}-{number}.parquet"
        has = self._table(path).schema()
        columns = [has.field(name) for name in self._columns(schema).names]
        config = self.config
        if config.merges and OP in schema.names and not config.reserved_columns:
            columns.append(schema.field(OP))
        how = Writing(
            key=self._keys[dataset, _fingerprint(schema)] if config.merges else (),
            told=bool(config.operation_column) or config.reserved_columns,
            operation=config.operation_column,
            compression=config.compression,
        )
        return DeltaStaging(path, name, pa.schema(columns), how)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Name the files, and give each table's part of the transaction its number there.

        The number is ours and not the host's: it only grows, even when offsets are set back and
        the host counts from the start again.
        """
        files: dict[str, list[list[Any]]] = {}
        keys: dict[str, list[list[str]]] = {}
        for staging in staged:
            assert isinstance(staging, DeltaStaging)  # noqa: S101 - we made them
            if staging.rows:
                files.setdefault(staging.table, []).append(
                    [staging.name, staging.size, staging.rows]
                )
                keys.setdefault(staging.table, []).append(list(staging.key))
        tables = []
        for path, some in files.items():
            _sync_folder(path)
            merged = [keys[path]] if self.config.merges else []
            tables.append([path, self._next_number(path), some, *merged])
        return json.dumps({"version": 1, "tables": tables}, separators=(",", ":")).encode()

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Add the files to their tables, or merge them, where that was not done yet."""
        for path, number, files, *keys in json.loads(state)["tables"]:
            self.config.reach.require_path(path, "path")  # the rule may be newer than the state
            table = self._table(path)
            if keys:
                packing = self.config.compression
                table.merge(self._task, number, _merges(keys[0], files), packing)
                _remove(path, files)
            else:
                table.append(self._task, number, files)
            self._numbered[path] = max(number, self._numbered.get(path, 0))

    def _next_number(self, path: str) -> int:
        if path not in self._numbered:
            self._numbered[path] = self._table(path).transaction(self._task)
        self._numbered[path] += 1
        return self._numbered[path]

    def _columns(self, schema: pa.Schema) -> pa.Schema:
        names = row_names(schema, reserved=self.config.reserved_columns)
        kept = pa.schema([schema.field(name) for name in names])
        if self.config.operation_column:
            kept = operation_schema(kept, self.config.operation_column)
        return table_schema(kept)

    def _path(self, dataset: str) -> str:
        topic = quote(dataset, safe=" +=@,").replace("..", "%2E%2E") or "rows"
        path = os.path.abspath(self.config.path.replace("${topic}", topic))
        self.config.reach.require_path(path, "path")
        return path


def _merges(
    keys: Sequence[Sequence[str]], files: Sequence[File]
) -> list[tuple[list[str], list[File]]]:
    """Return files in groups of one key, in their order."""
    merges: list[tuple[list[str], list[File]]] = []
    for key_, file in zip(keys, files, strict=True):
        if not merges or merges[-1][0] != list(key_):
            merges.append((list(key_), []))
        merges[-1][1].append(file)
    return merges


def _remove(path: str, files: Sequence[File]) -> None:
    """Remove files whose rows were merged into others. One that stays costs only its space."""
    for name, _, _ in files:
        with contextlib.suppress(OSError):
            Path(path, name).unlink()


def _fingerprint(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize())


def _sync_folder(path: str) -> None:
    with telling(path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
