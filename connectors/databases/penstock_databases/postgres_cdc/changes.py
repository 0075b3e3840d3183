"""Messages of the log → rows in groups by table, and the place they lead to.

Groups are cut at the end of a transaction; one that is too large for that is cut inside, and the
place then says how many of its events were given: the server sends them again in the same order.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import pyarrow as pa

from penstock_connector import Op
from penstock_databases.cdc.rows import OP
from penstock_databases.cdc.transactions import BEGIN, END, Boundary, TransactionCounter
from penstock_databases.postgres_cdc import pgoutput
from penstock_databases.postgres_cdc.offsets import Position
from penstock_databases.postgres_cdc.origins import ChangeOrigin
from penstock_databases.postgres_cdc.pgoutput import UNSENT, Begin, Change, Message, Relation, Value
from penstock_databases.postgres_cdc.progress import Rule, TableProgress, rule_for
from penstock_databases.postgres_cdc.rows import Group, RowShape, picked, without_unsent

_ALL: Final = 1 << 62
_RECENT: Final = 4096
"""Transactions that are remembered for a table that is read again: its rows must have seen what was
given before. They are waiting for a standby at most, and those are as many as sessions."""

_HUGE: Final = 4
"""A transaction is cut inside at so many times the size of a batch."""


class Outside(Protocol):
    """Whom the changes ask and tell."""

    def shape_of(self, relation: Relation) -> RowShape | None:
        """Return the shape of a table's rows; None when it is not followed."""

    def has_signals(self, shape: RowShape) -> bool:
        """Return whether new rows of a table are signals."""

    def is_given(self, shape: RowShape) -> bool:
        """Return whether a table's changes are for others, too: those of signals may not be."""

    def signal(self, message: Message) -> None:
        """Take a message that somebody wrote into the log."""


@dataclass(slots=True)
class _Table:
    """A table that is followed.

    Attributes:
        shape: Its rows.
        signals: Whether its new rows are signals.
        given: Whether its changes are for others, too.
        group: Its changes since the last cut; None: none yet.
        rule: What becomes of its changes.
        ruled: For which transaction and plan the rule is.
    """

    shape: RowShape
    signals: bool = False
    given: bool = True
    group: Group | None = None
    rule: Rule | None = None
    ruled: int = -1


@dataclass(frozen=True, slots=True)
class Limits:
    """How large batches get.

    Attributes:
        rows, size: Changes and bytes after which the next commit ends a batch.
        toast: What becomes of large values that are not in the log: `fail` or `null`.
        counts: Changes are given their places in transactions.
        prefix: What datasets have before the names of their tables.
        uncounted: The `__op` of changes that have none: they are left out later.
    """

    rows: int
    size: int
    toast: str = "fail"
    counts: bool = False
    prefix: str = ""
    uncounted: frozenset[int] = frozenset()


