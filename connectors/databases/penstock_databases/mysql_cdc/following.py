"""Follows the log: transactions begin and end, tables appear, rows are gathered.

What it does not do itself is told: a statement that stands between rows ends a call of `read`, so
that the rows before it are given first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from penstock_connector import ConfigError, ConnectorError, Op, SchemaError
from penstock_connector.connection import Retry
from penstock_databases.mysql_cdc.events import (
    Event,
    Kind,
    corrupt,
    inflated,
    lenenc,
    mariadb_gtid,
    mysql_gtid,
    payload,
    query,
    rotation,
    thread_of,
    xid_of_prepared,
)
from penstock_databases.mysql_cdc.gathering import Gathering, Table
from penstock_databases.mysql_cdc.offsets import Offset
from penstock_databases.mysql_cdc.origins import EventOrigin
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.statements import Means, Statement, understood
from penstock_databases.mysql_cdc.stream import Dump
from penstock_databases.mysql_cdc.tables import Tables
from penstock_databases.mysql_cdc.track import Track

_ROWS: Final[dict[int, tuple[Op, bool, bool]]] = {
    Kind.WRITE_V1: (Op.CREATE, False, False),
    Kind.UPDATE_V1: (Op.UPDATE, False, False),
    Kind.DELETE_V1: (Op.DELETE, False, False),
    Kind.WRITE: (Op.CREATE, True, False),
    Kind.UPDATE: (Op.UPDATE, True, False),
    Kind.DELETE: (Op.DELETE, True, False),
    Kind.WRITE_COMPRESSED_V1: (Op.CREATE, False, True),
    Kind.UPDATE_COMPRESSED_V1: (Op.UPDATE, False, True),
    Kind.DELETE_COMPRESSED_V1: (Op.DELETE, False, True),
    Kind.WRITE_COMPRESSED: (Op.CREATE, True, True),
    Kind.UPDATE_COMPRESSED: (Op.UPDATE, True, True),
    Kind.DELETE_COMPRESSED: (Op.DELETE, True, True),
}
"""Op; whether there is a second header; whether rows are compressed."""

_BYTES_MOST: Final = 4 << 20
"""Bytes of row images after which rows are given out: about a batch on the wire. More would only
take memory; less makes more batches."""

_ROWS_MOST: Final = 50_000
"""The same for very short rows."""


_TOLD: Final = frozenset({Means.TABLES, Means.TRUNCATE, Means.XA_COMMIT})
"""Statements that matter beyond the log. XA COMMIT is one when nobody saw its rows."""


class Halt(Enum):
    """Why reading stopped."""

    EMPTY = auto()
    FULL = auto()
    LIMIT = auto()


class Follower:
    """One task's way along the log.

    Attributes:
        track: Where it is.
        prepared: Where transactions begin that were prepared (XA) and not ended, by their names.
        statement_origin: Where the statement stands that ended the last call of `read`.
    """

    def __init__(
        self,
        start: Offset,
        dial: Callable[[Place, bool], Dump],
        tables: Tables,
        gathering: Gathering,
        *,
        mariadb: bool,
    ) -> None:
        self.track = Track(start, mariadb=mariadb)
        self.prepared = dict(start.prepared)
        self._dial = dial
        self._tables = tables
        self._gathering = gathering
        self._prepares = self._standalone = False
        self._stamp = 0
        self._thread = -1
        self._event: Event | None = None  # of a compressed transaction the one around it
        self.statement_origin = EventOrigin(0, "", "", 0, -1)
        self._maps: dict[int, Table | None] = {}
        self._dump: Dump | None = None
        self._second: Dump | None = None  # reads a prepared transaction again, once it commits

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._dump is not None

    def fileno(self) -> int:
        """Return the socket that is read, for waiting; -1 when there is none."""
        dump = self._second or self._dump
        return dump.fileno() if dump else -1

    def close(self) -> None:
        """Let go of connections."""
        for dump in (self._dump, self._second):
            if dump is not None:
                dump.close()
        self._dump = self._second = None

    def connect(self, retry: Retry, stopping: threading.Event) -> None:
        """Connect, or connect again, where the log was read up to: no row comes twice.

        Raises:
            RetriableError: As many attempts failed.
        """
        self.close()
        self.track.again()
        self._prepares = False
        self._maps.clear()
        self._dump = retry.call(lambda: self._dial(self.track.place, False), stopping.wait)

    def read(self, limit: int | None, *, to_commit: bool = False) -> Halt | Statement:
        """Read what has arrived of the log.

        Args:
            limit: Where to stop: no event behind that place is read.
            to_commit: Stop where a transaction ends.
        """
        while True:
            dump = self._second or self._dump
            assert dump is not None  # noqa: S101 - connect came before
            if self._gathering.bytes >= _BYTES_MOST or self._gathering.count >= _ROWS_MOST:
                return Halt.FULL
            event = dump.next()
            if event is None:
                if not dump.fill():
                    return Halt.EMPTY
                continue
            if self._second is not None:
                event = event._replace(end=0)  # its rows count as where it is committed
            elif limit is not None and event.end and self.track.at(event.end) > limit:
                dump.unread()
                return Halt.LIMIT
            self._event = event
            halt = self._take(event)
            if halt is False:
                dump.unread()
                return Halt.FULL
            if isinstance(halt, Statement):
                return halt
            if to_commit and not self.track.open:
                return Halt.FULL

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def _take(self, event: Event) -> Statement | bool:
        """Take an event. False: it must come again, after what is gathered was given."""
        kind = event.kind
        if kind in _ROWS:
            self._take_rows(event)
        elif kind == Kind.TABLE_MAP:
            if not self._take_map(event):
                return False
        elif self._second is not None:
            if kind == Kind.XA_PREPARE:
                self._replayed()
            return True
        elif kind == Kind.XID:
            self._committed(event)
            return True
        elif kind in {Kind.QUERY, Kind.QUERY_COMPRESSED, Kind.EXECUTE_LOAD_QUERY}:
            return self._statement(event)
        elif kind == Kind.ROTATE:
            self.track.rotated(*rotation(event.body))
            return True
        else:
            self._rare(event)
        self.track.moved(event.end)
        return True

    def _rare(self, event: Event) -> None:
        match event.kind:
            case Kind.MARIADB_GTID:
                assert self._dump is not None  # noqa: S101 - the event came from there
                gtid = mariadb_gtid(event.body, self._dump.server)
                self.track.begin(gtid.gtid)
                self._standalone, self._prepares = gtid.standalone, gtid.prepares_xa
            case Kind.MYSQL_GTID:
                text, self._stamp = mysql_gtid(event.body)
                self.track.begin(text)
                self._standalone = True
            case Kind.ANONYMOUS_GTID | Kind.TAGGED_GTID:
                self.track.begin()
                self._standalone = True
            case Kind.XA_PREPARE:
                self._xa_prepared(event)
            case Kind.TRANSACTION_PAYLOAD:
                self._payload(event)
            case Kind.INCIDENT | Kind.PARTIAL_UPDATE:
                raise unsound(event)

    def _payload(self, event: Event) -> None:
        for inner in payload(event):
            if inner.kind == Kind.XID:
                continue  # the outer event ends the transaction
            if self._take(inner) is False:
                raise corrupt("a compressed transaction changes a table in its middle")
        self._committed(event)

    def _committed(self, event: Event) -> None:
        """End a transaction."""
        self._gathering.committed(self._stamp or event.seconds * 1_000_000)
        self.track.committed(event.end)
        self._stamp, self._thread = 0, -1
        self._standalone = self._prepares = False

    # ── statements ───────────────────────────────────────────────────────────────────────────────

    def _statement(self, event: Event) -> Statement | bool:
        found = understood(*query(event))
        stamp = self._stamp or event.seconds * 1_000_000
        thread = thread_of(event)
        match found.means:
            case Means.BEGIN | Means.XA_BEGIN:
                self.track.begin()
                self._thread = thread
                self._standalone = False
                self._prepares = found.means == Means.XA_BEGIN
                self.track.moved(event.end)
                return True
            case Means.COMMIT | Means.ROLLBACK:
                self._committed(event)
                return True
            case Means.ROWS:
                self._refuse(found)
            case Means.XA_COMMIT if found.xid in self.prepared:
                self.track.begin()
                self.track.moved(event.end)
                self._replay(self.prepared[found.xid], found.xid)
                return True
            case Means.XA_ROLLBACK:
                self.prepared.pop(found.xid, None)
        self.statement_origin = self._origin()._replace(thread=thread)
        if self._standalone or not self.track.open:
            self._committed(event)
        else:
            self.track.moved(event.end)
        if found.means in {Means.TABLES, Means.TRUNCATE}:
            self._tables.forget()
        if found.means in _TOLD:
            return replace(found, stamp=stamp)
        return True

    def _refuse(self, statement: Statement) -> None:
        """Refuse rows that the log has as a statement: they would be lost without a word."""
        if any(self._tables.meant(*table) for table in statement.tables):
            raise ConfigError(
                "cdc.binlog_format",
                f"a statement changed rows of {'.'.join(statement.tables[0])} in the log, "
                "instead of the rows themselves",
                fix="SET GLOBAL binlog_format = 'ROW'; let sessions not set another one; "
                "then read the table again.",
            )

    # ── prepared transactions ────────────────────────────────────────────────────────────────────
    # Rows of a prepared transaction (XA) stand in the log before anybody knows whether they count.
    # They are passed over, and read again from their place when it commits: nothing is held.

    def _xa_prepared(self, event: Event) -> None:
        name = xid_of_prepared(event.body)
        self.prepared[name] = self.track.before
        if event.body[0]:  # prepared and committed at once
            self.track.moved(event.end)
            self._replay(self.prepared[name], name)
        else:
            self._committed(event)

    def _replay(self, place: Place, xid: str) -> None:
        self._prepares = False
        self._xid = xid
        self._second = self._dial(place, True)

    def _replayed(self) -> None:
        assert self._second is not None  # noqa: S101 - the event came from there
        assert self._event is not None  # noqa: S101 - as above
        self._second.close()
        self._second = None
        del self.prepared[self._xid]
        self._gathering.committed(self._stamp or self._event.seconds * 1_000_000)
        self.track.committed(0)
        self._standalone = False

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def _take_map(self, event: Event) -> bool:
        data, at = event.data, event.at
        number = int.from_bytes(data[at : at + 6], "little")
        table = self._tables.of(bytes(data[at + 8 : event.stop]))
        if table is not None and self._gathering.changed(table):
            return False
        self._maps[number] = table
        return True

    def _take_rows(self, event: Event) -> None:
        op, second, packed = _ROWS[event.kind]
        data, at = event.data, event.at
        number = int.from_bytes(data[at : at + 6], "little")
        try:
            table = self._maps[number]
        except KeyError:
            if number == 0xFFFFFF:
                return  # MySQL's end of a statement without rows
            raise corrupt("rows of a table that the log has not told of") from None
        if table is None or self._prepares:
            return
        at += 8
        if second:
            at += int.from_bytes(data[at : at + 2], "little")
        width, at = lenenc(data, at)
        at = self._images(data, at, width, table, 2 if op == Op.UPDATE else 1)
        rows = memoryview(data)[at : event.stop]
        stamp = self._stamp or event.seconds * 1_000_000
        count = self._gathering.add(
            table,
            op,
            inflated(bytes(rows)) if packed else rows,
            stamp,
            self.track.at(event.end),
            self.track.skip,
            self._origin() if table.has_origins else None,
        )
        self.track.counted(count)

    def _origin(self) -> EventOrigin:
        """Return where the event stands that is taken."""
        dump, event = self._second or self._dump, self._event
        assert dump is not None  # noqa: S101 - the event came from there
        assert event is not None  # noqa: S101 - `read` took it
        file, pos = self.track.begin_of(event.end, event.size)
        before = self.track.before
        begin = before.file, before.pos
        return EventOrigin(dump.server, self.track.txn, file, pos, self._thread, begin)

    def _images(
        self, data: bytes | bytearray, at: int, width: int, table: Table, images: int
    ) -> int:
        """Return where rows begin, behind the bits of columns that are there: all must be."""
        if width != len(table.layout.decoders):
            raise corrupt("rows have another number of columns than the log told of")
        size = (width + 7) // 8
        for _ in range(images):
            bits = int.from_bytes(data[at : at + size], "little")
            if bits & (1 << width) - 1 != (1 << width) - 1:
                raise ConfigError(
                    "cdc.binlog_row_image",
                    f"rows of {table.database}.{table.name} in the log have only some columns",
                    fix="SET GLOBAL binlog_row_image = 'FULL'; let sessions not set another one; "
                    "then read the table again.",
                )
            at += size
        return at


def unsound(event: Event) -> ConnectorError:
    """Return the error of an event after which the log is not whole."""
    if event.kind == Kind.PARTIAL_UPDATE:
        return ConfigError(
            "cdc.binlog_row_value_options",
            "rows in the log have only parts of JSON values",
            fix="SET GLOBAL binlog_row_value_options = ''; then read the tables again.",
        )
    return SchemaError(
        "cdc.incident",
        "the server could not write all changes to its log (incident event)",
        fix="Read the tables again: reset the offset.",
    )
