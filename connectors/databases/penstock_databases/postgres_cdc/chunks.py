"""Reads one chunk of a table: a range of keys, as some transactions left them.

A chunk is read in a transaction of its own (REPEATABLE READ), locked against changes of the table's
shape only: writers are never in the way. The lock comes before the snapshot is taken, because a
table that is rewritten in between would look empty. A table without a key is one chunk.
"""

from __future__ import annotations

import io
import select
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import pq
from pyarrow import csv

from penstock_connector import SchemaError
from penstock_databases.cdc.chunks import PIECE_BYTES, Chunk, Piece, StalledError
from penstock_databases.cdc.progress import Key, Window, Work
from penstock_databases.cdc.snapshot_statements import SnapshotStatement
from penstock_databases.failing import sql_error
from penstock_databases.names import POSTGRESQL
from penstock_databases.postgres_cdc.offsets import lsn_of
from penstock_databases.postgres_cdc.progress import Moment, Seen
from penstock_databases.postgres_cdc.publication import Published
from penstock_databases.postgres_cdc.rows import RowShape
from penstock_databases.postgres_cdc.shapes import Shapes
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

_ROW_WITHIN: Final = 600.0
"""Seconds for the next row. It bounds a server that says nothing; sorting may take long."""


class UnseenError(StalledError):
    """A transaction that the log has cannot be seen yet."""

    pause_s = 0.02
    keeps_session = True


class TableChunk(Chunk[int, Moment]):
    """A chunk of a PostgreSQL table.

    Args:
        table: The table; None: it is not published any more.
        shapes: Tells what its rows look like.
        required: Transactions that the chunk must see.

    Attributes:
        rekeyed: The table has another key than the one by which its reading began.
    """

    def __init__(
        self,
        work: Work[int],
        after: Key | None,
        size: int,
        wake: Callable[[], None],
        statement: SnapshotStatement | None = None,
        *,
        table: Published | None,
        shapes: Shapes,
        required: frozenset[int],
    ) -> None:
        super().__init__(work, after, size, wake, statement)
        self.rekeyed = False
        self._published, self._shapes, self._required = table, shapes, required

    def read(self, connection: PostgresqlConnection) -> Iterator[Piece[int, Moment]]:
        """Read it, as the transactions that it sees left it."""
        table = self._published
        found = None if table is None else self._begun(connection, table)
        if table is None or found is None:
            connection.rollback()
            self.gone = True
            return
        shape, now, stamp = found
        if not all(map(now.seen.has, self._required)):
            connection.rollback()
            raise UnseenError("cdc.snapshot_behind", f"{shape.dataset}: the log is ahead of it")
        if self.after is None:
            self.work.columns = shape.key
        elif self.work.columns != shape.key:
            # what was read by the old key cannot be told apart from the rest
            connection.rollback()
            self.gone = self.rekeyed = True
            return
        self.whole = not shape.key
        upto = self._end(connection, table, shape) if shape.key else None
        self.opened(now, upto)
        yield from self._pieces(connection, table, shape, now, stamp)
        connection.rollback()

    def _begun(
        self, connection: PostgresqlConnection, table: Published
    ) -> tuple[RowShape, Moment, int] | None:
        """Begin a transaction that sees the table; None when the table is gone."""
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SET LOCAL row_security TO off")  # rows are never hidden without a word
        try:
            connection.execute(f"LOCK TABLE {_named(table)} IN ACCESS SHARE MODE")
        except SchemaError as error:
            if error.code != "sql.no_table":
                raise
            return None
        now, stamp = moment(connection)
        shape = self._shapes.of_table(connection, table)
        return None if shape is None else (shape, now, stamp)

    def _end(
        self, connection: PostgresqlConnection, table: Published, shape: RowShape
    ) -> Key | None:
        """Return the key that the chunk ends with; None when it ends with the table."""
        found = f"{self._select(table, shape, shape.key)} LIMIT 2 OFFSET {self.size - 1:d}"
        with telling(connection.target):
            data, count = CopyOut(connection, self._copy(connection, found, self.after)).take(2)
        columns = parsed(data, len(shape.key))
        return tuple(str(column[0]) for column in columns) if count > 1 else None

    def _pieces(
        self,
        connection: PostgresqlConnection,
        table: Published,
        shape: RowShape,
        now: Moment,
        stamp: int,
    ) -> Iterator[Piece[int, Moment]]:
        sql = self._select(table, shape, [field.name for field in shape.fields], upto=self.upto)
        with telling(connection.target):
            copy = CopyOut(connection, self._copy(connection, sql, self.after, self.upto))
        after, exact, ended = self.after, not self.work.keep, False
        while not ended:
            with telling(connection.target):
                data, count = copy.take(self.size)
            ended = copy.ended
            columns = parsed(data, len(shape.fields))
            arrays = [
                typed(texts, field, shape.dataset)
                for texts, field in zip(columns, shape.fields, strict=True)
            ]
            rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(shape.fields))
            last = self.upto
            if shape.key and not ended:
                last = tuple(str(columns[at][count - 1]) for at in shape.key_at)
            window = Window(self.table, after, last, now, exact)
            yield Piece(shape, rows, window, stamp, done=ended and self.upto is None)
            after = last

    def _select(
        self, table: Published, shape: RowShape, names: Sequence[str], upto: Key | None = None
    ) -> str:
        """Return the statement for columns of the rows between the chunk's start and a key."""
        key = ", ".join(f"t.{POSTGRESQL.quoted(name)}" for name in shape.key)
        values = ", ".join(["%s"] * len(shape.key))
        conditions = [f"({table.rows.replace('%', '%%')})"] if table.rows else []
        if self.work.condition:  # the lines end comments
            conditions.append(f"(\n{self.work.condition.replace('%', '%%')}\n)")
        if self.after is not None:
            conditions.append(f"({key}) > ({values})")
        if upto is not None:
            conditions.append(f"({key}) <= ({values})")
        columns = ", ".join(f"t.{POSTGRESQL.quoted(name)}" for name in names)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = f" ORDER BY {key}" if key else ""
        source = self.statement.rows if self.statement else f"{_named(table)} t"
        return f"SELECT {columns} FROM {source}{where}{order}"  # noqa: S608 - quoted names

    def _copy(self, connection: PostgresqlConnection, sql: str, *keys: Key | None) -> str:
        """Return a query as a COPY. That has no parameters: the driver writes keys as literals,
        which the database turns into the types of their columns.
        """
        values = [value for key in keys if key is not None for value in key]
        text = psycopg.ClientCursor(connection.driver).mogrify(sql, values)
        return f"COPY ({text}) TO STDOUT (FORMAT csv)"


