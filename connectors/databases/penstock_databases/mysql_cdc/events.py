"""Events of a binary log: what stands in them, but for tables and rows. Pure.

https://mariadb.com/kb/en/replication-protocol/,
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import pyarrow as pa

from penstock_connector import ConnectorError


class Kind(IntEnum):
    """Numbers of events."""

    QUERY = 2
    ROTATE = 4
    FORMAT = 15
    XID = 16
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_V1 = 23
    UPDATE_V1 = 24
    DELETE_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    WRITE = 30
    UPDATE = 31
    DELETE = 32
    MYSQL_GTID = 33
    ANONYMOUS_GTID = 34
    XA_PREPARE = 38
    PARTIAL_UPDATE = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    TAGGED_GTID = 42
    MARIADB_GTID = 162
    QUERY_COMPRESSED = 165
    WRITE_COMPRESSED_V1 = 166
    UPDATE_COMPRESSED_V1 = 167
    DELETE_COMPRESSED_V1 = 168
    WRITE_COMPRESSED = 169
    UPDATE_COMPRESSED = 170
    DELETE_COMPRESSED = 171


HEAD: Final = struct.Struct("<IBIIIH")
"""Time, kind, server, size with this header, end position, flags: 19 bytes."""

ARTIFICIAL: Final = 0x20
"""Flag of an event that the server made for this connection: it stands in no log."""


_PLAIN_MOST: Final = 1 << 30
"""Bytes of what was compressed: servers take no larger packet, and this is held in memory."""


class Event(NamedTuple):
    """An event in a buffer that is valid until the next one is asked for.

    Attributes:
        kind: Its number; see `Kind`.
        seconds: When it was made, in seconds since 1970.
        end: Position in the log after it; 0 when it is of no log.
        flags: Its flags.
        data: The buffer.
        at: Where its body begins there.
        stop: Where its body ends, without the checksum.
        size: Its bytes in the log, with header and checksum.
    """

    kind: int
    seconds: int
    end: int
    flags: int
    data: bytes | bytearray
    at: int
    stop: int
    size: int = 0

    @property
    def body(self) -> bytes:
        """The body."""
        return bytes(self.data[self.at : self.stop])


class Query(NamedTuple):
    """A statement in the log.

    Attributes:
        database: The database that it ran in.
        text: The statement.
    """

    database: str
    text: str


class MariadbGtid(NamedTuple):
    """The beginning of a group of MariaDB's.

    Attributes:
        gtid: `domain-server-number`.
        standalone: The group is one statement, without an end of its own.
        prepares_xa: The group ends with XA PREPARE: whether its rows count is not said yet.
    """

    gtid: str
    standalone: bool
    prepares_xa: bool


def mariadb_gtid(body: bytes, server: int) -> MariadbGtid:
    """Return what a GTID event of MariaDB says."""
    number, domain, flags = struct.unpack_from("<QIB", body)
    return MariadbGtid(f"{domain}-{server}-{number}", bool(flags & 1), bool(flags & 0x40))


def mysql_gtid(body: bytes) -> tuple[str, int]:
    """Return the GTID of MySQL's event, and when it was committed, in microseconds; 0: unknown."""
    sid, number = body[1:17].hex(), int.from_bytes(body[17:25], "little")
    gtid = f"{sid[:8]}-{sid[8:12]}-{sid[12:16]}-{sid[16:20]}-{sid[20:]}:{number}"
    # after the two logical clocks: immediate commit time of 7 bytes, 1 bit of which says more
    stamp = int.from_bytes(body[42:49], "little") if len(body) >= 49 and body[25] == 2 else 0
    return gtid, stamp & ((1 << 55) - 1)


def rotation(body: bytes) -> tuple[str, int]:
    """Return the file that the log goes on in, and where."""
    return body[8:].decode("utf-8", "replace"), int.from_bytes(body[:8], "little")


def checksummed(body: bytes) -> bool:
    """Return whether events after this FORMAT_DESCRIPTION have a checksum.

    The algorithm stands before the event's own checksum, which is always there.
    """
    return len(body) > 5 and body[-5] == 1


def query(event: Event) -> Query:
    """Return the statement of a QUERY event."""
    data, at = event.data, event.at
    name, status = data[at + 8], int.from_bytes(data[at + 11 : at + 13], "little")
    at += 26 if event.kind == Kind.EXECUTE_LOAD_QUERY else 13
    at += status
    database = data[at : at + name]
    text = bytes(data[at + name + 1 : event.stop])
    if event.kind == Kind.QUERY_COMPRESSED:
        text = inflated(text)
    return Query(bytes(database).decode("utf-8", "replace"), text.decode("utf-8", "replace"))


def thread_of(event: Event) -> int:
    """Return the session that ran the statement of a QUERY event."""
    return int.from_bytes(event.data[event.at : event.at + 4], "little")


def xid_of_prepared(body: bytes) -> str:
    """Return the name of a prepared transaction as `XA COMMIT` writes it."""
    one_phase, form, gtrid, bqual = struct.unpack_from("<BIII", body)
    data = body[13:]
    del one_phase
    return xid_name(data[:gtrid], data[gtrid : gtrid + bqual], form)


def xid_name(gtrid: bytes, bqual: bytes, form: int) -> str:
    """Return the one name of a prepared transaction."""
    return f"X'{gtrid.hex()}',X'{bqual.hex()}',{form}"


def inflated(data: bytes) -> bytes:
    """Return a part of an event that MariaDB compressed.

    Raises:
        ConnectorError: `cdc.event_corrupt`.
    """
    width = data[0] & 7 if data else 0
    if not data or not data[0] & 0x80 or (data[0] >> 4) & 7:
        raise corrupt("a compressed event has an unknown form")
    size = int.from_bytes(data[1 : 1 + width], "big")
    if size > _PLAIN_MOST:
        raise corrupt("a compressed event says that it is larger than any can be")
    try:
        stream = zlib.decompressobj()
        plain = stream.decompress(data[1 + width :], size + 1)
    except zlib.error as error:
        raise corrupt(f"a compressed event cannot be read: {error}") from error
    if len(plain) != size or not stream.eof:
        raise corrupt("a compressed event has another size than it says")
    return plain


def payload(event: Event) -> Iterator[Event]:
    """Return the events inside a transaction that MySQL compressed."""
    body, at, kind, size = event.body, 0, 0, 0
    while True:
        field, at = lenenc(body, at)
        if field == 0:
            break
        width, at = lenenc(body, at)
        if field in {2, 3}:
            value, _ = lenenc(body, at)
            kind, size = (value, size) if field == 2 else (kind, value)
        at += width
    data = body[at:]
    if size > _PLAIN_MOST:
        raise ConnectorError(
            "cdc.transaction_too_large",
            f"a compressed transaction has {size} bytes, and {_PLAIN_MOST} are the most",
            fix="SET GLOBAL binlog_transaction_compression = OFF; then read the tables again.",
        )
    if kind == 0:
        data = pa.decompress(data, size, "zstd", asbytes=True)
    at = 0
    while at < len(data):
        seconds, number, _, length, _, flags = HEAD.unpack_from(data, at)
        yield Event(number, seconds, event.end, flags, data, at + HEAD.size, at + length)
        at += length


def lenenc(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Return a length-encoded number, and where it ends."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    if not width:
        raise corrupt("a number in an event has no valid form")
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def corrupt(what: str) -> ConnectorError:
    """Return the error of a log that cannot be right."""
    return ConnectorError(
        "cdc.event_corrupt",
        what,
        fix="Look at the log with mysqlbinlog --verify-binlog-checksum; "
        "if it is sound, this is a defect of the connector.",
    )
