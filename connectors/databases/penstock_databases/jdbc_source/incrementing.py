"""Mode `incrementing`: rows with a larger number than the last one, and those that filled gaps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock_connector import Batch
from penstock_connector.tables.columns import Column
from penstock_databases.dialect import Connection
from penstock_databases.jdbc_source import gaps
from penstock_databases.jdbc_source.ahead import Ahead, Span
from penstock_databases.jdbc_source.chunk import Chunk
from penstock_databases.jdbc_source.modes import Where, compared, order, within
from penstock_databases.jdbc_source.places import bad_offset, plain
from penstock_databases.jdbc_source.reader import Changed, Source
from penstock_databases.jdbc_source.relation import Relation, incrementing_column
from penstock_databases.jdbc_source.session import Session

_LOOK_SHARE: Final = 10
"""Looks at gaps take at most one part in so many of the time."""

_LOOK_BUSY: Final = 1.0
"""Seconds between two looks at gaps while rows wait to be read: those come first."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far it is read: the largest number, and the gaps below it."""

    last: Any = None
    gaps: tuple[gaps.Gap, ...] = ()


class IncrementingReader:
    """See `reader.Reader`."""

    def __init__(self, source: Source, offset: Mapping[str, Any] | None) -> None:
        self._source = source
        self._wait = source.config.gap_wait_ms
        self._chunk = Chunk(source.config.batch_max_rows)
        self._ahead: Ahead | None = None
        self._may_be_large = True
        self._next_look = 0.0
        self._mark = _of_offset(offset or {})
        self.more = self.midway = self.caught_up = False
        self._is_cut = False  # the last look at gaps had more rows than one batch

    def renew(self) -> None:
        """Look the relation up again before the next statement."""
        self._source.renew()
        self.close()
        self._may_be_large = True

    def close(self) -> None:
        """Stop reading ahead."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def poll(self, session: Session) -> Batch | None:
        """Return rows of gaps, or the next rows."""
        connection = session.connection()
        relation = self._source.relation(connection)
        column = incrementing_column(self._source.config, relation)
        began = time.monotonic()
        if began >= self._next_look:
            late = self._poll_gaps(session, relation, column)
            took = time.monotonic() - began
            pause = max(_LOOK_BUSY if self.more else 0.0, took * _LOOK_SHARE)
            self._next_look = began + took + pause
            if late is not None:
                return late
        if self._may_be_large:
            self._may_be_large = False
            self._ahead = self._start_ahead(connection, relation, column)
        if self._ahead is not None:
            return self._poll_ahead(self._ahead, connection, column)
        return self._poll_next(session, relation, column)

    def _poll_next(self, session: Session, relation: Relation, column: Column) -> Batch | None:
        name = relation.dialect.ordered(column)
        where = Where() if self._mark.last is None else compared(name, ">", self._mark.last)
        where &= Where(f"{name} IS NOT NULL") if column.nullable else Where()
        limit = self._chunk.rows
        sql = relation.select(where.clause + order([name]), limit=limit)
        rows = self._source.read(session, sql, where.values)
        self._chunk.learn(rows)
        self.more = rows.num_rows >= (1 if relation.limits_itself else limit)
        self.caught_up = not self.more and not self._is_cut
        return self._taken(rows, column, session.connection()) if rows.num_rows else None

    def _taken(self, rows: pa.RecordBatch, column: Column, connection: Connection) -> Batch:
        """Return rows behind the last number as a batch, and go on behind them."""
        now, numbers = time.monotonic(), rows.column(column.name)
        more = []
        if self._wait and (whole := _whole(numbers)) is not None:
            more = gaps.found(None if self._mark.last is None else int(self._mark.last), whole, now)
        last = plain(numbers[-1].as_py())
        mark = _Mark(last, gaps.joined(self._mark.gaps, more))
        batch = self._source.batch(rows, _offset(mark, now), connection)
        self._mark = mark
        return batch

    def _poll_gaps(self, session: Session, relation: Relation, column: Column) -> Batch | None:
        """Return the rows that were not there when the rows behind them were read."""
        now = time.monotonic()
        due = [gap for gap in self._mark.gaps if gap.is_due(now)]
        if not due:
            self._is_cut = False
            return None
        name = relation.dialect.ordered(column)
        where = within(name, [(gap.low, gap.high) for gap in due])
        limit = self._chunk.rows
        sql = relation.select(where.clause + order([name]), limit=limit)
        rows = self._source.read(session, sql, where.values)
        numbers = [int(number) for number in rows.column(column.name).to_pylist()]
        # a look that was cut short was none for the numbers behind its last row
        self._is_cut = self.more = rows.num_rows >= limit
        left = gaps.looked_at(self._mark.gaps, due, numbers, now, self._wait, is_cut=self._is_cut)
        mark = _Mark(self._mark.last, left)
        batch = None
        if numbers:
            batch = self._source.batch(rows, _offset(mark, now), session.connection())
        self._mark = mark
        return batch

    # ── a large first load ───────────────────────────────────────────────────────────────────────

    def _start_ahead(
        self, connection: Connection, relation: Relation, column: Column
    ) -> Ahead | None:
        """Begin to read key ranges over several connections, when there is enough to read."""
        config = self._source.config
        is_whole = _is_whole(column.field.type)
        if config.read_parallelism < 2 or relation.limits_itself or not is_whole:
            return None
        if relation.table is None or relation.dialect.name == "sqlite":
            return None
        name = relation.dialect.ordered(column)
        where = Where() if self._mark.last is None else compared(name, ">", self._mark.last)
        sql = f"SELECT MIN({name}), MAX({name}) FROM {relation.source}{where.clause}"  # noqa: S608 - names are quoted
        ((first, last),) = connection.execute(sql, where.values)
        if first is None or last - first < 4 * config.batch_max_rows:
            return None
        return Ahead(config, relation, column, Span(int(first), int(last)))

    def _poll_ahead(self, ahead: Ahead, connection: Connection, column: Column) -> Batch | None:
        """Return the rows of the next range."""
        rows = ahead.next()
        if rows is None:
            self.close()
            self.more = True
            return None
        self.more = True
        if not rows.num_rows:
            return None
        try:
            self._source.check(connection)
        except Changed:
            self.close()
            self._may_be_large = True
            raise
        return self._taken(rows, column, connection)


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0))


def _whole(numbers: pa.Array) -> pa.Array | None:
    """Return numbers as whole numbers; None when they are none, or too large."""
    if not _is_whole(numbers.type):
        return None
    try:
        return numbers.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _of_offset(offset: Mapping[str, Any]) -> _Mark:
    try:
        held = gaps.of_text(str(offset.get("gaps", "")), time.monotonic())
    except ValueError as error:
        raise bad_offset(offset, "`gaps` are no ranges") from error
    return _Mark(offset.get("incrementing"), held)


def _offset(mark: _Mark, now: float) -> dict[str, Any]:
    offset = {"incrementing": mark.last}
    return {**offset, "gaps": gaps.to_text(mark.gaps, now)} if mark.gaps else offset
