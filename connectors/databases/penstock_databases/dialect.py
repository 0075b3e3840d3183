"""What connectors need of a kind of database: the port that `mysql`, `postgresql`, `sqlite` fill.

A `Dialect` is a module-like object without state. A `Connection` is one session with the server,
used by one thread at a time; statements of a connection are in autocommit until `begin`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import pyarrow as pa

from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.names import Naming, TableId
from penstock_databases.url import Target


@dataclass(frozen=True, slots=True)
class Login:
    """Who connects. The password is never shown.

    Attributes:
        user: Name; empty where the database wants none.
        password: The password.
    """

    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Login({self.user!r}, ***)"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of a row, as statements compare it.

    Attributes:
        sql: The expression.
        form: How a time is written as a value: `text` (microseconds), `milli` (text of
            milliseconds), `ms` or `s` (a number since 1970), `wall` or `instant` (a datetime
            without a zone, with one).
        instant: It is a point in time; else it shows on some wall.
    """

    sql: str
    form: str = "text"
    instant: bool = False


class Connection(Protocol):
    """One session. Errors leave it as errors for people (`sql.…`), without values of rows.

    Statements are format text, with values or without: `%s` is a value, `%%` a percent sign.
    """

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement with `%s` places for values; returns its rows, all of them: few."""

    def changed(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; returns how many rows it changed."""

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self) -> None:
        """Make it durable."""

    def rollback(self) -> None:
        """Undo it; does nothing when there is none, and when the connection is lost."""

    def close(self) -> None:
        """End the session. May come at any time, more than once."""


class Dialect(Protocol):
    """A kind of database."""

    name: str
    naming: Naming

    def connect(self, target: Target, login: Login) -> Connection:
        """Open a session; raises `sql.unreachable`, `sql.denied`, `sql.no_database`."""

    def tables(
        self, connection: Connection, kinds: Sequence[str], *, everywhere: bool = False
    ) -> list[TableId]:
        """Return the tables of the database, or of all databases that the session can see.
        `kinds` are those of JDBC: `TABLE`, `VIEW`.
        """

    def shape(self, connection: Connection, table: TableId) -> Shape | None:
        """Return a table's columns; None when there is no such table."""

    def read(
        self, connection: Connection, sql: str, values: Sequence[Any], columns: Sequence[Column]
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query whose columns are these, made by `selected`."""

    def limited(self, limit: int) -> str:
        """Return what ends a SELECT of at most so many rows."""

    def selected(self, column: Column) -> str:
        """Return how a column is written in a SELECT, so that `read` gets its values exactly."""

    def described(self, connection: Connection, query: str) -> tuple[Column, ...]:
        """Return the columns of a query that a person wrote; it is no format text."""

    def ordered(self, column: Column) -> str:
        """Return how a column is written where rows are ordered and compared by it; empty when its
        values have no order that a session keeps.
        """

    def stamp(self, connection: Connection, source: str, columns: Sequence[Column]) -> Stamp | None:
        """Return the time of rows: the first of these columns that is not null. None while there
        are no rows to tell how it is written. `source` is what stands after FROM.
        """

    def now(self, connection: Connection) -> datetime:
        """Return the server's time, in UTC, without a zone."""

    def offset(self, connection: Connection) -> timedelta:
        """Return what the server's own wall clock shows beyond UTC."""
