"""PostgreSQL, as connectors see it."""

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
from penstock_databases.postgresql import catalog
from penstock_databases.postgresql.connection import PostgresqlConnection
from penstock_databases.postgresql.described import described
from penstock_databases.postgresql.reading import read
from penstock_databases.url import Target
from penstock_values.semantic_types import semantic_type

_UNORDERED: Final = (
    "json", "xml", "point", "box", "path", "polygon", "circle", "line", "lseg", "xid",
    "refcursor", "aclitem", "real", "double precision", "jsonpath", "pg_snapshot",
)  # fmt: skip
"""Types that have no order, or whose text is not the value (-0 of floats)."""


class PostgresqlDialect:
    """See `dialect.Dialect`."""

    name = "postgresql"
    naming = names.POSTGRESQL

    def connect(self, target: Target, login: Login) -> PostgresqlConnection:
        """Open a session."""
        return PostgresqlConnection(target, login)

    def tables(
        self, connection: Connection, kinds: Sequence[str], *, everywhere: bool = False
    ) -> list[TableId]:
        """Return the tables of the database; a session sees only one."""
        return catalog.tables(connection, kinds)

    def shape(self, connection: Connection, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return catalog.shape(connection, table, table.sql(self.naming).replace("%%", "%"))

    def read(
        self, connection: Connection, sql: str, values: Sequence[Any], columns: Sequence[Column]
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query."""
        assert isinstance(connection, PostgresqlConnection)  # noqa: S101 - we opened it
        return read(connection, sql, values, columns)

    def limited(self, limit: int) -> str:
        """Return what ends a SELECT of at most so many rows."""
        return f" LIMIT {limit}"

    def selected(self, column: Column) -> str:
        """Return how a column is written in a SELECT. The text of an array as JSON has no cases of
        its own for quotes; its items stay texts, which are exact.
        """
        name = self.naming.quoted(column.name)
        if pa.types.is_list(column.field.type):
            return f"array_to_json({name}::text[])"
        return f"ST_AsBinary({name})" if semantic_type(column.field) == "wkb" else name

    def described(self, connection: Connection, query: str) -> tuple[Column, ...]:
        """Return the columns of a query."""
        assert isinstance(connection, PostgresqlConnection)  # noqa: S101 - we opened it
        return described(connection, query)

    def ordered(self, column: Column) -> str:
        """Return how rows are ordered by a column."""
        is_list = pa.types.is_list(column.field.type)
        unordered = (
            is_list or column.native.startswith(_UNORDERED) or semantic_type(column.field) == "wkb"
        )
        return "" if unordered else self.naming.quoted(column.name)

    def stamp(self, connection: Connection, source: str, columns: Sequence[Column]) -> Stamp | None:
        """Return the time of rows."""
        listed = ", ".join(self.naming.quoted(column.name) for column in columns)
        instant = any(column.field.type == INSTANT for column in columns)
        return Stamp(f"COALESCE({listed})" if len(columns) > 1 else listed, instant=instant)

    def now(self, connection: Connection) -> datetime:
        """Return the server's time in UTC."""
        now = connection.execute("SELECT clock_timestamp() AT TIME ZONE 'UTC'")[0][0]
        assert isinstance(now, datetime)  # noqa: S101 - it is a timestamp
        return now

    def offset(self, connection: Connection) -> timedelta:
        """Return what a wall clock shows beyond UTC in sessions that set no zone of their own."""
        ((offset,),) = connection.execute(
            "SELECT extract(epoch FROM now() AT TIME ZONE reset_val "
            "- now() AT TIME ZONE 'UTC')::int FROM pg_catalog.pg_settings WHERE name = 'TimeZone'"
        )
        return timedelta(seconds=int(offset))
