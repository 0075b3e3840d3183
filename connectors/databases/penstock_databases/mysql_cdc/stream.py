"""The binary log over a session's own socket: as a replica gets it.

The session says who it is (COM_REGISTER_SLAVE) and asks for the log from a place on
(COM_BINLOG_DUMP, or COM_BINLOG_DUMP_GTID); from then on the server sends events and nothing else.
The server speaks at least once in `HEARTBEAT` seconds, so a longer silence is a lost connection.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
import zlib
from typing import Any, Final

import pymysql

from penstock_connector import ConnectorError, OffsetLostError
from penstock_databases.failing import one_line, sql_error
from penstock_databases.mysql.connection import MysqlConnection, mysql_error, telling
from penstock_databases.mysql_cdc.events import ARTIFICIAL, HEAD, Event, Kind, checksummed, corrupt
from penstock_databases.mysql_cdc.position import Gtids, Place

HEARTBEAT: Final = 5.0
"""Seconds after which a silent server sends a heartbeat. Shorter costs packets while idle; longer
leaves a dead connection unnoticed for longer."""

_SILENCE: Final = HEARTBEAT * 4
"""Seconds of silence after which the connection counts as lost."""

_BUFFER: Final = 1 << 20
"""Bytes that are read at once. It grows for a larger event and shrinks again."""

_PACKET_MOST: Final = 0xFFFFFF
_REGISTER, _DUMP, _DUMP_GTID = 0x15, 0x12, 0x1E

_PURGED: Final = (1236, 1373, 1789, 1955)
"""Errors of a server that has not the log any more: fatal error while reading the log, unknown
target log, purged GTIDs, GTID not found."""

_NOT_PURGED: Final = ("max_allowed_packet", "same server_uuid", "same server_id")
"""Words of 1236 that mean something else."""


class Dump:
    """The log from a place on. One thread.

    Attributes:
        connection: The session; of no other use any more.
        server: Number of the server that made the last event.
    """

    def __init__(
        self,
        connection: MysqlConnection,
        start: Place,
        *,
        server_id: int,
        mariadb: bool,
        by_gtid: bool,
    ) -> None:
        self.connection = connection
        self._buffer = bytearray(_BUFFER)
        self._at = self._have = self._before = 0
        self._need = 0
        self._spoke = time.monotonic()
        self.server = 0
        driver: Any = connection.driver
        with telling(connection.target):
            self._checksums = _agree(driver, start, mariadb=mariadb, by_gtid=by_gtid)
            _register(driver, server_id)
            _ask(driver, start, server_id, mariadb=mariadb, by_gtid=by_gtid)
            self._socket: socket.socket = driver._sock  # noqa: SLF001 - the session is ours
            self._socket.setblocking(False)
            driver._next_seq_id = 1  # noqa: SLF001 - nothing more is asked for

    def fileno(self) -> int:
        """Return the socket's number, for waiting."""
        return self._socket.fileno()

    def fill(self) -> bool:
        """Take what has arrived; returns whether there was anything.

        Raises:
            ConnectorError: `sql.lost`: the connection broke, or the server has been silent.
        """
        self._compact()
        try:
            got = self._socket.recv_into(memoryview(self._buffer)[self._have :])
        except (BlockingIOError, InterruptedError):
            got = -1
        except OSError as error:
            if type(error).__name__ in {"SSLWantReadError", "SSLWantWriteError"}:
                got = -1
            else:
                raise sql_error("lost", self.connection.target, error) from error
        if got == 0:
            raise sql_error("lost", self.connection.target, "the server closed the connection")
        now = time.monotonic()
        if got > 0:
            self._have += got
            self._spoke = now
        elif now - self._spoke > _SILENCE:
            raise sql_error("lost", self.connection.target, f"silent for {_SILENCE:.0f} s")
        return got > 0

    def next(self) -> Event | None:
        """Return the next event that is here as a whole; None when there is none."""
        buffer, at = self._buffer, self._at
        if self._have - at < 4:
            return None
        size = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
        if self._have - at - 4 < size:
            self._need = max(self._need, size + 4)
            return None
        if size >= _PACKET_MOST:
            return self._long()
        stop = at + 4 + size
        self._before, self._at = at, stop
        return self._event(buffer, at + 4, stop)

    def unread(self) -> None:
        """Take back the event that was given last: the next call gives it again."""
        self._at = self._before

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(pymysql.MySQLError, OSError):
            self.connection.driver._force_close()  # type: ignore[attr-defined] # noqa: SLF001 - it waits for no answer

    def _whole(self, at: int) -> int:
        """Return the size of the packet that begins there; -1 when it is not here yet."""
        have, buffer = self._have, self._buffer
        if have - at < 4:
            return -1
        size = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
        if have - at - 4 < size:
            self._need = max(self._need, size + 4)
            return -1
        return size

    def _long(self) -> Event | None:
        """Return an event of several packets: all but the last are as long as can be."""
        at, parts = self._at, []
        while (size := self._whole(at)) >= 0:
            parts.append(memoryview(self._buffer)[at + 4 : at + 4 + size])
            at += 4 + size
            if size < _PACKET_MOST:
                data = bytearray().join(parts)
                del parts
                self._before, self._at = self._at, at
                return self._event(data, 0, len(data))
        self._need = max(self._need, at - self._at + 4 + _PACKET_MOST)
        return None

    def _compact(self) -> None:
        """Make room behind what is not read yet."""
        rest = self._have - self._at
        wanted = max(_BUFFER, self._need + 4)
        if len(self._buffer) != wanted and rest <= wanted:
            fresh = bytearray(wanted)
            fresh[:rest] = self._buffer[self._at : self._have]
            self._buffer = fresh
        elif self._at:
            self._buffer[:rest] = self._buffer[self._at : self._have]
        elif self._have == len(self._buffer):
            self._buffer.extend(bytes(len(self._buffer)))
        self._at, self._have, self._need, self._before = 0, rest, 0, 0

    def _event(self, data: bytearray, at: int, stop: int) -> Event:
        if data[at]:
            raise self._ended(bytes(data[at:stop]))
        at += 1
        seconds, kind, server, size, end, flags = HEAD.unpack_from(data, at)
        if at + size != stop:
            raise corrupt("an event has another size than its packet")
        if kind == Kind.FORMAT:
            self._checksums = checksummed(bytes(data[at:stop]))
        if self._checksums:
            stop -= 4
            crc = int.from_bytes(data[stop : stop + 4], "little")
            if zlib.crc32(memoryview(data)[at:stop]) != crc:
                raise corrupt(f"the checksum of an event before position {end} is wrong")
        if flags & ARTIFICIAL:
            end = 0
        self.server = server
        return Event(kind, seconds, end, flags, data, at + HEAD.size, stop, size)

    def _ended(self, packet: bytes) -> ConnectorError:
        """Return what the server means by the end of the log."""
        if packet[0] != 0xFF:
            return sql_error("lost", self.connection.target, "the server ended the log")
        number = int.from_bytes(packet[1:3], "little")
        text = packet[3:].decode("utf-8", "replace")
        text = text[6:] if text.startswith("#") else text
        if number in _PURGED and not any(words in text for words in _NOT_PURGED):
            return purged(text)
        if any(words in text for words in _NOT_PURGED[1:]):
            return sql_error("busy", self.connection.target, text)
        return mysql_error(pymysql.OperationalError(number, text), self.connection.target)


