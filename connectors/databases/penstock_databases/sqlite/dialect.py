"""SQLite, as connectors see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from penstock_connector import SchemaError
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.names import TableId
from penstock_databases import names
from penstock_databases.dialect import Connection, Login, Stamp
from penstock_databases.sqlite import catalog
from penstock_databases.sqlite.connection import SqliteConnection
from penstock_databases.sqlite.reading import read
from penstock_databases.sqlite.types import row_field
from penstock_databases.url import Target

_MILLISECONDS: Final = 100_000_000_000
"""From here on a number is milliseconds since 1970, below it is seconds (of the year 5138)."""


class SqliteDialect:
    """See `dialect.Dialect`."""

    name = "sqlite"
    naming = names.SQLITE

    def connect(self, target: Target, login: Login) -> SqliteConnection:
        """Open a file."""
        return SqliteConnection(target, login)

    def tables(
        self, connection: Connection, kinds: Sequence[str], *, everywhere: bool = False
    ) -> list[TableId]:
        """Return the tables of the file."""
        return catalog.tables(connection, kinds)

    def shape(self, connection: Connection, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return catalog.shape(connection, table)

    def read(
        self, connection: Connection, sql: str, values: Sequence[Any], columns: Sequence[Column]
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query."""
        assert isinstance(connection, SqliteConnection)  # noqa: S101 - we opened it
        return read(connection, sql, values, columns)

    def limited(self, limit: int) -> str:
        """Return what ends a SELECT of at most so many rows."""
        return f" LIMIT {limit}"

    def selected(self, column: Column) -> str:
        """Return how a column is written in a SELECT."""
        return self.naming.quoted(column.name)

    def described(self, connection: Connection, query: str) -> tuple[Column, ...]:
        """Return the columns of a query. Only a view tells what their types were declared as."""
        text = query.replace("%", "%%")
        connection.execute('DROP VIEW IF EXISTS temp."penstock query"')
        made = 'CREATE TEMP VIEW "penstock query" AS'
        connection.execute(f"{made} SELECT * FROM (\n{text}\n) AS q")  # noqa: S608 - the query is the configuration, the text of who may run it
        rows = connection.execute(
            "SELECT name, lower(type) FROM pragma_table_xinfo('penstock query')"
        )
        connection.execute('DROP VIEW temp."penstock query"')
        return tuple(Column(name, native, row_field(name, native)) for name, native in rows)

    def ordered(self, column: Column) -> str:
        """Return how rows are ordered by a column. Only values that come back as they are kept."""
        kind = column.field.type
        plain = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind)
        return self.naming.quoted(column.name) if plain else ""

    def stamp(self, connection: Connection, source: str, columns: Sequence[Column]) -> Stamp | None:
        """Return the time of rows: a number since 1970, or a text, as the newest row has it."""
        quoted = [self.naming.quoted(column.name) for column in columns]
        sql = f"COALESCE({', '.join(quoted)})" if len(quoted) > 1 else quoted[0]
        tail = f"FROM {source} WHERE {sql} IS NOT NULL LIMIT 1"
        sample = connection.execute(f"SELECT {sql} {tail}")
        if not sample:
            return None
        value = sample[0][0]
        if isinstance(value, int):
            return Stamp(sql, "ms" if abs(value) >= _MILLISECONDS else "s")
        if isinstance(value, str):
            return Stamp(f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', {sql})", "milli")
        raise SchemaError(
            "jdbc.bad_timestamp",
            f"the times of {source} are neither texts nor whole numbers",
            fix="Use a `query` that converts them: datetime(x, 'julianday').",
        )

    def now(self, connection: Connection) -> datetime:
        """Return the time in UTC."""
        text = connection.execute("SELECT strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')")[0][0]
        return datetime.fromisoformat(text)

    def offset(self, connection: Connection) -> timedelta:
        """Return nothing: SQLite's times are UTC."""
        return timedelta()
