"""Messages of PostgreSQL's `pgoutput` plugin, protocol version 1, as values. Pure.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

Rows are most of what comes: they are read by `read_change`, in few steps a column, and only for
tables that are wanted; `relation_of` tells the table without reading further.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from penstock_connector import ConnectorError

BEGIN: Final = ord("B")
COMMIT: Final = ord("C")
INSERT: Final = ord("I")
UPDATE: Final = ord("U")
DELETE: Final = ord("D")
TRUNCATE: Final = ord("T")
RELATION: Final = ord("R")
MESSAGE: Final = ord("M")

EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970: the server counts from there."""

_TEXT: Final = ord("t")
_NULL: Final = ord("n")
_UNCHANGED: Final = ord("u")
_OLD_ROW: Final = ord("O")
_OLD_KEY: Final = ord("K")
_NEW: Final = ord("N")

_begin = struct.Struct(">xQQI").unpack_from
_commit = struct.Struct(">xBQQQ").unpack_from
_truncate = struct.Struct(">xIB").unpack_from
_message = struct.Struct(">xBQ").unpack_from
_u32 = struct.Struct(">I").unpack_from
_u16 = struct.Struct(">H").unpack_from
_column = struct.Struct(">Ii").unpack_from


class Unsent(Enum):
    """What stands for a large value that an update did not change: the server does not send it."""

    UNSENT = "unsent"


UNSENT: Final = Unsent.UNSENT
Value: TypeAlias = "bytes | Unsent | None"


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins.

    Attributes:
        commit_lsn: Where its commit stands in the log.
        stamp: When it was committed, microseconds since 1970.
        xid: Its number, the low 32 bits.
    """

    commit_lsn: int
    stamp: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction ends. `end_lsn` is the place behind it."""

    commit_lsn: int
    end_lsn: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column as it was when the change was made."""

    name: str
    type_oid: int
    modifier: int
    in_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it was when the changes that follow were made.

    Attributes:
        oid: Its number.
        schema, name: Its name.
        identity: What the log has of a row before a change: `d`efault, `n`othing, `f`ull, `i`ndex.
        columns: The columns that the publication has.
    """

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class Change(NamedTuple):
    """A row that was inserted, updated or deleted.

    Attributes:
        new: The row after it; None after a delete.
        old: The row before it, as far as the log has it: all of it, or its key. None when it is not
            in the log: the key is then unchanged.
        whole: `old` is the whole row.
        unsent: `new` has values that were not sent.
    """

    new: list[Value] | None
    old: list[Value] | None
    whole: bool
    unsent: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables were emptied."""

    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """What `pg_logical_emit_message` wrote."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


def relation_of(data: bytes) -> int:
    """Return the number of the table that a change or a relation is of."""
    oid: int = _u32(data, 1)[0]
    return oid


def read_begin(data: bytes) -> Begin:
    """Read a BEGIN."""
    lsn, stamp, xid = _begin(data)
    return Begin(lsn, stamp + EPOCH_US, xid)


def read_commit(data: bytes) -> Commit:
    """Read a COMMIT."""
    _, lsn, end, _ = _commit(data)
    return Commit(lsn, end)


def read_relation(data: bytes) -> Relation:
    """Read a RELATION."""
    schema, at = _string(data, 5)
    name, at = _string(data, at)
    identity = chr(data[at])
    (count,) = _u16(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _string(data, at + 1)
        type_oid, modifier = _column(data, at)
        at += 8
        columns.append(RelationColumn(column, type_oid, modifier, bool(flags & 1)))
    # an empty name stands for the system's own schema
    return Relation(relation_of(data), schema or "pg_catalog", name, identity, tuple(columns))


def read_truncate(data: bytes) -> Truncate:
    """Read a TRUNCATE."""
    count, _ = _truncate(data)
    return Truncate(struct.unpack_from(f">{count}I", data, 6))


def read_message(data: bytes) -> Message:
    """Read a MESSAGE."""
    flags, lsn = _message(data)
    prefix, at = _string(data, 10)
    (size,) = _u32(data, at)
    return Message(bool(flags & 1), lsn, prefix, data[at + 4 : at + 4 + size])


def read_change(data: bytes) -> Change:
    """Read an INSERT, UPDATE or DELETE."""
    old: list[Value] | None = None
    at, kind, whole = 6, data[5], False
    if kind != _NEW:
        if kind not in {_OLD_ROW, _OLD_KEY}:
            raise ValueError(f"tuple kind {kind}")
        old, at, _ = _values(data, at)
        whole = kind == _OLD_ROW
        if data[0] == DELETE:
            return Change(None, old, whole, unsent=False)
        if data[at] != _NEW:
            raise ValueError(f"tuple kind {data[at]}")
        at += 1
    new, _, unsent = _values(data, at)
    return Change(new, old, whole, unsent)


def _values(data: bytes, at: int) -> tuple[list[Value], int, bool]:
    """Read a row; returns its values, the place behind it, and whether some were not sent."""
    (count,) = _u16(data, at)
    at += 2
    values: list[Value] = []
    unsent = False
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            start = at + 5
            at = start + _u32(data, at + 1)[0]
            values.append(data[start:at])
            continue
        if kind == _UNCHANGED:
            values.append(UNSENT)
            unsent = True
        elif kind == _NULL:
            values.append(None)
        else:
            raise ValueError(f"value kind {kind}")
        at += 1
    if at > len(data):
        raise ValueError("cut short")
    return values, at, unsent


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def unreadable(data: bytes, error: Exception) -> ConnectorError:
    """Return the error for a message that is none of the protocol's. No value is part of it."""
    return ConnectorError(
        "cdc.protocol",
        f"a message of kind {data[:1]!r} and {len(data)} bytes cannot be read: "
        f"{type(error).__name__}",
        fix="This is a defect, or the server is newer than this connector.",
    )