def purged(said: object) -> OffsetLostError:
    """Return the error of an offset that the server has no log for."""
    return OffsetLostError(
        "cdc.log_purged",
        f"the log from the last offset on is not on the server any more: {one_line(said)}",
        fix="Set `offset.lost` to `snapshot` to read all tables again, or reset the offset; "
        "keep logs for longer (binlog_expire_logs_seconds).",
    )


# ── what a replica says ──────────────────────────────────────────────────────────────────────────


def _agree(driver: Any, start: Place, *, mariadb: bool, by_gtid: bool) -> bool:
    """Set what the server asks of a replica; returns whether events have checksums."""
    statements = [
        f"SET @master_heartbeat_period = {int(HEARTBEAT * 1e9)}",
        f"SET @source_heartbeat_period = {int(HEARTBEAT * 1e9)}",
        "SET @master_binlog_checksum = @@global.binlog_checksum",
        "SET @source_binlog_checksum = @@global.binlog_checksum",
    ]
    if mariadb:
        statements.append("SET @mariadb_slave_capability = 4")
        if by_gtid:
            statements += [
                f"SET @slave_connect_state = '{Gtids(start.gtid, mariadb=True)}'",
                "SET @slave_gtid_strict_mode = 0",
                "SET @slave_gtid_ignore_duplicates = 0",
            ]
    for statement in statements:
        driver.query(statement)
    with driver.cursor() as cursor:
        cursor.execute("SELECT @@global.binlog_checksum")
        return bool(cursor.fetchone()[0] == "CRC32")


def _register(driver: Any, server_id: int) -> None:
    """Make the server show who reads its log. It matters to nobody else."""
    host = b"penstock"
    said = struct.pack("<I", server_id) + bytes([len(host)]) + host + b"\0\0"
    driver._execute_command(_REGISTER, said + struct.pack("<HII", 0, 0, 0))  # noqa: SLF001 - no public way
    driver._read_ok_packet()  # noqa: SLF001 - as above


def _ask(driver: Any, start: Place, server_id: int, *, mariadb: bool, by_gtid: bool) -> None:
    if by_gtid and not mariadb:
        block = _sid_block(Gtids(start.gtid, mariadb=False))
        said = struct.pack("<HIIQI", 4, server_id, 0, 4, len(block)) + block
        driver._execute_command(_DUMP_GTID, said)  # noqa: SLF001 - as above
        return
    file = b"" if by_gtid else start.file.encode()
    pos = 4 if by_gtid else start.pos
    driver._execute_command(_DUMP, struct.pack("<IHI", pos, 0, server_id) + file)  # noqa: SLF001 - as above


def _sid_block(gtids: Gtids) -> bytes:
    """Return MySQL's set of GTIDs as the command takes it: ends are not included there."""
    sets = gtids.sets()
    block = struct.pack("<Q", len(sets))
    for source, spans in sets.items():
        block += bytes.fromhex(source.replace("-", "")) + struct.pack("<Q", len(spans))
        for first, last in spans:
            block += struct.pack("<QQ", first, last + 1)
    return block
