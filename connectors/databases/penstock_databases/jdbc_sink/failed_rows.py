"""Finds the rows that a database does not take, where failed rows are tolerated.

A statement writes many rows, and fails as a whole. The rows are then written once more, in a
transaction that is undone: batch by batch behind savepoints, and halves of a batch that fails,
until each row that fails is alone. Constraints that are deferred to COMMIT are about all rows
together, so that they name none.

Where none is tolerated, the first one is found in the same way, so that the error can name it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from penstock_connector import DataError, Staging
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.routing import format_value
from penstock_databases.dialect import Connection
from penstock_databases.failing import RefusedRowError
from penstock_databases.jdbc_sink.route import JdbcStaging, Piece
from penstock_databases.writing import Session, Writer

_log = logging.getLogger(__name__)

FailedRow = tuple[Staging, int, DataError]

_MAX_FAILED: Final = 1_000
_WITHIN_S: Final = 30.0
"""Failed rows, and seconds, after which no more are looked for: the host waits 120 s, and sends the
others once more.
"""


_MAX_COLUMNS: Final = 3
"""Columns that name a row without a key."""

_ESCAPED: Final = re.compile(r"\\(.)")
_UNESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0"}

_TOLERATE: Final = (
    "Correct the row where it comes from, or change the table. With `errors.tolerance=all` such "
    "rows become dead letters, and the others are written."
)
_REPLAY: Final = "Correct the row and replay it (`penstock dlq replay`), or change the table."


def find_failed_rows(
    connection: Connection, session: Session, stagings: Sequence[JdbcStaging], writer: Writer
) -> list[FailedRow]:
    """Return rows that fail, in order; at least one, if rows fail by themselves and are found in
    time. The transaction is left open: it is for the caller to undo.
    """
    failed: list[FailedRow] = []
    until = time.monotonic() + _WITHIN_S
    connection.begin()
    session.begin()
    for staging in stagings:
        for rows, numbers in staging.originals():
            for number, piece, error in _failed(connection, session, staging, rows, numbers):
                failed.append(
                    (staging, number, name_row(connection, writer, piece, error, _REPLAY))
                )
                if len(failed) >= _MAX_FAILED or time.monotonic() > until:
                    return failed
            if time.monotonic() > until:
                return failed
    return failed


def find_first_failed(
    connection: Connection, session: Session, groups: Sequence[Sequence[Piece]], writer: Writer
) -> DataError | None:
    """Return the error of the first row that fails by itself, which it names; None: there is none,
    or it is not found in time. The transaction is left open, as above.
    """
    until = time.monotonic() + _WITHIN_S
    connection.begin()
    session.begin()
    left = [list(group) for group in reversed(groups)]
    while left and time.monotonic() < until:
        pieces = left.pop()
        connection.execute("SAVEPOINT penstock_rows")
        try:
            first = pieces[0]
            session.write(first.verb, first.layout, [piece.text for piece in pieces])
        except RefusedRowError as error:
            connection.execute("ROLLBACK TO SAVEPOINT penstock_rows")
            session.undone()
            halves = _halves(pieces)
            if halves is None:
                return name_row(connection, writer, pieces[0], error, _TOLERATE)
            left += reversed(halves)
        else:
            connection.execute("RELEASE SAVEPOINT penstock_rows")
    return None


def _halves(pieces: list[Piece]) -> tuple[list[Piece], list[Piece]] | None:
    """Return pieces in two parts, the last of which are rows; None: it is a single row."""
    if len(pieces) > 1:
        middle = len(pieces) // 2
        return pieces[:middle], pieces[middle:]
    (piece,) = pieces
    text = bytes(piece.text)
    cut = text.find(b"\n", len(text) // 2) + 1
    if cut in {0, len(text)}:
        cut = text.rfind(b"\n", 0, len(text) // 2) + 1
    if not cut:
        return None
    return [replace(piece, text=text[:cut])], [replace(piece, text=text[cut:])]


def name_row(
    connection: Connection, writer: Writer, piece: Piece, error: DataError, fix: str
) -> DataError:
    """Return the error of a row, the only one of a piece, with its key, and with the constraint and
    the columns that it breaks; the error as it is where there is no row to name.
    """
    if not isinstance(error, RefusedRowError) or piece.verb is Verb.TRUNCATE:
        return error
    table, rule = piece.layout.table, error.rule
    try:
        if rule is not None and not rule.columns:
            rule = replace(rule, columns=writer.rule_columns(connection, table, rule))
        key = _row_key(piece)
    except Exception as failure:  # noqa: BLE001 - a courtesy: the error that is there is to be told
        _log.warning("%s: the row that is refused cannot be named: %s", table, failure)
        return error
    broken = f" breaks {rule}" if rule else " is refused"
    return DataError(error.code, f"{table}: the row {key}{broken}: {error.said}", fix=fix)


def _row_key(piece: Piece) -> str:
    """Return what names the row of a piece: its key, else its first columns."""
    values = bytes(piece.text).rstrip(b"\n").decode(errors="replace").split("\t")
    row = dict(zip((column.name for column in piece.layout.columns), values, strict=True))
    names = piece.layout.identity or tuple(row)[:_MAX_COLUMNS]
    return ", ".join(f"{name}={_value(row[name])}" for name in names if name in row)


def _value(text: str) -> str:
    """Return a value out of the wire's text."""
    if text == "\\N":
        return format_value(None)
    return format_value(_ESCAPED.sub(lambda found: _UNESCAPED.get(found[1], found[1]), text))


def _failed(
    connection: Connection,
    session: Session,
    staging: JdbcStaging,
    rows: pa.RecordBatch,
    numbers: pa.UInt64Array,
) -> Iterator[tuple[int, Piece, DataError]]:
    left = [(rows, numbers)]
    while left:
        rows, numbers = left.pop()
        connection.execute("SAVEPOINT penstock_rows")
        try:
            for piece in staging.pieces(rows):
                session.write(piece.verb, piece.layout, [piece.text])
        except DataError as error:
            connection.execute("ROLLBACK TO SAVEPOINT penstock_rows")
            session.undone()
            if rows.num_rows == 1:
                yield numbers[0].as_py(), piece, error
                continue
            middle = rows.num_rows // 2
            left.append((rows.slice(middle), numbers.slice(middle)))
            left.append((rows.slice(0, middle), numbers.slice(0, middle)))
        else:
            connection.execute("RELEASE SAVEPOINT penstock_rows")
