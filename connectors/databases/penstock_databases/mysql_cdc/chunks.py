"""Reads one chunk of a table: a range of keys, as it was at one place in the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from penstock_connector import ConnectorError, RetriableError
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.names import TableId
from penstock_databases.cdc import snapshot
from penstock_databases.cdc.chunks import PIECE_BYTES, Chunk, Piece, StalledError
from penstock_databases.cdc.progress import Key, Window, Work
from penstock_databases.cdc.snapshot_statements import SnapshotStatement
from penstock_databases.mysql.catalog import shape
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.mysql.dialect import MysqlDialect
from penstock_databases.mysql.reading import read
from penstock_databases.mysql_cdc.position import KeyValue, Place
from penstock_databases.mysql_cdc.statements import TableName
from penstock_databases.names import MYSQL

_PATIENCE: Final = 30.0
"""Seconds in which the server must come to a snapshot that has what its log has. It is a matter of
milliseconds: between a transaction's way into the log and its end."""

_RANGES: Final = frozenset({
    "tinyint", "smallint", "mediumint", "int", "bigint", "char", "varchar", "binary", "varbinary",
    "date", "datetime", "timestamp", "uuid", "year",
})  # fmt: skip
"""Types of keys whose order in ORDER BY is that of a comparison with a value of ours."""

_EXACT: Final = frozenset({"InnoDB", "ROCKSDB"})
"""Engines whose tables are read as they were at one place in the log."""


class TableChunk(Chunk[TableName, Place]):
    """A chunk of a MariaDB or MySQL table.

    Args:
        floor: The place in the log that it must have.
        exact: Whether the server tells the exact place of a snapshot.
    """

    def __init__(
        self,
        work: Work[TableName],
        after: Key | None,
        size: int,
        wake: Callable[[], None],
        statement: SnapshotStatement | None = None,
        *,
        floor: int,
        exact: bool,
    ) -> None:
        super().__init__(work, after, size, wake, statement)
        self.floor, self.exact = floor, exact

    def read(self, connection: MysqlConnection) -> Iterator[Piece[TableName, Place]]:
        """Read it, as it was at one place in the log."""
        place = self._opened(connection)
        found = self._shape(connection)
        if found is None:
            connection.rollback()
            self.gone = True
            return
        keys = chunk_key(found)
        engine = connection.execute(
            "SELECT engine FROM information_schema.tables WHERE table_schema = %s "
            "AND table_name = %s",
            self.table,
        )[0][0]
        self.whole = not keys
        self.opened(place, self._end(connection, found, keys))
        exact = self.exact and engine in _EXACT and not self.work.keep
        yield from self._pieces(connection, found, keys, place, exact=exact)
        connection.commit()

    def _opened(self, connection: MysqlConnection) -> Place:
        """Begin a snapshot that has all that was read of the log; returns where it is.

        A transaction is sent to replicas a moment before it can be seen by others.
        """
        connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        end = time.monotonic() + _PATIENCE
        if not self.exact:
            return self._opened_behind(connection, end)
        while True:
            connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            place = _place(connection)
            if place.number >= self.floor:
                return place
            connection.rollback()
            self._await(end, f"its log up to {self.floor & 0xFFFFFFFF}; the newest is of {place}")

    def _opened_behind(self, connection: MysqlConnection, end: float) -> Place:
        """Begin a snapshot that has all of the log up to a place, and maybe more; returns it.

        The place comes first: what is behind it in the log is given after the rows. What is up to
        it in the log, and cannot be seen yet, is a transaction that still owns its GTID.
        """
        place = _end_of_log(connection)
        waits = _committing(connection)
        while waits:
            waits &= _committing(connection)
            if waits:
                self._await(end, f"transaction {min(waits)}, which its log has")
        connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        return place

    def _await(self, end: float, what: str) -> None:
        if time.monotonic() > end or self.cancelled.wait(0.002):
            raise RetriableError(
                "cdc.snapshot_behind",
                f"the server shows no snapshot that has {what}",
                fix="Is a transaction stuck in its commit? It is tried again.",
            )

    def _shape(self, connection: MysqlConnection) -> Shape | None:
        """Return the table's columns, which stay as they are until the transaction ends."""
        name = TableId(self.table[1], catalog=self.table[0])
        try:
            connection.execute(f"SELECT 1 FROM {name.sql(MYSQL)} LIMIT 0")  # noqa: S608 - quoted names
        except ConnectorError as error:
            if error.code == "sql.no_table":
                return None
            raise
        return shape(connection, name)

    def _end(
        self, connection: MysqlConnection, found: Shape, keys: tuple[Column, ...]
    ) -> Key | None:
        """Return the key that the chunk ends with; None when it ends with the table."""
        if not keys:
            return None
        names = [MYSQL.quoted(column.name) for column in keys]
        where, values = self._where(names, None)
        sql = (
            f"SELECT {_selected(keys)} FROM {self._rows_of(found)}{where} "  # noqa: S608 - quoted
            f"ORDER BY {', '.join(names)} LIMIT 2 OFFSET {self.size - 1}"
        )
        found_rows = [rows for rows in read(connection, sql, values, keys) if rows.num_rows]
        beyond = sum(rows.num_rows for rows in found_rows) > 1  # else it ends with the table
        return key_of(found_rows[0], 0, keys) if beyond else None

    def _pieces(
        self, connection: MysqlConnection, found: Shape, keys: tuple[Column, ...], place: Place,
        *, exact: bool,
    ) -> Iterator[Piece[TableName, Place]]:  # fmt: skip
        names = [MYSQL.quoted(column.name) for column in keys]
        where, values = self._where(names, self.upto)
        order = f" ORDER BY {', '.join(names)}" if names else ""
        columns = _selected(found.columns)
        sql = f"SELECT {columns} FROM {self._rows_of(found)}{where}{order}"  # noqa: S608 - quoted names
        stamp = int(time.time() * 1_000_000)
        after, table = self.after, self.table
        held: list[pa.RecordBatch] = []
        for rows in read(connection, sql, values, found.columns):
            if sum(one.nbytes for one in held) >= PIECE_BYTES:
                last = key_of(held[-1], -1, keys)
                joined = pa.concat_batches(held)
                window = Window(table, after, last, place, exact)
                yield Piece(found, joined, window, stamp, done=False)
                after, held = last, []
            held.append(rows)
            if self.cancelled.is_set():
                raise StalledError("cdc.chunk_stalled", "the chunk is not wanted any more")
        schema = pa.schema([column.field for column in found.columns])
        joined = pa.concat_batches([*held, pa.RecordBatch.from_pylist([], schema=schema)])
        if not exact:  # the rows may have what came into the log while they were read
            place = _end_of_log(connection)
        window = Window(table, after, self.upto, place, exact)
        yield Piece(found, joined, window, stamp, done=self.upto is None)

    def explained(self, error: BaseException) -> BaseException:
        """Return what is raised for an error of its reading."""
        return error if _is_altered(error) else super().explained(error)

    def _where(self, names: list[str], upto: Key | None) -> tuple[str, list[KeyValue]]:
        """Return the condition on rows between the chunk's start and a key, and its values."""
        parts, values = _range(names, self.after, upto)
        if self.work.condition:  # the lines end comments
            condition = self.work.condition.replace("%", "%%")
            parts.append(f"(\n{condition}\n)")
        return (f" WHERE {' AND '.join(parts)}" if parts else ""), values

    def _rows_of(self, found: Shape) -> str:
        """Return what stands behind FROM."""
        return self.statement.rows if self.statement else found.table.sql(MYSQL)


