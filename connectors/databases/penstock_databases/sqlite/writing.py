"""Rows into an SQLite file: prepared statements, run for many rows at once."""

# Names in SQL are quoted by `Naming`, values are parameters or the wire's own text.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.evolution import NewColumn
from penstock_connector.tables.fitting import Limit
from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection, Login
from penstock_databases.failing import BrokenRule
from penstock_databases.names import SQLITE
from penstock_databases.sqlite import catalog, ddl
from penstock_databases.sqlite.connection import SqliteConnection, telling
from penstock_databases.url import Target
from penstock_databases.writing import Layout, Session, Text

_LEDGER = (
    "CREATE TABLE IF NOT EXISTS {table} (task_key TEXT NOT NULL PRIMARY KEY, "
    "task_id TEXT NOT NULL, epoch BIGINT NOT NULL, txn_id BIGINT, txn_epoch BIGINT, token BLOB, "
    "updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP)"
)
_UNIQUE = (
    "SELECT l.name, i.name FROM pragma_index_list(%s) l, pragma_index_info(l.name) i "
    'WHERE l."unique" AND NOT l.partial ORDER BY l.seq'
)


class SqliteWriter:
    """See `writing.Writer`."""

    name = "sqlite"
    naming = SQLITE
    locking = ""  # a transaction has the whole file

    def connect(self, target: Target, login: Login) -> Connection:
        """Open the file."""
        return SqliteConnection(target, login)

    def session(self, connection: Connection) -> Session:
        """Return what writes over a connection."""
        assert isinstance(connection, SqliteConnection)  # noqa: S101 - `connect` made it
        return SqliteSession(connection)

    def table(self, parts: Sequence[str], target: Target) -> TableId:
        """Return the table; a file has no schemas, so that dots are part of the name."""
        return TableId(".".join(parts))

    def shape(self, connection: Connection, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return catalog.shape(connection, table)

    def kind(self, connection: Connection, table: TableId) -> str:
        """Return whether it is a table or a view."""
        rows = connection.execute("SELECT type FROM sqlite_schema WHERE name = %s", (table.name,))
        return str(rows[0][0]).upper() if rows else "TABLE"

    def direct(self, connection: Connection, table: TableId) -> bool:
        """It is."""
        return True

    def transactional(self, connection: Connection, table: TableId) -> bool:
        """Everything is."""
        return True

    def unique_keys(self, connection: Connection, table: TableId) -> list[frozenset[str]]:
        """Return the columns of the primary key, and of each unique index."""
        found: dict[str, set[str]] = {}
        for index, column in connection.execute(_UNIQUE, (table.name,)):
            found.setdefault(index, set()).add(column)
        shape = self.shape(connection, table)
        primary = [frozenset(shape.key)] if shape and shape.key else []
        return [*primary, *(frozenset(names) for names in found.values())]

    def create(self, table: TableId, columns: Sequence[NewColumn]) -> str:
        """Return the statement that makes a table."""
        return ddl.create(table, columns)

    def add(self, table: TableId, columns: Sequence[NewColumn]) -> list[str]:
        """Return the statements that add columns."""
        return ddl.add(table, columns)

    def retype(self, table: TableId, field: pa.Field) -> str:
        """SQLite has no statement that changes the type of a column."""
        return ""

    def limit(self, column: Column) -> Limit:
        """Return which values a column can hold."""
        return ddl.limit(column)

    def rule_columns(
        self, connection: Connection, table: TableId, rule: BrokenRule
    ) -> tuple[str, ...]:
        """None: its errors name the columns."""
        return ()

    def encode(self, columns: Sequence[Column], values: Sequence[pa.Array]) -> Text:
        """Return rows as an Arrow stream of what SQLite stores."""
        stored = [_stored(array) for array in values]
        batch = pa.RecordBatch.from_arrays(stored, [column.name for column in columns])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return memoryview(sink.getvalue())

    def evict(self, connection: Connection, task_key: str) -> None:
        """There is nobody to evict: who writes has the file."""

    def ledger(self, connection: Connection, name: str) -> tuple[TableId, str]:
        """Return the ledger's table, and the statement that makes it."""
        table = TableId(name)
        return table, _LEDGER.format(table=table.sql(SQLITE))


def _stored(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_boolean(kind):
        return values.cast(pa.int8())
    if pa.types.is_timestamp(kind):
        text = values.view(pa.timestamp(kind.unit)).cast(pa.string())
        if not kind.tz:
            return text
        return pa.compute.binary_join_element_wise(text, "+00:00", "")
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or pa.types.is_uint64(kind):
        return values.cast(pa.string())
    return values


class SqliteSession:
    """See `writing.Session`."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    def begin(self) -> None:
        """Nothing is kept over transactions."""

    def undone(self) -> None:
        """Nothing is kept over statements."""

    def finish(self) -> None:
        """Deferred foreign keys speak at COMMIT, and leave the transaction open."""

    def write(self, verb: Verb, layout: Layout, texts: Sequence[Text]) -> None:
        """Write rows."""
        if verb is Verb.TRUNCATE:
            self._connection.execute(f"DELETE FROM {layout.table.sql(SQLITE)}")
            return
        order = [column.name for column in layout.columns]
        if verb is Verb.UPDATE:
            order = [*layout.others, *layout.key]
            if not layout.others:
                return
        statement = _statement(verb, layout).replace("%%", "%")
        with telling(layout.table):
            self._connection.driver.executemany(statement, _rows(texts, order))


def _statement(verb: Verb, layout: Layout) -> str:
    table = layout.table.sql(SQLITE)
    names = [column.name for column in layout.columns]
    found = " AND ".join(f"{SQLITE.quoted(name)} = ?" for name in layout.key)
    if verb is Verb.DELETE:
        return f"DELETE FROM {table} WHERE {found}"
    if verb is Verb.UPDATE:
        sets = ", ".join(f"{SQLITE.quoted(name)} = ?" for name in layout.others)
        return f"UPDATE {table} SET {sets} WHERE {found}"
    insert = f"INSERT INTO {table} ({_list(names)}) VALUES ({', '.join('?' * len(names))})"
    if verb is Verb.INSERT:
        return insert
    sets = ", ".join(f"{q} = excluded.{q}" for q in map(SQLITE.quoted, layout.others))
    then = f"UPDATE SET {sets}" if sets else "NOTHING"
    return f"{insert} ON CONFLICT ({_list(layout.key)}) DO {then}"


def _rows(texts: Iterable[Text], order: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for text in texts:
        with pa.ipc.open_stream(pa.py_buffer(text)) as stream:
            for batch in stream:
                yield from zip(*(batch.column(name).to_pylist() for name in order), strict=True)


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(SQLITE.quoted, names))
