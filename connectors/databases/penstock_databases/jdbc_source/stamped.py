"""Modes `timestamp` and `timestamp+incrementing`: rows in the order of their time.

Time is settled up to `timestamp.late.ms` before now: what has an older time is visible, and is read
once, in order of time and key, each row a place to go on from. Younger rows go out at once, too,
but their time is read again until it is settled (`window`). Rows of equal times are ordered by the
growing column or the primary key; where there is neither, a run of them commits as one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from penstock_connector import Batch
from penstock_connector.tables.columns import Column
from penstock_connector.tables.types import INSTANT, STAMP
from penstock_databases.dialect import Connection, Stamp
from penstock_databases.jdbc_source.chunk import Chunk
from penstock_databases.jdbc_source.modes import order
from penstock_databases.jdbc_source.places import Place, micros, place_of, place_offset, plain
from penstock_databases.jdbc_source.reader import Source
from penstock_databases.jdbc_source.relation import (
    Relation,
    incrementing_column,
    ordering,
    renamed,
    timestamp_columns,
)
from penstock_databases.jdbc_source.run import Run
from penstock_databases.jdbc_source.session import Session
from penstock_databases.jdbc_source.settling import (
    Look,
    first_to_mark,
    pick,
    settle,
    settled_at,
    whole_runs,
)
from penstock_databases.jdbc_source.window import MOST, Window, digests

_FEW: Final = 256
"""Young rows that are read again with every poll; more are read again once in a while."""

_AGAIN: Final = 1.0
"""Seconds between two such looks. Shorter costs CPU while rows flow, longer is latency of rows
that became visible late."""

_AT: Final = "penstock at"
"""A column beside the row: its time, where no column is it."""


class StampedReader:
    """See `reader.Reader`."""

    def __init__(self, source: Source, offset: Mapping[str, Any] | None) -> None:
        self._source = source
        self._config = source.config
        self._chunk = Chunk(source.config.batch_max_rows)
        self._fresh = offset is None
        self._settled = self._newest = place_of(offset or {})
        self._window = Window(bytes((offset or {}).get("seen", b"")))
        self._begun = False
        self._look_again_at = 0.0
        self._run: Run | None = None
        self.more = self.caught_up = False

    @property
    def midway(self) -> bool:
        """Rows of a run went out, and its end did not."""
        return self._run is not None

    def renew(self) -> None:
        """Look the relation up again before the next statement."""
        self._source.renew()

    def close(self) -> None:
        """Forget what was being read."""
        self._run = None

    def poll(self, session: Session) -> Batch | None:
        """Return the next rows."""
        connection = session.connection()
        if self._run is not None:
            return self._poll_run(self._run, connection)
        relation = self._source.relation(connection)
        columns = timestamp_columns(self._config, relation)
        stamp = relation.dialect.stamp(connection, relation.source, columns)
        if stamp is None:
            self.more, self.caught_up = False, True
            return None
        look = self._look(session, relation, stamp)
        beside = _beside(columns, stamp)
        names = [stamp.sql] if beside else []
        sql = relation.select(look.where.clause + order(look.order), names, limit=look.limit)
        rows = self._source.read(session, sql, look.where.values, [beside] if beside else [])
        at = rows.column(_AT if beside else columns[0].name).cast(pa.int64())
        if beside:
            rows = rows.select(range(rows.num_columns - 1))
        return self._take(rows, at.to_pylist(), look, connection)

    # ── what to ask for ──────────────────────────────────────────────────────────────────────────

    def _look(self, session: Session, relation: Relation, stamp: Stamp) -> Look:
        """Return what the next statement asks for."""
        now = micros(session.now(instant=stamp.instant))
        if not self._begun:
            self._begin(session, stamp, now)
        delay, late = self._config.timestamp_delay_interval_ms, self._config.timestamp_late_ms
        settled = settled_at(now, max(delay, late), stamp.form)
        upper = now - round(delay * 1_000_000)
        full = len(self._window) >= MOST
        keys = self._keys(relation)
        few = len(self._window) <= _FEW
        again = not keys or few or time.monotonic() >= self._look_again_at
        return Look(
            stamp=stamp,
            keys=keys,
            order=(stamp.sql, *map(relation.dialect.ordered, keys)),
            start=self._settled if again else self._newest,
            again=again,
            settled=settled,
            upper=min(upper, settled) if full else upper,
            limit=self._chunk.rows + (len(self._window) if again else 0),
        )

    def _begin(self, session: Session, stamp: Stamp, now: int) -> None:
        """Begin where a first read begins. What the offset remembers is older than now."""
        initial = self._config.initial(session.now(instant=True)) if self._fresh else None
        if initial is not None:
            beyond = timedelta()
            if not stamp.instant:
                beyond = session.now(instant=False) - session.now(instant=True)
            at = micros(initial) + round(beyond.total_seconds()) * 1_000_000
            self._settled = self._newest = Place(at)
        self._window.restored_until = now
        self._begun = True

    def _keys(self, relation: Relation) -> tuple[Column, ...]:
        if "incrementing" in self._config.mode:
            return (incrementing_column(self._config, relation),)
        return ordering(relation, relation.key)

    # ── what came ────────────────────────────────────────────────────────────────────────────────

    def _take(
        self, rows: pa.RecordBatch, times: list[int], look: Look, connection: Connection
    ) -> Batch | None:
        """Return the rows that did not go out yet, and go on behind them."""
        relation = self._source.relation(connection)
        limited = rows.num_rows >= (1 if relation.limits_itself else look.limit)
        self._chunk.learn(rows)
        count = whole_runs(times, look, limited=limited)
        if limited and not count:
            self._run = Run(self._source, look, times[0], connection)
            self.more, self.caught_up = True, False
            return None
        first = first_to_mark(times, look, self._window, count)
        marks = digests(rows.slice(first, count - first), times[first:count], look.keys)
        picked = pick(times, marks, look, self._window, count=count, limited=limited)
        window, newest, last = self._window.copy(), self._newest, None
        window.add(picked.marks)
        if picked.count:
            last = _place(rows, times, picked.count - 1, look)
            newest = last if last.at >= newest.at else newest
        settled = self._settled
        if look.again:
            settled = settle(look, newest, last, limited=picked.limited)
            window.forget_before(settled.at if picked.limited else look.settled)
            self._look_again_at = time.monotonic() + _AGAIN
        batch = None
        if picked.rows:
            if len(picked.rows) < rows.num_rows:
                rows = rows.take(pa.array(picked.rows, pa.int64()))
            batch = self._source.batch(rows, _offset(settled, window), connection)
        self.more = picked.limited and batch is not None
        self.caught_up = not picked.limited
        self._settled, self._newest, self._window = settled, newest, window
        return batch

    def _poll_run(self, run: Run, connection: Connection) -> Batch | None:
        """Return the next rows of a long run of equal times; its end is the next place."""
        rows = run.next(self._window)
        if rows is None:
            return None
        if not run.ended:
            return self._source.batch(rows, None, connection)
        settled = Place(run.at, ())
        self._run = None
        self._settled = settled
        self._newest = max(self._newest, settled, key=lambda place: place.at)
        return self._source.batch(rows, _offset(settled, self._window), connection)


def _beside(columns: tuple[Column, ...], stamp: Stamp) -> Column | None:
    """Return the column that is selected beside the row; None when a column is its time."""
    if len(columns) == 1 and stamp.form == "text":
        return None
    return renamed(columns[0], _AT, INSTANT if stamp.instant else STAMP)


def _place(rows: pa.RecordBatch, times: list[int], place: int, look: Look) -> Place:
    key = tuple(plain(rows.column(column.name)[place].as_py()) for column in look.keys)
    return Place(times[place], key)


def _offset(settled: Place, window: Window) -> dict[str, Any]:
    seen = window.digests()
    return {**place_offset(settled), "seen": seen} if seen else place_offset(settled)
