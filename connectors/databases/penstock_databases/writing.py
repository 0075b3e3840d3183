"""What a sink needs of a kind of database: the port that `{dialect}/writing.py` fills.

Rows are turned into what goes over the wire by any thread, long before there is a transaction; a
`Session` then only sends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.evolution import Ddl
from penstock_connector.tables.fitting import Limit
from penstock_connector.tables.names import Naming, TableId
from penstock_databases.dialect import Connection, Login
from penstock_databases.failing import BrokenRule
from penstock_databases.url import Target

Text: TypeAlias = "bytes | memoryview"
"""Rows as one dialect's `encode` made them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where rows go.

    Attributes:
        table: The table.
        columns: Its columns that the rows have, in the order of the rows' values.
        key: Names of the columns by which a row is found; they are among the columns.
        alone: No other unique index can be in the way of an upsert.
        direct: The fastest way of inserting is open: it is a table, and all rows may be inserted.
        identity: Names of the columns that name a row to people, where there are such.
    """

    table: TableId
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    alone: bool = True
    direct: bool = True
    identity: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the columns that are not of the key and can be set."""
        return tuple(c.name for c in self.columns if c.name not in self.key)


class Session(Protocol):
    """Writes over one connection, which is thrown away when a transaction fails."""

    def begin(self) -> None:
        """Take note that a transaction began."""

    def undone(self) -> None:
        """Take note that the transaction was undone to a savepoint."""

    def finish(self) -> None:
        """Find out what would only be found at COMMIT."""

    def write(self, verb: Verb, layout: Layout, texts: Sequence[Text]) -> None:
        """Write rows. A later row of a key wins; rows for DELETE have the key's columns only.

        Raises:
            ConnectorError: `sql.constraint`, `sql.value`, …: not one row may be skipped or bent.
        """


class Writer(Ddl, Protocol):
    """A kind of database to write to. Without state; `limit` and `encode` are called from any
    thread.
    """

    name: str
    naming: Naming

    def connect(self, target: Target, login: Login) -> Connection:
        """Open a session with the server."""

    def session(self, connection: Connection) -> Session:
        """Return what writes over a connection."""

    def table(self, parts: Sequence[str], target: Target) -> TableId:
        """Return the table that a name of one or more parts means; raises `jdbc.table_name`."""

    def shape(self, connection: Connection, table: TableId) -> Shape | None:
        """Return a table's columns; None when there is no such table."""

    def kind(self, connection: Connection, table: TableId) -> str:
        """Return what it is: `TABLE`, `VIEW`, `PARTITIONED TABLE` and so on."""

    def direct(self, connection: Connection, table: TableId) -> bool:
        """Return whether the fastest way of inserting is open."""

    def transactional(self, connection: Connection, table: TableId) -> bool:
        """Return whether a rollback undoes what was written to a table."""

    def unique_keys(self, connection: Connection, table: TableId) -> list[frozenset[str]]:
        """Return the columns of each unique index, the primary key's first."""

    def retype(self, table: TableId, field: pa.Field) -> str:
        """Return the statement that makes a column take values of a field; empty: there is none."""

    def limit(self, column: Column) -> Limit:
        """Return which values a column can hold."""

    def rule_columns(
        self, connection: Connection, table: TableId, rule: BrokenRule
    ) -> tuple[str, ...]:
        """Return the columns of a rule that a row broke, where its error names none of them."""

    def encode(self, columns: Sequence[Column], values: Sequence[pa.Array]) -> Text:
        """Return rows as `Session.write` takes them. The values fit into their columns."""

    def evict(self, connection: Connection, task_key: str) -> None:
        """End the session that holds a task, and hold it; as far as the server allows that."""

    def ledger(self, connection: Connection, name: str) -> tuple[TableId, str]:
        """Return where the ledger is, and the statement that makes it."""

    locking: str
    """What makes a SELECT lock its rows: ` FOR UPDATE`, or nothing."""
