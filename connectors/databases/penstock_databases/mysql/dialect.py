"""MariaDB and MySQL, as connectors see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.names import TableId
from penstock_connector.tables.types import INSTANT
from penstock_databases import names
from penstock_databases.dialect import Connection, Login, Stamp
from penstock_databases.mysql import catalog
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.mysql.described import described
from penstock_databases.mysql.reading import read
from penstock_databases.mysql.types import GEOMETRY
from penstock_databases.url import Target

_UNORDERED: Final = ("float", "json", "bit", "vector", *GEOMETRY)
"""Types whose values are not compared with a value as they are ordered: a float with a text of it,
for one."""


class MysqlDialect:
    """See `dialect.Dialect`."""

    name = "mysql"
    naming = names.MYSQL

    def connect(self, target: Target, login: Login) -> MysqlConnection:
        """Open a session."""
        return MysqlConnection(target, login)

    def tables(
        self, connection: Connection, kinds: Sequence[str], *, everywhere: bool = False
    ) -> list[TableId]:
        """Return the tables of the database, or of all databases."""
        assert isinstance(connection, MysqlConnection)  # noqa: S101 - we opened it
        return catalog.tables(connection, kinds, "" if everywhere else connection.target.database)

    def shape(self, connection: Connection, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return catalog.shape(connection, table)

    def read(
        self, connection: Connection, sql: str, values: Sequence[Any], columns: Sequence[Column]
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query."""
        assert isinstance(connection, MysqlConnection)  # noqa: S101 - we opened it
        return read(connection, sql, values, columns)

    def limited(self, limit: int) -> str:
        """Return what ends a SELECT of at most so many rows."""
        return f" LIMIT {limit}"

    def selected(self, column: Column) -> str:
        """Return how a column is written in a SELECT.

        The text of a FLOAT has six digits; as a DOUBLE it has all. Times 1, not plus 0: -0 stays.
        """
        name = self.naming.quoted(column.name)
        base = column.native.split("(")[0].split(" ")[0]
        if base == "float":
            return f"({name} * 1E0)"
        if base == "bit":
            return f"({name} + 0)"
        return f"ST_AsWKB({name})" if base in GEOMETRY else name

    def described(self, connection: Connection, query: str) -> tuple[Column, ...]:
        """Return the columns of a query."""
        assert isinstance(connection, MysqlConnection)  # noqa: S101 - we opened it
        return described(connection, query)

    def ordered(self, column: Column) -> str:
        """Return how rows are ordered by a column. An ENUM has the order of its list, but is
        compared as a text.
        """
        name = self.naming.quoted(column.name)
        if column.native.startswith(("enum", "set")):
            return f"CAST({name} AS CHAR)"
        return "" if column.native.startswith(_UNORDERED) else name

    def stamp(self, connection: Connection, source: str, columns: Sequence[Column]) -> Stamp | None:
        """Return the time of rows."""
        listed = ", ".join(self.naming.quoted(column.name) for column in columns)
        instant = all(column.field.type == INSTANT for column in columns)
        return Stamp(f"COALESCE({listed})" if len(columns) > 1 else listed, instant=instant)

    def now(self, connection: Connection) -> datetime:
        """Return the server's time in UTC."""
        return _time(connection.execute("SELECT UTC_TIMESTAMP(6)")[0][0])

    def offset(self, connection: Connection) -> timedelta:
        """Return what the server's own wall clock shows beyond UTC; the session's is UTC."""
        ((here, utc),) = connection.execute(
            "SELECT CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', @@GLOBAL.time_zone), UTC_TIMESTAMP()"
        )
        return _time(here) - _time(utc) if here is not None else timedelta()


def _time(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