class Changes:
    """Takes messages, gives batches.

    Attributes:
        position: The place that what was taken leads to, at the last end of a transaction.
        progress: What is still to be read of tables.
        inside: In the middle of a transaction.
        recent: The last transactions.
    """

    def __init__(
        self, outside: Outside, position: Position, progress: TableProgress, limits: Limits
    ) -> None:
        self.position = position
        self.progress = progress
        self.recent: deque[int] = deque(maxlen=_RECENT)
        self._outside = outside
        self._limits = limits
        self._tables: dict[int, _Table] = {}
        self._groups: list[Group] = []
        self._signals: list[dict[str, Any]] = []
        self._counter = TransactionCounter(str(position.cut_commit), dict(position.cut_counts))
        self._boundaries: list[Boundary] = []
        self._begin: Begin | None = None
        self._lsn = self._begin_lsn = 0
        self._events = 0
        self._skip = 0
        self._version = 0
        self._rows = 0
        self._size = 0
        self._kinds: dict[int, Callable[[bytes], None]] = {
            pgoutput.BEGIN: self._begun,
            pgoutput.COMMIT: self._committed,
            pgoutput.INSERT: self._changed,
            pgoutput.UPDATE: self._changed,
            pgoutput.DELETE: self._changed,
            pgoutput.TRUNCATE: self._truncated,
            pgoutput.RELATION: self._related,
            pgoutput.MESSAGE: self._told,
        }

    @property
    def inside(self) -> bool:
        """Whether it is in the middle of a transaction."""
        return self._begin is not None

    @property
    def rows(self) -> int:
        """Changes and ends of transactions that wait to be given, and signals that wait to be
        obeyed.
        """
        return self._rows + len(self._signals) + len(self._boundaries)

    def take(self, data: bytes, lsn: int = 0) -> None:
        """Take a message that stands at a place in the log."""
        self._lsn = lsn
        step = self._kinds.get(data[0])
        if step is None:
            return  # types and origins tell nothing that relations do not
        try:
            step(data)
        except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
            raise pgoutput.unreadable(data, error) from error

    def is_full(self) -> bool:
        """Return whether a batch is to be given now."""
        times = 1 if self._begin is None else _HUGE
        return self._rows >= self._limits.rows * times or self._size >= self._limits.size * times

    def passed(self, lsn: int) -> None:
        """Note that the server has sent all that is before a place."""
        if not self.inside and lsn > self.position.lsn:
            self._move(lsn)

    def again(self) -> None:
        """Begin anew after a lost connection, and a `cut`: what is behind the place comes again."""
        self._begin = None
        self._tables.clear()

    def replan(self) -> None:
        """Note that the plan was changed."""
        self._version += 1

    def take_signals(self) -> list[dict[str, Any]]:
        """Return the new rows of the table of signals since the last time, as texts, with `__op`;
        those too that are left out, since the table is still to be read itself.
        """
        signals, self._signals = self._signals, []
        return signals

    def take_boundaries(self) -> list[Boundary]:
        """Return where transactions begin and end whose changes are counted, since the last time:
        they are given with the changes of a `cut`.
        """
        boundaries, self._boundaries = self._boundaries, []
        return boundaries

    def cut(self) -> tuple[list[tuple[RowShape, pa.RecordBatch]], Position]:
        """Return the changes that wait, and the place behind them."""
        batches = [(group.shape, group.batch()) for group in self._groups if len(group)]
        if self._begin is not None and self._events > 0:
            events = max(self._events, self._skip if self._skip < _ALL else 0)
            commit = self._begin.commit_lsn
            counted = self._counter.counts if self._counter.id == str(commit) else {}
            counts = tuple(sorted(counted.items()))
            place = Position(self.position.lsn, commit, events, counts)
            self.position = place if self._skip < _ALL else self.position
        self._groups = []
        self._rows = self._size = 0
        for table in self._tables.values():
            table.group = None
        return batches, self.position

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _begun(self, data: bytes) -> None:
        begin = pgoutput.read_begin(data)
        self._begin, self._begin_lsn = begin, self._lsn
        self._events = self._skip = 0
        self._version += 1
        place = self.position
        if begin.commit_lsn < place.lsn:
            self._skip = _ALL  # given before: the server sends it again after a lost connection
        elif begin.commit_lsn == place.cut_commit:
            self._skip = place.cut_events

    def _committed(self, data: bytes) -> None:
        commit = pgoutput.read_commit(data)
        begin, counter = self._begin, self._counter
        if begin is not None:
            self.recent.append(begin.xid)
            if counter.open and counter.id == str(begin.commit_lsn):
                self._ended(begin)
        self._begin = None
        self._events = self._skip = 0
        if commit.end_lsn > self.position.lsn:
            self._move(commit.end_lsn)

    def _ended(self, begin: Begin) -> None:
        """Note the end of a transaction whose changes are counted, by their datasets."""
        counts = {
            dataset.removeprefix(f"{self._limits.prefix}."): count
            for dataset, count in self._counter.end().items()
        }
        id_ = f"{begin.xid}:{self._lsn}"
        self._boundaries.append(Boundary(END, id_, begin.stamp, counts))

    def _move(self, lsn: int) -> None:
        """Move on; what is known of a transaction that was cut stays until it is behind."""
        ahead = self.position.cut_commit >= lsn
        self.position = replace(self.position, lsn=lsn) if ahead else Position(lsn)

    def _related(self, data: bytes) -> None:
        relation = pgoutput.read_relation(data)
        shape = self._outside.shape_of(relation)
        if shape is None:
            self._tables.pop(relation.oid, None)
            return
        known = self._tables.get(relation.oid)
        if known is None or known.shape != shape or not known.shape.has_types_of(shape):
            has_signals, given = self._outside.has_signals(shape), self._outside.is_given(shape)
            self._tables[relation.oid] = _Table(shape, has_signals, given)

    def _told(self, data: bytes) -> None:
        message = pgoutput.read_message(data)
        if message.transactional:
            self._events += 1
            if self._events > self._skip:
                self._outside.signal(message)
        elif message.lsn >= self.position.lsn:
            self._outside.signal(message)
            self._move(message.lsn + 1)

    def _truncated(self, data: bytes) -> None:
        self._events += 1
        if self._events <= self._skip or self._begin is None:
            return
        for oid in pgoutput.read_truncate(data).oids:
            table = self._tables.get(oid)
            if table is None:
                continue
            gives = self.progress.truncated(oid)
            self._version += 1
            if gives:
                origin = self._origin(table, self._begin, Op.TRUNCATE)
                self._group(table).truncate(self._begin.stamp, origin)
                self._rows += 1

    def _changed(self, data: bytes) -> None:
        self._events += 1
        if self._events <= self._skip or self._begin is None:
            return
        table = self._tables.get(pgoutput.relation_of(data))
        if table is None:
            return
        rule = None
        if self.progress.running:
            if table.ruled != self._version:
                self._rule(table, self._begin.xid)
            rule = table.rule
        change = pgoutput.read_change(data)
        kind, before = data[0], self._rows
        if kind == pgoutput.INSERT:
            self._give(table, rule, Op.CREATE, change.new or [])
        elif kind == pgoutput.DELETE:
            self._give(table, rule, Op.DELETE, change.old or [])
        else:
            self._updated(table, rule, change)
        if self._rows != before:
            self._size += len(data)

    def _rule(self, table: _Table, xid: int) -> None:
        shape = table.shape
        table.rule = rule_for(self.progress, shape.oid, xid, shape.key, shape.order)
        table.ruled = self._version
        if table.rule is not None and table.rule.waits:
            self.progress.pending.add(xid)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def _updated(self, table: _Table, rule: Rule | None, change: Change) -> None:
        shape, new, old = table.shape, change.new or [], change.old
        if change.unsent:
            new = [
                before if value is UNSENT and change.whole else value
                for value, before in zip(new, old or new, strict=True)
            ]
        if old is not None and shape.identity_at:
            places = shape.identity_at
            old_key, new_key = shape.logged(old, places), shape.logged(new, places)
            if old_key != new_key and UNSENT not in new_key:
                self._give(table, rule, Op.DELETE, old)
                self._give(table, rule, Op.CREATE, new)
                return
        self._give(table, rule, Op.UPDATE, new, old if change.whole and shape.before else None)

    def _give(
        self,
        table: _Table,
        rule: Rule | None,
        op: Op,
        values: list[Value],
        before: list[Value] | None = None,
    ) -> None:
        shape = table.shape
        if table.signals and op == Op.CREATE:
            self._signals.append(_signal(shape, values))
        if rule is not None:
            if rule.upserts:
                op = op if op == Op.DELETE else Op.UPSERT
            elif rule.leaves(
                shape.order(shape.logged(values, shape.key_at)) if shape.order else ()
            ):
                return
        missing = ""
        row = picked(shape, values)
        if UNSENT in row:
            row, missing = without_unsent(shape, row, self._limits.toast)
        if self._begin is not None:
            old = None if before is None else picked(shape, before)
            origin = self._origin(table, self._begin, op)
            self._group(table).add(op, self._begin.stamp, origin, row, old, missing)
            self._rows += 1

    def _origin(self, table: _Table, begin: Begin, op: int) -> ChangeOrigin:
        place = None
        if self._limits.counts and table.given and op not in self._limits.uncounted:
            shown = f"{begin.xid}:{self._lsn}"
            place = self._counter.count(str(begin.commit_lsn), table.shape.dataset, shown)
            if place.total_order == 1:
                id_ = f"{begin.xid}:{self._begin_lsn}"
                self._boundaries.append(Boundary(BEGIN, id_, begin.stamp))
        return ChangeOrigin(begin.xid, self._lsn, self.position.lsn, place)

    def _group(self, table: _Table) -> Group:
        if table.group is None:
            table.group = Group(table.shape)
            self._groups.append(table.group)
        return table.group


def _signal(shape: RowShape, values: list[Value]) -> dict[str, Any]:
    """Return a new row of the table of signals."""
    texts = [one.decode() if isinstance(one, bytes) else None for one in picked(shape, values)]
    names = [field.name for field in shape.fields]
    return {**dict(zip(names, texts, strict=True)), OP.name: Op.CREATE}