def _named(table: Published) -> str:
    only = "" if table.parted else "ONLY "
    return f"{only}{table.table.sql(POSTGRESQL)}"


def moment(connection: PostgresqlConnection) -> tuple[Moment, int]:
    """Return what the connection's transaction sees (outside of one, what is seen now), and the
    server's clock in microseconds since 1970.
    """
    version = connection.driver.info.server_version
    ((seen, until, stamp),) = connection.execute(
        _MOMENT if version >= 130_000 else _MOMENT_BEFORE_13
    )
    return Moment(Seen.of(seen), _record_end(lsn_of(until))), int(stamp)


def _record_end(lsn: int) -> int:
    """Return where the last record ends, of where the next one begins: between them there may be
    the head of a page, and the log does not get past it while nobody writes.
    """
    into = lsn % _PAGE
    return lsn - into if into <= _PAGE_HEAD else lsn


class CopyOut:
    """A running COPY … TO STDOUT. The server waits while nobody takes."""

    def __init__(self, connection: PostgresqlConnection, statement: str) -> None:
        self._where = connection.target
        self._server: Any = connection.driver.pgconn
        self.ended = False
        self._held: bytes | None = None
        self._server.send_query(statement.encode())
        result = self._result()
        if result.status != pq.ExecStatus.COPY_OUT:
            self._fail(result)

    def take(self, most: int) -> tuple[bytes, int]:
        """Return the next rows as CSV, and how many: most, unless they end or are large. The row
        behind them is held: so their end is known with the last of them.
        """
        parts = [] if self._held is None else [self._held]
        self._held = None
        add, get = parts.append, self._server.get_copy_data
        size = sum(map(len, parts))
        while not self.ended and self._held is None:
            length, data = get(1)
            if length == 0:
                self._wait()
            elif length < 0:
                self._finish()
            elif len(parts) >= most or size >= PIECE_BYTES:
                self._held = bytes(data)
            else:
                add(bytes(data))
                size += length
        return b"".join(parts), len(parts)

    def _finish(self) -> None:
        self.ended = True
        result = self._result()
        while self._server.get_result() is not None:
            pass
        if result.status != pq.ExecStatus.COMMAND_OK:
            self._fail(result)

    def _result(self) -> Any:
        while self._server.is_busy():
            self._wait()
        return self._server.get_result()

    def _wait(self) -> None:
        self._server.flush()
        poll = select.poll()
        poll.register(self._server.socket, select.POLLIN)
        if not poll.poll(_ROW_WITHIN * 1000):
            raise sql_error("lost", self._where, "no row came in time")
        self._server.consume_input()

    def _fail(self, result: Any) -> None:
        self.ended = True
        raise psycopg.errors.error_from_result(result)


def parsed(data: bytes, count: int) -> list[pa.Array]:
    """Return columns of CSV as texts; an empty field is null, an empty text is in quotes."""
    names = [str(at) for at in range(count)]
    if not data:
        return [pa.array([], pa.string()) for _ in names]
    table = csv.read_csv(
        io.BytesIO(data),
        csv.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [_joined(column) for column in table.columns]


def _joined(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
