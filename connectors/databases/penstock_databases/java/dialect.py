"""Any database with a JDBC driver, as connectors see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from penstock_connector import ConnectorError
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.names import TableId
from penstock_connector.tables.types import INSTANT
from penstock_databases.dialect import Connection, Login, Stamp
from penstock_databases.failing import sql_error
from penstock_databases.java import catalog
from penstock_databases.java.connection import JavaConnection
from penstock_databases.java.reading import read
from penstock_databases.java.types import has_order
from penstock_databases.names import JAVA
from penstock_databases.url import Target

_NOW: Final = (
    "SELECT CURRENT_TIMESTAMP",
    "VALUES CURRENT_TIMESTAMP",
    "SELECT CURRENT_TIMESTAMP FROM DUAL",
    "SELECT CURRENT_TIMESTAMP FROM SYSIBM.SYSDUMMY1",
    "SELECT CURRENT_TIMESTAMP FROM RDB$DATABASE",
)
"""How kinds of databases are asked for the time; the first that is understood is kept."""

_ZONES: Final = timedelta(minutes=15)
"""Zones differ by multiples of this: the rest of a difference between two clocks is their own."""


class JavaDialect:
    """See `dialect.Dialect`."""

    name = "java"
    naming = JAVA

    def connect(self, target: Target, login: Login) -> JavaConnection:
        """Open a session."""
        return JavaConnection(target, login)

    def tables(
        self, connection: Connection, kinds: Sequence[str], *, everywhere: bool = False
    ) -> list[TableId]:
        """Return the tables of all schemas."""
        return catalog.tables(_ours(connection), kinds)

    def shape(self, connection: Connection, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return catalog.shape(_ours(connection), table)

    def read(
        self, connection: Connection, sql: str, values: Sequence[Any], columns: Sequence[Column]
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query."""
        session = _ours(connection)
        with session.opened(sql, values) as result:
            yield from read(session, result, [column.field for column in columns])

    def limited(self, limit: int) -> str:
        """Return a mark of JDBC's: the driver, not the statement, is told how many rows."""
        return f" {{limit {limit}}}"

    def selected(self, column: Column) -> str:
        """Return how a column is written in a SELECT."""
        return self.naming.quoted(column.name)

    def described(self, connection: Connection, query: str) -> tuple[Column, ...]:
        """Return the columns of a query."""
        return catalog.described(_ours(connection), query)

    def ordered(self, column: Column) -> str:
        """Return how rows are ordered by a column."""
        fits = has_order(column.field.type, column.native)
        return self.naming.quoted(column.name) if fits else ""

    def stamp(self, connection: Connection, source: str, columns: Sequence[Column]) -> Stamp | None:
        """Return the time of rows."""
        quoted = [self.naming.quoted(column.name) for column in columns]
        sql = f"COALESCE({', '.join(quoted)})" if len(quoted) > 1 else quoted[0]
        _ours(connection).compared.update(column.name for column in columns)
        instant = columns[0].field.type == INSTANT
        return Stamp(sql, "instant" if instant else "wall", instant)

    def now(self, connection: Connection) -> datetime:
        """Return the server's time in UTC: it tells its wall's, and our clock tells the zone."""
        wall = _wall(_ours(connection))
        return wall - _zone(wall)

    def offset(self, connection: Connection) -> timedelta:
        """Return what the server's wall clock shows beyond UTC."""
        return _zone(_wall(_ours(connection)))


def _wall(connection: JavaConnection) -> datetime:
    for sql in (connection.now_sql,) if connection.now_sql else _NOW:
        try:
            ((at,),) = connection.execute(sql)
        except ConnectorError as error:
            if error.code not in {"sql.failed", "sql.no_table", "sql.no_column"}:
                raise
            continue
        connection.now_sql = sql
        told: datetime = at
        return told.astimezone(UTC).replace(tzinfo=None) if told.tzinfo else told
    raise sql_error("failed", connection.target, "it does not tell the time by CURRENT_TIMESTAMP")


def _zone(wall: datetime) -> timedelta:
    apart = wall - datetime.now(UTC).replace(tzinfo=None)
    return round(apart / _ZONES) * _ZONES


def _ours(connection: Connection) -> JavaConnection:
    assert isinstance(connection, JavaConnection)  # noqa: S101 - we opened it
    return connection
