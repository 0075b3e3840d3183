"""`delta-sink`: rows of a dataset in a Delta table, exactly once."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH100

from __future__ import annotations

import itertools
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pyarrow as pa

from penstock_builtin.delta_sink.staging import DeltaStaging
from penstock_builtin.delta_sink.types import table_schema
from penstock_builtin.opening import telling
from penstock_builtin.rowcolumns import row_names
from penstock_connector import (
    ConfigError,
    Staging,
    TransactionalSink,
    key,
)
from penstock_connector.reach import Reaching


@dataclass(frozen=True)
class DeltaSinkConfig(Reaching):
    """Which table, and how it is written."""

    path: str = key(doc="Folder of the table. ${topic} is the rows' topic.", required=True)
    compression: str = key(
        "snappy", doc="Of Parquet.", choices=("none", "snappy", "zstd", "gzip", "lz4")
    )
    reserved_columns: bool = key(False, doc="Write columns like __op, too.")

    def require_reach(self) -> None:
        """Refuse a folder that may not be reached."""
        self.reach.require_template(self.path, "path")


class DeltaSink(TransactionalSink[DeltaSinkConfig]):
    """A Delta table.

    Makes the table, adds columns as they come, and appends: a transaction is one entry of the
    table's log, exactly once.
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

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Make the table, or add the columns that it lacks."""
        del key_columns
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
        return DeltaStaging(path, name, pa.schema(columns), self.config.compression)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Name the files, and give each table's part of the transaction its number there.

        The number is ours and not the host's: it only grows, even when offsets are set back and
        the host counts from the start again.
        """
        del txn_id, epoch, token
        files: dict[str, list[list[Any]]] = {}
        for staging in staged:
            assert isinstance(staging, DeltaStaging)  # noqa: S101 - we made them
            if staging.rows:
                files.setdefault(staging.table, []).append(
                    [staging.name, staging.size, staging.rows]
                )
        tables = []
        for path, some in files.items():
            _sync_folder(path)
            tables.append([path, self._next_number(path), some])
        return json.dumps({"version": 1, "tables": tables}, separators=(",", ":")).encode()

    def commit(self, txn_id: int, epoch: int, state: bytes) -> Mapping[str, str]:
        """Add the files to their tables, where that was not done yet."""
        del txn_id, epoch
        versions = {}
        for path, number, files in json.loads(state)["tables"]:
            self.config.reach.require_path(path, "path")  # the rule may be newer than the state
            version = self._table(path).append(self._task, number, files)
            self._numbered[path] = max(number, self._numbered.get(path, 0))
            versions[f"version of {path}"] = str(version)
        return versions

    def _next_number(self, path: str) -> int:
        if path not in self._numbered:
            self._numbered[path] = self._table(path).transaction(self._task)
        self._numbered[path] += 1
        return self._numbered[path]

    def _columns(self, schema: pa.Schema) -> pa.Schema:
        names = row_names(schema, reserved=self.config.reserved_columns)
        return table_schema(pa.schema([schema.field(name) for name in names]))

    def _path(self, dataset: str) -> str:
        topic = quote(dataset, safe=" +=@,").replace("..", "%2E%2E") or "rows"
        path = os.path.abspath(self.config.path.replace("${topic}", topic))
        self.config.reach.require_path(path, "path")
        return path


def _sync_folder(path: str) -> None:
    with telling(path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
