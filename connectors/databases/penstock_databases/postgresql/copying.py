"""Rows of a COPY as they come over the wire.

The driver's own copy waits for each row by itself; here all that has come is taken at once, which
costs half as much. Only its documented wrapper of libpq is used.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from typing import Final

import psycopg
from psycopg import errors
from psycopg.pq import ExecStatus

from penstock_databases.postgresql.connection import PostgresqlConnection

_BLOCK: Final = 4 << 20
"""Bytes that are given at once. Smaller costs more calls a row, larger more memory."""


def blocks(connection: PostgresqlConnection, statement: str) -> Iterator[bytes]:
    """Run a COPY TO STDOUT; give what it writes, in blocks of whole rows.

    What is left on the wire belongs to nobody else: iterate to the end, or the session is closed.
    """
    complete = False
    try:
        connection.driver.pgconn.send_query(statement.encode())
        _expect(connection, ExecStatus.COPY_OUT)
        yield from _rows(connection)
        _expect(connection, ExecStatus.COMMAND_OK)
        complete = True
    except psycopg.Error:
        complete = _drained(connection)
        raise
    finally:
        if not complete:
            connection.close()


def _rows(connection: PostgresqlConnection) -> Iterator[bytes]:
    take = connection.driver.pgconn.get_copy_data
    rows: list[memoryview] = []
    size = 0
    while True:
        count, row = take(1)
        if count > 0:
            rows.append(row)
            size += count
            if size >= _BLOCK:
                yield b"".join(rows)
                rows, size = [], 0
        elif count < 0:
            break
        else:
            _receive(connection)
    if rows:
        yield b"".join(rows)


def _receive(connection: PostgresqlConnection) -> None:
    """Wait until more has come."""
    pgconn, timeout = connection.driver.pgconn, connection.target.read_timeout
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    if not poll.poll(timeout * 1000):
        raise psycopg.OperationalError(f"nothing came for {timeout:g} s")
    pgconn.consume_input()


def _expect(connection: PostgresqlConnection, status: ExecStatus) -> None:
    """Take the next result, which must be of a kind; after the last one, there is none."""
    pgconn = connection.driver.pgconn
    while pgconn.is_busy():
        _receive(connection)
    result = pgconn.get_result()
    if result is None:
        raise psycopg.OperationalError("the server gave no result")
    if result.status != status:
        raise errors.error_from_result(result, "utf-8")
    if status != ExecStatus.COPY_OUT and not _drained(connection):
        raise psycopg.OperationalError("the server gave more than one result")


def _drained(connection: PostgresqlConnection) -> bool:
    """Return whether the statement is over, and the session free for another one."""
    pgconn = connection.driver.pgconn
    deadline = time.monotonic() + connection.target.connect_timeout
    try:
        while time.monotonic() < deadline:
            while pgconn.is_busy():
                _receive(connection)
            result = pgconn.get_result()
            if result is None:
                return True
            if result.status == ExecStatus.COPY_OUT:
                return False
    except psycopg.Error:
        return False
    return False
