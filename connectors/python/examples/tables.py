"""A sink of tables, exactly once: what a database adds to the kit for table sinks."""

# Names in statements are quoted by `Naming`, values are parameters.
# ruff: noqa: S608

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from penstock_connector import Staging, serve
from penstock_connector.staging import Spill
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.config import TableKeys
from penstock_connector.tables.evolution import NewColumn, create_table
from penstock_connector.tables.fitting import Limit
from penstock_connector.tables.ledger import LastTxn, TaskLedger
from penstock_connector.tables.mapping import ColumnMapping
from penstock_connector.tables.names import Naming, TableId, table_parts
from penstock_connector.tables.routing import Route
from penstock_connector.tables.sink import RowStaging, TableSink
from penstock_connector.tables.writes import Write, plan_writes

NAMING = Naming("SQLite", '"')
NATIVE = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "TEXT": pa.string()}


@dataclass(frozen=True)
class TablesConfig(TableKeys):
    """Keys of the sink: those that every table sink has. `connection.url` is a file."""

    code_prefix: ClassVar[str] = "tables"


class Statements:
    """Statements that make tables and columns."""

    def create(self, table: TableId, columns: Sequence[NewColumn]) -> str:
        """Return the statement that makes a table."""
        return create_table(table, NAMING, columns, column_of)

    def add(self, table: TableId, columns: Sequence[NewColumn]) -> list[str]:
        """Return the statements that add columns."""
        return [f"ALTER TABLE {table.sql(NAMING)} ADD COLUMN {column_of(one)}" for one in columns]


def column_of(column: NewColumn) -> str:
    """Return a column as it stands in a statement."""
    kind = column.field.type
    whole, real = pa.types.is_integer(kind), pa.types.is_floating(kind)
    native = "BIGINT" if whole else "DOUBLE" if real else "TEXT"
    return f"{NAMING.quoted(column.field.name)} {native}{' NOT NULL' if column.key else ''}"


class Ledger(TaskLedger):
    """The row of a task in the table `penstock_commits`."""

    def __init__(self, session: sqlite3.Connection, task_id: str, epoch: int) -> None:
        super().__init__(task_id, epoch, "tables.fenced")
        self.session = session

    def claim(self) -> None:
        """Raise the epoch of the task to ours; refuse when a newer owner was there."""
        self.session.execute(
            "CREATE TABLE IF NOT EXISTS penstock_commits "
            "(task TEXT PRIMARY KEY, epoch BIGINT, txn BIGINT, token BLOB)"
        )
        last = self.last()
        self.refuse_newer(last.epoch if last else None)
        self.store(last.txn_id if last else 0, last.token if last else b"")

    def last(self) -> LastTxn | None:
        """Return the last transaction of the task."""
        found = self.session.execute(
            "SELECT epoch, txn, token FROM penstock_commits WHERE task = ?", (self.key,)
        ).fetchone()
        return LastTxn(*found) if found else None

    def store(self, txn_id: int, token: bytes) -> None:
        """Store how far the task is, in the transaction that its rows are in."""
        last = self.last()
        self.refuse_newer(last.epoch if last else None)
        self.session.execute(
            "REPLACE INTO penstock_commits VALUES (?, ?, ?, ?)",
            (self.key, self._epoch, txn_id, token),
        )


class TablesSink(TableSink[TablesConfig, Route]):
    """Tables of a file of SQLite."""

    name = "tables"
    ddl = Statements()

    def connect(self, task_id: str, epoch: int) -> None:
        """Open the file, and become the owner of the task."""
        self.session = sqlite3.connect(
            self.config.connection_url, isolation_level=None, check_same_thread=False
        )
        self.spill = Spill(64 << 20, "tables.staging_full", "tables.staging_failed")
        self.ledger = Ledger(self.session, task_id, epoch)
        self.ledger.claim()

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction in the file."""
        last = self.ledger.last()
        return (last.txn_id, last.epoch, last.token) if last and last.txn_id else None

    def table(self, dataset: str) -> TableId:
        """Return the table of a dataset: a file has no schemas."""
        return TableId(".".join(table_parts(self.config.table_name_format, dataset, NAMING)))

    def shape(self, table: TableId) -> Shape | None:
        """Return a table's columns."""
        rows = self.session.execute(
            'SELECT name, type, "notnull" FROM pragma_table_info(?)', (table.name,)
        )
        columns = tuple(
            Column(name, native, pa.field(name, NATIVE[native]), nullable=not required)
            for name, native, required in rows
        )
        return Shape(table, columns) if columns else None

    def execute_ddl(self, statement: str) -> None:
        """Run a statement of `ddl`."""
        self.session.execute(statement.replace("%%", "%"))

    def route(self, dataset: str, shape: Shape, mapping: ColumnMapping) -> Route:
        """Return the way of rows into a table."""
        return Route(self.config, dataset, shape, mapping, limit)

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for rows that do not count yet."""
        return RowStaging(self.routed(dataset, schema), self.spill)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Write the rows and how far the task is, in one transaction."""
        ours = [one for one in staged if isinstance(one, RowStaging)]
        self.session.execute("BEGIN IMMEDIATE")
        self.ledger.store(txn_id, token)
        for write in plan_writes([(one.route, one.parts()) for one in ours]):
            columns = [column.to_pylist() for column in write.rows.columns]
            self.session.executemany(
                statement(write), zip(*columns, strict=True) if columns else [()]
            )
        for one in ours:
            one.discard()
        return b""

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Make it visible. A crash before this undoes it: the host calls `committed`."""
        if self.session.in_transaction:
            self.session.execute("COMMIT")

    def close(self) -> None:
        """End the session."""
        self.session.close()


def limit(column: Column) -> Limit:
    """Return what a column can hold."""
    return Limit(column.native, column.field.type, column.nullable)


def statement(write: Write) -> str:
    """Return the statement of a write, for each of its rows."""
    table = write.route.table.sql(NAMING)
    names = [NAMING.quoted(routed.column.name) for routed in write.columns]
    keys = [NAMING.quoted(routed.column.name) for routed in write.route.key]
    insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    match write.verb:
        case Verb.TRUNCATE:
            text = f"DELETE FROM {table}"
        case Verb.DELETE:
            text = f"DELETE FROM {table} WHERE {' AND '.join(f'{key} = ?' for key in keys)}"
        case Verb.UPSERT:
            sets = ", ".join(f"{name} = excluded.{name}" for name in names)
            text = f"{insert} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {sets}"
        case _:
            text = insert
    return text.replace("%%", "%")


if __name__ == "__main__":
    serve(TablesSink)
