"""The Delta table itself: everything that needs the library.

The library takes longer to load than all else together; only a task of this sink imports it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from penstock_builtin.delta_sink.types import new_columns
from penstock_builtin.opening import telling
from penstock_connector import RetriableError

File = tuple[str, int, int]
"""A staged file: its name, its bytes, its rows."""


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
