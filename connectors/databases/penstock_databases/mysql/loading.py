"""Many rows to MariaDB or MySQL at once: LOAD DATA LOCAL, fed from memory.

In that protocol the *server* names the file that a client should send. Nothing here ever opens a
file: whatever the server asks for, it gets the rows, and nobody else answers such a request (the
driver was told that it may not). Where the server does not allow it, INSERT statements are made
from the same text.

A LOCAL load skips rows and bends values where an INSERT would fail, with a warning only. One
warning fails the transaction.
"""

# Names in SQL are quoted by `Naming`, values are parameters or the wire's own text.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pymysql
from pymysql.constants import COMMAND
from pymysql.protocol import OKPacketWrapper

from penstock_connector import ConnectorError
from penstock_connector.tables.columns import Column
from penstock_connector.tables.names import TableId
from penstock_databases.failing import sql_error
from penstock_databases.mysql.connection import MysqlConnection, mysql_error, telling
from penstock_databases.mysql.ddl import wrapped
from penstock_databases.names import MYSQL
from penstock_databases.writing import Text

_NOT_ALLOWED: Final = frozenset({1148, 3948, 4166})
"""Errors of a server that takes no LOCAL load."""

_PIECE: Final = 1 << 18
"""Bytes of a packet: large enough to cost nothing, and below what any server takes."""

_NULL: Final = b"\\N"


class Loader:
    """Loads rows over one connection."""

    def __init__(self, connection: MysqlConnection) -> None:
        self._connection = connection
        rows = connection.execute("SELECT @@global.local_infile, @@max_allowed_packet")
        self._local = bool(rows[0][0])
        self._packet = int(rows[0][1])

    def load(self, table: TableId, columns: Sequence[Column], texts: Sequence[Text]) -> None:
        """Insert rows."""
        if self._local:
            try:
                self._load(table, columns, texts)
            except _NotAllowedError:
                self._local = False
            else:
                return
        self._insert(table, columns, texts)

    # ── LOAD DATA LOCAL ──────────────────────────────────────────────────────────────────────────

    def _load(self, table: TableId, columns: Sequence[Column], texts: Sequence[Text]) -> None:
        driver: Any = self._connection.driver
        statement = _load_statement(table, columns).replace("%%", "%")
        with telling(table):
            driver._execute_command(COMMAND.COM_QUERY, statement)  # noqa: SLF001 - it has no other way
            try:
                asked = driver._read_packet()  # noqa: SLF001 - as above
            except pymysql.MySQLError as error:
                if error.args and error.args[0] in _NOT_ALLOWED:
                    raise _NotAllowedError from error
                raise
            if not asked.is_load_local_packet():
                raise sql_error("failed", table, "the server did not ask for the rows of a load")
            self._send(driver, texts)
            done = OKPacketWrapper(driver._read_packet())  # noqa: SLF001 - as above
        if done.warning_count:
            raise self._warned(table)

    def _send(self, driver: Any, texts: Sequence[Text]) -> None:
        """Answer the server's request: with our rows, whatever it asked for."""
        piece = max(min(_PIECE, self._packet // 2), 512)
        for text in texts:
            view = memoryview(text)
            for start in range(0, len(view), piece):
                driver.write_packet(view[start : start + piece])
        driver.write_packet(b"")

    def _warned(self, table: TableId) -> ConnectorError:
        """Return what the first warning was about as the error that an INSERT had raised."""
        for _, number, said in self._connection.execute("SHOW WARNINGS"):
            error = mysql_error(pymysql.DataError(int(number), str(said)), table)
            if error.code != "sql.failed":
                return error
            return sql_error("value", table, f"{said} ({number})")
        return sql_error("value", table, "the server changed or skipped rows")

    # ── INSERT ───────────────────────────────────────────────────────────────────────────────────

    def _insert(self, table: TableId, columns: Sequence[Column], texts: Sequence[Text]) -> None:
        names = ", ".join(MYSQL.quoted(column.name) for column in columns)
        head = f"INSERT INTO {table.sql(MYSQL)} ({names}) VALUES ".replace("%%", "%").encode()
        around = [wrapped(column) for column in columns]
        most = self._packet - len(head) - 1024
        with telling(table):
            for values in _statements(texts, around, most):
                if len(values) > most:
                    said = f"a row has {len(values)} bytes, and {self._packet} are the most"
                    raise sql_error("too_large", table, said)
                self._connection.driver.query(head + values)


class _NotAllowedError(Exception):
    """The server takes no LOCAL load."""


def _load_statement(table: TableId, columns: Sequence[Column]) -> str:
    places, sets = [], []
    for number, column in enumerate(columns):
        before, after = wrapped(column)
        name = MYSQL.quoted(column.name)
        places.append(f"@penstock_{number}" if before else name)
        if before:
            sets.append(f"{name} = {before}@penstock_{number}{after}")
    return (
        f"LOAD DATA LOCAL INFILE 'penstock' INTO TABLE {table.sql(MYSQL)} CHARACTER SET utf8mb4 "
        "FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' "
        f"({', '.join(places)}){' SET ' + ', '.join(sets) if sets else ''}"
    )


def _statements(
    texts: Sequence[Text], around: Sequence[tuple[str, str]], most: int
) -> Iterator[bytes]:
    """Yield what follows VALUES, each below a size unless a single row is above it."""
    for part in _parts(texts, max(most // 3, 1)):
        values = _literals(part, around)
        if len(values) <= most:
            yield values
            continue
        for line in part[:-1].split(b"\n"):
            yield _literals(line + b"\n", around)


def _parts(texts: Sequence[Text], size: int) -> Iterator[bytes]:
    """Yield whole rows of about a size."""
    for text in texts:
        data = bytes(text)
        start = 0
        while start < len(data):
            end = data.rfind(b"\n", start, start + size) + 1 or data.find(b"\n", start) + 1
            yield data[start:end]
            start = end


def _literals(part: bytes, around: Sequence[tuple[str, str]]) -> bytes:
    r"""Return rows of the wire's text as rows of SQL.

    A value's escapes mean the same between quotes, where only the quote itself is special, too. A
    backslash of a value is doubled, so a quote before `\\N` is always one that was put here.
    """
    rows = part[:-1].replace(b"'", b"''")
    if not any(before for before, _ in around):
        quoted = rows.replace(b"\t", b"','").replace(b"\n", b"'),('")
        return (b"('" + quoted + b"')").replace(b"'\\N'", b"NULL")
    wraps = [(before.encode(), after.encode()) for before, after in around]
    return b",".join(_row(line, wraps) for line in rows.split(b"\n"))


def _row(line: bytes, wraps: Sequence[tuple[bytes, bytes]]) -> bytes:
    values = [
        before + (b"NULL" if value == _NULL else b"'" + value + b"'") + after
        for value, (before, after) in zip(line.split(b"\t"), wraps, strict=True)
    ]
    return b"(" + b",".join(values) + b")"