def is_retriable(error: BaseException) -> bool:
    """Whether a chunk that failed so is read again; a table may be altered while it begins."""
    dropped = isinstance(error, ConnectorError) and error.code == "sql.no_column"
    return dropped or _is_altered(error) or snapshot.is_retriable(error)


def _is_altered(error: BaseException) -> bool:
    """Return whether a table was altered after the transaction of its chunk began."""
    return isinstance(error, ConnectorError) and "(1412)" in error.message


def chunk_key(found: Shape) -> tuple[Column, ...]:
    """Return the columns by which a table is read in chunks; none: it is read at once."""
    columns = [column for name in found.key if (column := found.find(name))]
    if any(column.native.split("(")[0].split()[0] not in _RANGES for column in columns):
        return ()
    return tuple(columns)


def key_of(rows: pa.RecordBatch, place: int, keys: tuple[Column, ...]) -> Key | None:
    """Return the key of a row."""
    if not keys:
        return None
    row = place % max(rows.num_rows, 1)
    return tuple(_value(rows.column(column.name)[row].as_py()) for column in keys)


def _value(value: Any) -> KeyValue:
    match value:
        case int() | str() | bytes():
            return value
        case Decimal():
            return int(value)
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ", "microseconds")
        case date():
            return value.isoformat()
    raise TypeError(type(value).__name__)


def _range(
    names: list[str], after: Key | None, upto: Key | None
) -> tuple[list[str], list[KeyValue]]:
    """Return the conditions that a key is in a range, and their values."""
    parts: list[str] = []
    values: list[KeyValue] = []
    for key, sign in ((after, ">"), (upto, "<")):
        if key is None or not names:
            continue
        text, some = _beyond(names, key, sign, sign if sign == ">" else "<=")
        parts.append(text)
        values += some
    return parts, values


def _beyond(names: list[str], key: Key, sign: str, last: str) -> tuple[str, list[KeyValue]]:
    """Return the condition that columns, in their order, are beyond a key."""
    first, value = names[0], key[0]
    if len(names) == 1:
        return f"{first} {last} %s", [value]
    rest, values = _beyond(names[1:], key[1:], sign, last)
    text = f"({first} {sign}= %s AND ({first} {sign} %s OR ({rest})))"
    return text, [value, value, *values]


def _place(connection: MysqlConnection) -> Place:
    """Return the exact place of the snapshot that the session has open (MariaDB)."""
    rows = connection.execute("SHOW STATUS LIKE 'binlog_snapshot_%%'")
    told = {str(name).lower(): str(value) for name, value in rows}
    return Place(told["binlog_snapshot_file"], int(told["binlog_snapshot_position"]))


def _committing(connection: MysqlConnection) -> set[str]:
    """Return the transactions that have a GTID and are not committed (MySQL with GTIDs)."""
    ((owned,),) = connection.execute("SELECT @@GLOBAL.gtid_owned")
    found = set()
    for of_server in filter(None, str(owned or "").split(",")):  # uuid:number#session:…
        server, *transactions = of_server.strip().split(":")
        found |= {f"{server}:{transaction}" for transaction in transactions}
    return found


def _end_of_log(connection: MysqlConnection) -> Place:
    """Return where the log ends now."""
    try:
        rows = connection.execute("SHOW MASTER STATUS")
    except ConnectorError as error:
        if "1064" not in error.message:
            raise
        rows = connection.execute("SHOW BINARY LOG STATUS")
    return Place(str(rows[0][0]), int(rows[0][1]))


def _selected(columns: Iterable[Column]) -> str:
    return ", ".join(map(MysqlDialect().selected, columns))
