"""Rows of tables, piece by piece, each with the transactions that it saw.

A piece is read in a transaction of its own (REPEATABLE READ), locked against changes of the table's
shape only: writers are never in the way. The lock comes before the snapshot is taken, because a
table that is rewritten in between would look empty. A table without a key is read in one go, in one
transaction, still in bounded pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
import pyarrow as pa

from penstock_connector import Op
from penstock_databases.names import POSTGRESQL
from penstock_databases.postgres_cdc.copying import CopyOut, parsed
from penstock_databases.postgres_cdc.offsets import lsn_of
from penstock_databases.postgres_cdc.publication import Published
from penstock_databases.postgres_cdc.rows import OP, STAMP, RowShape
from penstock_databases.postgres_cdc.shapes import Shapes
from penstock_databases.postgres_cdc.visibility import Seen
from penstock_databases.postgresql.connection import PostgresqlConnection, telling
from penstock_databases.postgresql.values import typed

_MOMENT: Final = (
    "SELECT pg_catalog.pg_current_snapshot()::text, "
    "pg_catalog.pg_current_wal_insert_lsn()::text, "
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
)
_MOMENT_BEFORE_13: Final = _MOMENT.replace("pg_current_snapshot", "txid_current_snapshot")
_PAGE: Final = 8192
_PAGE_HEAD: Final = 40


@dataclass(frozen=True, slots=True)
class Moment:
    """When a piece was read.

    Attributes:
        seen: The transactions that it saw.
        until: Place in the log behind all of them.
        stamp: The server's clock, microseconds since 1970.
    """

    seen: Seen
    until: int
    stamp: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that were read.

    Attributes:
        shape: What they look like.
        rows: The rows.
        moment: When they were read.
        last: Key of the last row; None without rows or key.
        complete: The table has no rows behind them.
    """

    shape: RowShape
    rows: pa.RecordBatch
    moment: Moment
    last: tuple[str, ...] | None
    complete: bool


def moment(connection: PostgresqlConnection) -> Moment:
    """Return what the connection's transaction sees; outside of one, what is seen now."""
    version = connection.driver.info.server_version
    ((seen, until, stamp),) = connection.execute(
        _MOMENT if version >= 130_000 else _MOMENT_BEFORE_13
    )
    return Moment(Seen.of(seen), _record_end(lsn_of(until)), int(stamp))


def _record_end(lsn: int) -> int:
    """Return where the last record ends, of where the next one begins: between them there may be
    the head of a page, and the log does not get past it while nobody writes.
    """
    into = lsn % _PAGE
    return lsn - into if into <= _PAGE_HEAD else lsn


class TableReader:
    """Reads one table that has a key, a piece in a transaction."""

    def __init__(self, connection: PostgresqlConnection, shapes: Shapes, piece_rows: int) -> None:
        self._connection = connection
        self._shapes = shapes
        self._most = piece_rows

    def begin(self, table: Published) -> tuple[RowShape, Moment] | None:
        """Begin a transaction that sees the table; None when the table is gone."""
        connection = self._connection
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        only = "" if table.parted else "ONLY "
        name = table.table.sql(POSTGRESQL)
        connection.execute("SET LOCAL row_security TO off")  # rows are never hidden without a word
        connection.execute(f"LOCK TABLE {only}{name} IN ACCESS SHARE MODE")
        now = moment(connection)
        shape = self._shapes.of_table(connection, table)
        return None if shape is None else (shape, now)

    def piece(
        self, table: Published, shape: RowShape, now: Moment, last: tuple[str, ...] | None
    ) -> Piece:
        """Read the rows behind a key, in the transaction that was begun."""
        with telling(self._connection.target):
            copy = CopyOut(self._connection, self._statement(table, shape, last))
            data, count = copy.take(self._most + 1)  # one more: to its end
            complete = copy.ended and count < self._most
            copy.close()
        columns = parsed(data, shape)
        rows = piece_rows(columns, shape, now)
        key = None
        if count:
            key = tuple(str(columns[at][count - 1]) for at in shape.key_at)
        return Piece(shape, rows, now, key, complete)

    def end(self) -> None:
        """End the transaction."""
        self._connection.rollback()

    def _statement(self, table: Published, shape: RowShape, last: tuple[str, ...] | None) -> str:
        """Return the statement for rows behind a key. COPY has no parameters: the driver writes the
        key as literals, which the database turns into the types of its columns.
        """
        key = ", ".join(f"t.{POSTGRESQL.quoted(name)}" for name in shape.key)
        conditions = [f"({_percent(table.rows)})"] if table.rows else []
        if last is not None:
            conditions.append(f"({key}) > ({', '.join(['%s'] * len(last))})")
        sql = f"{select_rows(table, shape)}{_where(conditions)} ORDER BY {key} LIMIT {self._most:d}"
        cursor = psycopg.ClientCursor(self._connection.driver)
        return f"COPY ({cursor.mogrify(sql, last or ())}) TO STDOUT (FORMAT csv)"


class WholeReader:
    """Reads one table that has no key, in one transaction on a connection of its own."""

    def __init__(self, connection: PostgresqlConnection, shapes: Shapes, piece_rows: int) -> None:
        self.connection = connection
        self._begun = TableReader(connection, shapes, piece_rows)
        self._most = piece_rows
        self._copy: CopyOut | None = None

    def begin(self, table: Published) -> tuple[RowShape, Moment] | None:
        """Begin; None when the table is gone."""
        begun = self._begun.begin(table)
        if begun is not None:
            with telling(self.connection.target):
                self._copy = CopyOut(self.connection, whole_statement(table, begun[0]))
        return begun

    def piece(self, shape: RowShape, now: Moment) -> Piece:
        """Read the next rows."""
        assert self._copy is not None  # noqa: S101 - `begin` made it
        with telling(self.connection.target):
            data, _ = self._copy.take(self._most)
        rows = piece_rows(parsed(data, shape), shape, now)
        return Piece(shape, rows, now, None, self._copy.ended)

    def close(self) -> None:
        """End it; it may be in the middle."""
        self.connection.close()


def select_rows(table: Published, shape: RowShape) -> str:
    """Return the head of a SELECT of a table's rows."""
    columns = ", ".join(f"t.{POSTGRESQL.quoted(field.name)}" for field in shape.fields)
    only = "" if table.parted else "ONLY "
    return f"SELECT {columns} FROM {only}{table.table.sql(POSTGRESQL)} t"  # noqa: S608 - quoted names


def whole_statement(table: Published, shape: RowShape) -> str:
    """Return the statement that reads a whole table."""
    conditions = [f"({_percent(table.rows)})"] if table.rows else []
    sql = (select_rows(table, shape) + _where(conditions)).replace("%%", "%")
    return f"COPY ({sql}) TO STDOUT (FORMAT csv)"


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _percent(condition: str) -> str:
    return condition.replace("%", "%%")


def piece_rows(columns: Sequence[pa.Array], shape: RowShape, now: Moment) -> pa.RecordBatch:
    """Return texts as rows that were read."""
    count = len(columns[0]) if columns else 0
    arrays = [
        typed(texts, field, shape.dataset)
        for texts, field in zip(columns, shape.fields, strict=True)
    ]
    ops = pa.array([int(Op.SNAPSHOT)], OP.type)
    stamps = pa.array([now.stamp], STAMP.type)
    zeros = pa.array([0] * count, pa.int32())
    return shape.batch(arrays, ops.take(zeros), stamps.take(zeros))
