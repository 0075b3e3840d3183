"""Finds the rows that a database does not take, where failed rows are tolerated.

A statement writes many rows, and fails as a whole. The rows are then written once more, in a
transaction that is undone: batch by batch behind savepoints, and halves of a batch that fails,
until each row that fails is alone. Constraints that are deferred to COMMIT are about all rows
together, so that they name none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock_connector import DataError, Staging
from penstock_databases.dialect import Connection
from penstock_databases.jdbc_sink.route import JdbcStaging
from penstock_databases.writing import Session

FailedRow = tuple[Staging, int, DataError]

_MAX_FAILED: Final = 1_000
_WITHIN_S: Final = 30.0
"""Failed rows, and seconds, after which no more are looked for: the host waits 120 s, and sends the
others once more.
"""


def find_failed_rows(
    connection: Connection, session: Session, stagings: Sequence[JdbcStaging]
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
            for number, error in _failed(connection, session, staging, rows, numbers):
                failed.append((staging, number, error))
                if len(failed) >= _MAX_FAILED or time.monotonic() > until:
                    return failed
            if time.monotonic() > until:
                return failed
    return failed


def _failed(
    connection: Connection,
    session: Session,
    staging: JdbcStaging,
    rows: pa.RecordBatch,
    numbers: pa.UInt64Array,
) -> Iterator[tuple[int, DataError]]:
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
                yield numbers[0].as_py(), error
                continue
            middle = rows.num_rows // 2
            left.append((rows.slice(middle), numbers.slice(middle)))
            left.append((rows.slice(0, middle), numbers.slice(0, middle)))
        else:
            connection.execute("RELEASE SAVEPOINT penstock_rows")
