"""The replication connection: messages of the log come, acknowledgements go.

A keeper thread acknowledges every ten seconds while the task's thread is busy elsewhere: the server
ends connections that are silent for longer (`wal_sender_timeout`). It says only what the task said
before (invariant 1).

https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from psycopg import pq

from penstock_connector import ConnectorError
from penstock_databases.dialect import Login
from penstock_databases.failing import sql_error
from penstock_databases.names import POSTGRESQL
from penstock_databases.postgres_cdc.offsets import lsn_text
from penstock_databases.postgres_cdc.pgoutput import EPOCH_US
from penstock_databases.postgres_cdc.slot import replication_error
from penstock_databases.postgresql.connection import open_driver, telling
from penstock_databases.url import Target

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
_keepalive = struct.Struct(">xQQB").unpack_from
_status = struct.Struct(">cQQQQB").pack

_LISTS_MESSAGES_FROM: Final = 140_000


@dataclass(frozen=True, slots=True)
class Feed:
    """What is read.

    Attributes:
        slot: Name of the slot.
        publication: Name of the publication.
    """

    slot: str
    publication: str

    def command(self, lsn: int, version: int) -> bytes:
        """Return the command that begins. Values are of the replication protocol, which has no
        parameters: the slot's name is letters and digits, the publication's is quoted twice.
        """
        name = POSTGRESQL.quoted(self.publication).replace("%%", "%").replace("'", "''")
        messages = ", messages 'true'" if version >= _LISTS_MESSAGES_FROM else ""
        return (
            f'START_REPLICATION SLOT "{self.slot}" LOGICAL {lsn_text(lsn)} '
            f"(proto_version '1', publication_names '{name}'{messages})"
        ).encode()


class Stream:
    """The log from a place on.

    Attributes:
        passed: The server has sent all that is before this place.
        acknowledged: The task gave all before this place, durably.
    """

    def __init__(
        self, target: Target, login: Login, feed: Feed, lsn: int, acknowledged: int
    ) -> None:
        """Connect and begin; raises `sql.…` and `cdc.slot_…`."""
        self.passed = lsn
        self.acknowledged = acknowledged
        self._where = target
        self._lock = threading.Lock()
        self._told_at = 0.0
        self._closed = threading.Event()
        self._driver = open_driver(target, login, replication="database", options=_SESSION)
        self._server = self._driver.pgconn
        self._wake, self._waker = _wakers()
        try:
            self._begin(feed.command(lsn, self._server.server_version), feed)
        except BaseException:
            self._release()
            raise
        self._keeper = threading.Thread(target=self._keep, name=f"cdc-{feed.slot}", daemon=True)
        self._keeper.start()

    def read(self, most: int) -> list[bytes]:
        """Return messages that are there, at most so many; does not block."""
        found: list[bytes] = []
        with self._lock, telling(self._where):
            get, take = self._server.get_copy_data, found.append
            fed = False
            while len(found) < most:
                size, data = get(1)
                if size > 0:
                    if data[0] == _DATA:
                        take(bytes(data[25:]))
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

    def wait(self, timeout: float) -> None:
        """Block until there is something to read, somebody wakes, or the time is over."""
        poll = select.poll()
        poll.register(self._server.socket, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        poll.poll(max(timeout, 0) * 1000)
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)

    def wake(self) -> None:
        """End a wait. Any thread."""
        with contextlib.suppress(OSError):
            self._waker.send(b"w")

    def tell(self, *, ask: bool = False) -> None:
        """Send what is acknowledged; `ask` for an answer that says how far the log was sent."""
        with self._lock, telling(self._where):
            self._tell(ask=ask)

    def close(self) -> None:
        """End it. May come more than once."""
        self._closed.set()
        self._release()

    def _begin(self, command: bytes, feed: Feed) -> None:
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
            raise replication_error(result, feed.slot, self._where)
        self._feed = feed

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
        return replication_error(result, self._feed.slot, self._where)

    def _readable(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._server.socket, select.POLLIN)
        return bool(poll.poll(max(seconds, 0) * 1000))

    def _release(self) -> None:
        with self._lock:
            with contextlib.suppress(Exception):
                self._driver.close()
            self._wake.close()
            self._waker.close()


def _wakers() -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    one.setblocking(False)
    other.setblocking(False)
    return one, other
