"""The replication connection: messages of the log come, acknowledgements go.

A keeper thread acknowledges every ten seconds while the task's thread is busy elsewhere: the server
ends connections that are silent for longer (`wal_sender_timeout`). It says only what the task said
before (invariant 1).

https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

import contextlib
import select
import struct
import threading
import time
from typing import Any, Final

from psycopg import pq

from penstock_connector import ConnectorError
from penstock_databases.failing import sql_error
from penstock_databases.names import POSTGRESQL
from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.offsets import lsn_text
from penstock_databases.postgres_cdc.pgoutput import EPOCH_US
from penstock_databases.postgres_cdc.slot import drop_slot, replication_error
from penstock_databases.postgresql.connection import PostgresqlConnection, open_driver, telling

TELL_EVERY: Final = 10.0
"""Seconds between two acknowledgements. The server gives up after 60 by default; shorter only
costs."""

_START_WITHIN: Final = 60.0
"""Seconds for the server to begin. It reads the log from the slot's start first."""

_SESSION: Final = (
    "-c TimeZone=UTC -c DateStyle=ISO,YMD -c IntervalStyle=iso_8601 -c bytea_output=hex "
    "-c extra_float_digits=3"
)
"""Texts of values then have one form, whatever the server's settings."""

_DATA: Final = ord("w")
_KEEPALIVE: Final = ord("k")
_place = struct.Struct(">xQ").unpack_from
_keepalive = struct.Struct(">xQQB").unpack_from
_status = struct.Struct(">cQQQQB").pack

_LISTS_MESSAGES_FROM: Final = 140_000


def _command(config: PostgresCdcConfig, lsn: int, version: int) -> bytes:
    """Return what begins the log. Values are of the replication protocol, which has no parameters:
    the slot's name is letters and digits, the publication's is quoted twice.
    """
    name = POSTGRESQL.quoted(config.publication_name).replace("%%", "%").replace("'", "''")
    messages = ", messages 'true'" if version >= _LISTS_MESSAGES_FROM else ""
    return (
        f'START_REPLICATION SLOT "{config.slot_name}" LOGICAL {lsn_text(lsn)} '
        f"(proto_version '1', publication_names '{name}'{messages})"
    ).encode()


class Stream:
    """The log from a place on.

    Attributes:
        passed: The server has sent all that is before this place.
        acknowledged: The task gave all before this place, durably.
    """

    def __init__(self, config: PostgresCdcConfig, lsn: int, acknowledged: int) -> None:
        """Connect and begin; raises `sql.…` and `cdc.slot_…`."""
        self.passed = lsn
        self.acknowledged = acknowledged
        self._where, self._slot = config.target(), config.slot_name
        self._lock = threading.Lock()
        self._told_at = 0.0
        self._closed = threading.Event()
        self._driver = open_driver(
            self._where, config.login(), replication="database", options=_SESSION
        )
        self._server = self._driver.pgconn
        try:
            self._begin(_command(config, lsn, self._server.server_version))
        except BaseException:
            self._release()
            raise
        self._keeper = threading.Thread(target=self._keep, name=f"cdc-{self._slot}", daemon=True)
        self._keeper.start()

    def read(self, most: int) -> list[tuple[bytes, int]]:
        """Return messages that are there and their places in the log, at most so many; does not
        block.
        """
        found: list[tuple[bytes, int]] = []
        with self._lock, telling(self._where):
            get, take = self._server.get_copy_data, found.append
            fed = False
            while len(found) < most:
                size, data = get(1)
                if size > 0:
                    if data[0] == _DATA:
                        take((bytes(data[25:]), _place(data)[0]))
                    elif data[0] == _KEEPALIVE:
                        self._kept(data)
                elif size < 0:
                    raise self._ended()
                elif fed or not self._readable(0):
                    break
                else:
                    self._server.consume_input()
                    fed = True
                    continue
                fed = False
        return found

    def fileno(self) -> int:
        """Return the socket's number, for waiting."""
        number: int = self._server.socket
        return number

    def tell(self, *, ask: bool = False) -> None:
        """Send what is acknowledged; `ask` for an answer that says how far the log was sent."""
        with self._lock, telling(self._where):
            self._tell(ask=ask)

    def close(self) -> None:
        """End it. May come more than once."""
        self._closed.set()
        self._release()

    def _begin(self, command: bytes) -> None:
        self._server.nonblocking = 1
        with telling(self._where):
            self._server.send_query(command)
            self._server.flush()
            end = time.monotonic() + _START_WITHIN
            while self._server.is_busy():
                if not self._readable(end - time.monotonic()):
                    raise sql_error("lost", self._where, "the server did not begin in time")
                self._server.consume_input()
            result = self._server.get_result()
        if result is None or result.status != pq.ExecStatus.COPY_BOTH:
            raise replication_error(result, self._slot, self._where)

    def _kept(self, data: Any) -> None:
        passed, _, ask = _keepalive(data)
        self.passed = max(self.passed, passed)
        if ask:
            self._tell()

    def _tell(self, *, ask: bool = False) -> None:
        now = int(time.time() * 1_000_000) - EPOCH_US
        place = self.acknowledged
        written = max(self.passed, place)
        self._server.put_copy_data(_status(b"r", written, place, place, now, ask))
        self._server.flush()
        self._told_at = time.monotonic()

    def _keep(self) -> None:
        while not self._closed.wait(TELL_EVERY / 4):
            if time.monotonic() - self._told_at < TELL_EVERY * 3 / 4:
                continue
            try:
                self.tell()
            except ConnectorError:
                return  # the task's thread meets the same, and reports it

    def _ended(self) -> ConnectorError:
        result = self._server.get_result()
        return replication_error(result, self._slot, self._where)

    def _readable(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._server.socket, select.POLLIN)
        return bool(poll.poll(max(seconds, 0) * 1000))

    def _release(self) -> None:
        with self._lock, contextlib.suppress(Exception):
            self._driver.close()


class Sessions:
    """Opens sessions when they are needed.

    Attributes:
        stream: The log; None while there is no connection.
    """

    def __init__(self, config: PostgresCdcConfig) -> None:
        self.stream: Stream | None = None
        self._config = config
        self._side: PostgresqlConnection | None = None

    def side(self) -> PostgresqlConnection:
        """Return the session beside the log."""
        if self._side is None:
            self._side = PostgresqlConnection(self._config.target(), self._config.login())
        return self._side

    def follow(self, lsn: int, acknowledged: int) -> Stream:
        """Begin to read the log from a place on."""
        self.stream = Stream(self._config, lsn, acknowledged)
        return self.stream

    def close(self) -> None:
        """End both. They are opened again when they are needed."""
        stream, self.stream = self.stream, None
        side, self._side = self._side, None
        if stream is not None:
            stream.close()
        if side is not None:
            side.close()

    def drop_slot(self) -> None:
        """Drop the slot."""
        try:
            drop_slot(self.side(), self._config.slot_name)
        finally:
            self.close()
