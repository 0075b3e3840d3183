"""Rows on their way out of the server: a COPY that is taken in pieces, and its CSV as columns."""

from __future__ import annotations

import contextlib
import io
import select
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import pq
from pyarrow import csv

from penstock_databases.failing import sql_error
from penstock_databases.postgres_cdc.rows import RowShape
from penstock_databases.postgresql.connection import PostgresqlConnection

BYTES_MOST: Final = 32 << 20
"""Bytes of a piece. A larger one only costs memory; the rows beyond come with the next."""

_ROW_WITHIN: Final = 600.0
"""Seconds for the next row. It bounds a server that says nothing; sorting may take long."""


class CopyOut:
    """A running COPY … TO STDOUT. The server waits while nobody takes."""

    def __init__(self, connection: PostgresqlConnection, statement: str) -> None:
        self._connection = connection
        self._server: Any = connection.driver.pgconn
        self.ended = False
        self._server.send_query(statement.encode())
        result = self._result()
        if result.status != pq.ExecStatus.COPY_OUT:
            self._fail(result)

    def take(self, most: int) -> tuple[bytes, int]:
        """Return the next rows as CSV, and how many: most, unless they end or are very large."""
        parts: list[bytes] = []
        add, get = parts.append, self._server.get_copy_data
        size = 0
        while len(parts) < most and size < BYTES_MOST:
            length, data = get(1)
            if length > 0:
                add(bytes(data))
                size += length
            elif length == 0:
                self._wait()
            else:
                self._finish()
                break
        return b"".join(parts), len(parts)

    def close(self) -> None:
        """End it, in the middle when there are more rows."""
        if self.ended:
            return
        self._connection.driver.cancel_safe(timeout=10)
        with contextlib.suppress(psycopg.Error):
            while self._server.get_copy_data(0)[0] > 0:
                pass
        while self._server.get_result() is not None:
            pass
        self.ended = True

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
            raise sql_error("lost", self._connection.target, "no row came in time")
        self._server.consume_input()

    def _fail(self, result: Any) -> None:
        self.ended = True
        raise psycopg.errors.error_from_result(result)


def parsed(data: bytes, shape: RowShape) -> list[pa.Array]:
    """Return the columns of CSV as texts; an empty field is null, an empty text is in quotes."""
    names = [str(at) for at in range(len(shape.fields))]
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
