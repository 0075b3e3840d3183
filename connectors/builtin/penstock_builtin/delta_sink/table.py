"""The Delta table itself: everything that needs the library.

The library takes longer to load than all else together; only a task of this sink imports it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from pyarrow.parquet import ParquetFile

from penstock_builtin.delta_sink.merging import GONE, merge_of
from penstock_builtin.delta_sink.types import new_columns
from penstock_builtin.opening import telling
from penstock_connector import RetriableError

File = tuple[str, int, int]
"""A staged file: its name, its bytes, its rows."""

Merged = tuple[Sequence[str], Sequence[File]]
"""Columns of a key, and the files whose rows are merged by it, in their order."""

_PACKINGS: Final = {
    "none": "UNCOMPRESSED", "snappy": "SNAPPY", "zstd": "ZSTD", "gzip": "GZIP", "lz4": "LZ4",
}  # fmt: skip


class Table:
    """A table at a path, opened anew for every call: others write to it, too."""

    def __init__(self, path: str) -> None:
        self.path = path

    def evolve(self, wanted: pa.Schema) -> list[str]:
        """Make the table, or add the columns that it lacks; returns what was done."""
        with _telling(self.path):
            try:
                table = DeltaTable(self.path)
            except TableNotFoundError:
                Path(self.path).mkdir(parents=True, exist_ok=True)
                DeltaTable.create(self.path, schema=wanted, mode="ignore")
                return [f"created table {self.path}"]
            missing = new_columns(_arrow(table), wanted, self.path)
            if missing.names:
                table.alter.add_columns(list(Schema.from_arrow(missing).fields))
            return [f"added column {name} to {self.path}" for name in missing.names]

    def schema(self) -> pa.Schema:
        """Return the columns."""
        with _telling(self.path):
            return _arrow(DeltaTable(self.path))

    def transaction(self, app: str) -> int:
        """Return the last transaction of an application in the log; 0 when there is none."""
        with _telling(self.path):
            return DeltaTable(self.path).transaction_version(app) or 0

    def merge(self, app: str, transaction: int, merges: Sequence[Merged], packing: str) -> int:
        """Merge files by their keys, unless the transaction is there; returns the version.

        A transaction is one entry of the log. Only where its rows have several keys it is one for
        each, and the last one has the transaction: merging again what was merged changes nothing.
        """
        with _telling(self.path):
            table = DeltaTable(self.path)
            if (table.transaction_version(app) or 0) < transaction:
                *others, last = merges
                for some in others:
                    self._merge(table, some, packing, None)
                done = CommitProperties(app_transactions=[Transaction(app, transaction)])
                self._merge(table, last, packing, done)
                if (DeltaTable(self.path).transaction_version(app) or 0) < transaction:
                    # a merge that changed nothing is no entry
                    table.create_write_transaction(
                        [], mode="append", schema=table.schema(), commit_properties=done
                    )
                table.update_incremental()
            return int(table.version())

    def _merge(
        self, table: DeltaTable, some: Merged, packing: str, done: CommitProperties | None
    ) -> None:
        keys, files = some
        found = merge_of([ParquetFile(Path(self.path, name)).read() for name, _, _ in files], keys)
        values = {_quoted(name): f"s.{_quoted(name)}" for name in found.columns}
        updates = values | {
            _quoted(name): f"CASE WHEN s.{_quoted(mark)} THEN s.{_quoted(name)} "
            f"ELSE t.{_quoted(name)} END"
            for name, mark in found.maybe.items()
        }
        gone = f"s.{_quoted(GONE)}"
        merger = table.merge(
            found.rows,
            " AND ".join(f"t.{_quoted(key)} = s.{_quoted(key)}" for key in keys),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # all rows are here: files that have none of them are passed over
            writer_properties=WriterProperties(compression=_PACKINGS[packing]),
            commit_properties=done,
        )
        merger = merger.when_matched_delete(gone)
        merger = merger.when_matched_update(updates, f"NOT {gone}")
        merger = merger.when_not_matched_insert(values, f"NOT {gone}")
        if found.empties:
            merger = merger.when_not_matched_by_source_delete()
        merger.execute()

    def append(self, app: str, transaction: int, files: Sequence[File]) -> int:
        """Add files in one entry of the log, unless the transaction is there; returns the version.

        Two writers cannot both add it: the log refuses a second entry of the same transaction.
        """
        with _telling(self.path):
            table = DeltaTable(self.path)
            if (table.transaction_version(app) or 0) < transaction:
                table.create_write_transaction(
                    [_add_action(file) for file in files],
                    mode="append",
                    schema=table.schema(),
                    commit_properties=CommitProperties(
                        app_transactions=[Transaction(app, transaction)]
                    ),
                )
                table.update_incremental()
            return int(table.version())


def _arrow(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _add_action(file: File) -> AddAction:
    name, size, rows = file
    return AddAction(
        path=quote(name),  # a path in the log is a URL
        size=size,
        partition_values={},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=json.dumps({"numRecords": rows}),
    )


@contextmanager
def _telling(path: str) -> Iterator[None]:
    """Translate what the library says. A conflict with another writer is tried again."""
    try:
        with telling(path):
            yield
    except DeltaError as error:
        raise RetriableError(
            "delta.failed",
            f"{path}: {error}",
            fix="It is tried again; when it stays, look at the table with another tool.",
        ) from error
