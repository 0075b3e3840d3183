"""Rows of the log, gathered by table until they are worth a batch.

Rows of one table keep their order; those of several tables are given table by table, all before
the next checkpoint.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import Batch, Op
from penstock_databases.cdc.rows import BEFORE, OP, SOURCE, reserved_fields, snapshot_columns
from penstock_databases.cdc.transactions import (
    BEGIN,
    END,
    Boundary,
    TransactionCounter,
    TransactionPlace,
    boundary_batch,
    transaction_column,
)
from penstock_databases.mysql_cdc.arena import Arena, Ints
from penstock_databases.mysql_cdc.origins import (
    EventOrigin,
    log_origins,
    snapshot_origins,
    with_places,
)
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.rows import Layout
from penstock_databases.mysql_cdc.statements import TableName

_SCHEMA_CHANGE: Final = pa.schema([
    ("database", pa.string()), ("table", pa.string()), ("ddl", pa.string()),
    ("__op", pa.int8()), ("__ts_us", pa.int64()),
])  # fmt: skip

Ops = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows are read from the log, as it was at some time.

    Attributes:
        database: Its database.
        name: Its name.
        dataset: Dataset of its rows.
        layout: How its rows are read.
        schema: Schema of batches of it.
        key_at: Places of the columns of the key that rows are given with; None: the primary key.
    """

    database: str
    name: str
    dataset: str
    layout: Layout
    schema: pa.Schema
    key_at: tuple[int, ...] | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the columns of the key that rows are given with."""
        places = self.layout.key if self.key_at is None else self.key_at
        return tuple(self.layout.fields[place].name for place in places)

    @property
    def identity(self) -> tuple[int, ...]:
        """Places of the columns of both keys: an update of one of them moves a row."""
        return tuple(dict.fromkeys((*self.layout.key, *(self.key_at or ()))))

    @property
    def has_origins(self) -> bool:
        """Whether rows say where in the log they are from."""
        return SOURCE in self.schema.names


def batch_schema(
    fields: tuple[pa.Field, ...], *, before: bool, source: pa.DataType | None = None
) -> pa.Schema:
    """Return the schema of batches: the row, and the reserved columns. `source` is the type of what
    says where rows are from; None: nothing does.
    """
    return pa.schema([*fields, *reserved_fields(fields, before=before, source=source)])


@dataclass(slots=True)
class Changes:
    """Changed rows of a table, column by column.

    Attributes:
        columns: The rows after the changes; of deleted ones, before.
        before: The rows before, for updates; null elsewhere; None when nobody wants them.
        ops: What was done.
        stamps: When, in microseconds.
        numbers: Where in the log.
        events: Numbers of their events, in the order of the log.
        origins: Where in the log, in the words of an envelope; None when nobody wants them.
    """

    columns: list[pa.Array]
    before: pa.Array | None
    ops: Ops
    stamps: Ints
    numbers: Ints
    events: Ints
    origins: pa.Array | None = None

    def kept(self, keep: npt.NDArray[np.bool_]) -> Changes:
        """Return those that are to be kept."""
        mask = pa.array(keep)
        return Changes(
            [column.filter(mask) for column in self.columns],
            self.before.filter(mask) if self.before is not None else None,
            self.ops[keep],
            self.stamps[keep],
            self.numbers[keep],
            self.events[keep],
            self.origins.filter(mask) if self.origins is not None else None,
        )

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Return their rows one by one, with `__op`."""
        schema = pa.schema([*table.layout.fields, OP])
        columns = [*self.columns, pa.array(self.ops)]
        found: list[dict[str, Any]] = pa.RecordBatch.from_arrays(columns, schema=schema).to_pylist()
        return found

    def batch(self, table: Table) -> Batch:
        """Return them as a batch without an offset."""
        columns = [*self.columns, pa.array(self.ops), pa.array(self.stamps)]
        columns += [one for one in (self.before, self.origins) if one is not None]
        rows = pa.RecordBatch.from_arrays(columns, schema=table.schema)
        return Batch(rows, dataset=table.dataset, key_columns=table.key)


Settle = Callable[[Table, Changes], Changes]
"""What the snapshot makes of changes: some are dropped, some become upserts."""


@dataclass(slots=True)
class _Pile:
    """Row images of a table, and what each event did."""

    table: Table
    rows: bytearray = field(default_factory=bytearray)
    starts: array[int] = field(default_factory=lambda: array("q"))
    events: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list)
    origins: list[EventOrigin] = field(default_factory=list)

    def add(
        self,
        op: int,
        data: Any,
        stamp: int,
        number: int,
        skip: int,
        event: int,
        origin: EventOrigin | None,
    ) -> int:
        """Add the rows of an event; returns how many there were, with those that are skipped."""
        at, first = len(self.rows), len(self.starts)
        self.rows += data
        self.table.layout.starts(self.rows, at, self.starts)
        images = 2 if op == Op.UPDATE else 1
        count = (len(self.starts) - first) // images
        left = count - min(skip, count)
        if left < count:
            del self.starts[first : first + (count - left) * images]
        if left:
            self.events.append((op, first, left, stamp, number, count - left, event))
            if origin is not None:
                self.origins.append(origin)
        else:
            del self.rows[at:]
        return count

    def changes(self, *, before: bool) -> Changes:
        """Return all as columns."""
        op, first, count, stamp, number, skipped, event = np.array(self.events, np.int64).T
        ops = np.repeat(op, count).astype(np.int8)
        updated = ops == Op.UPDATE
        ends = np.cumsum(count)
        inside = np.arange(ends[-1]) - np.repeat(ends - count, count)
        place = np.repeat(first, count) + inside * np.where(updated, 2, 1)
        starts = np.frombuffer(self.starts, np.int64)
        arena = Arena(self.rows)
        columns = self.table.layout.columns(arena, starts[place + updated])
        old = None
        if updated.any() and (before or self.table.identity):
            old = self._before(arena, starts[place[updated]], updated)
        stamps, numbers = np.repeat(stamp, count), np.repeat(number, count)
        origins = None
        if self.origins:
            event_of = np.repeat(np.arange(len(count)), count)
            name = self.table.database, self.table.name
            row_of = inside + np.repeat(skipped, count)
            origins = log_origins(name, self.origins, event_of, row_of)
        found = Changes(columns, old, ops, stamps, numbers, np.repeat(event, count), origins)
        found = moved(found, self.table.identity) if old is not None else found
        if not before:
            found.before = None
        elif found.before is None:
            found.before = pa.nulls(len(ops), self.table.schema.field(BEFORE).type)
        return found

    def _before(self, arena: Arena, starts: Ints, updated: npt.NDArray[np.bool_]) -> pa.Array:
        fields = list(self.table.layout.fields)
        old = pa.StructArray.from_arrays(self.table.layout.columns(arena, starts), fields=fields)
        if updated.all():
            return old
        where = np.cumsum(updated) - 1
        return old.take(pa.array(where, mask=~updated))


def moved(changes: Changes, key: tuple[int, ...]) -> Changes:
    """Return changes in which an update of a key is a delete and a create.

    Whoever keeps rows by their key would keep the row under its old key otherwise.
    """
    if not key or changes.before is None:
        return changes
    differs = np.zeros(len(changes.ops), np.bool_)
    for place in key:
        was, now = changes.before.field(place), changes.columns[place]
        unequal = pc.fill_null(pc.not_equal(was, now), pc.xor(pc.is_null(was), pc.is_null(now)))
        differs |= unequal.to_numpy(zero_copy_only=False)
    differs &= changes.ops == Op.UPDATE
    if not differs.any():
        return changes
    count = len(differs)
    index = np.repeat(np.arange(count), 1 + differs)
    second = np.concatenate([[False], index[1:] == index[:-1]])
    first = differs[index] & ~second
    ops = changes.ops[index]
    ops[first], ops[second] = Op.DELETE, Op.CREATE
    take = pa.array(np.where(first, index + count, index))
    columns = [
        pa.concat_arrays([column, changes.before.field(place)]).take(take)
        for place, column in enumerate(changes.columns)
    ]
    before = changes.before.take(pa.array(index, mask=first | second))
    origins = changes.origins.take(pa.array(index)) if changes.origins is not None else None
    return Changes(
        columns,
        before,
        ops,
        changes.stamps[index],
        changes.numbers[index],
        changes.events[index],
        origins,
    )


class Gathering:
    """The rows of all tables since the last batches.

    Attributes:
        bytes: Bytes of row images held.
        count: Rows held.
        counter: Counts changes in their transactions; None: nobody asks.
    """

    def __init__(
        self,
        *,
        before: bool,
        counter: TransactionCounter | None = None,
        boundaries: str = "",
        uncounted: frozenset[int] = frozenset(),
        counts: Callable[[Table], bool] = lambda _: True,
    ) -> None:
        """Begin without rows.

        Args:
            before: Updates have the row before.
            counter: Counts changes in their transactions.
            boundaries: The dataset of the begins and ends of transactions that are counted.
            uncounted: The `__op` of rows that do not count: they are left out later.
            counts: Whether rows of a table do.
        """
        self.bytes = self.count = 0
        self.counter = counter
        self._boundaries, self._uncounted, self._counts = boundaries, uncounted, counts
        self._ends: list[tuple[int, int]] = []  # of transactions: events before it, and when
        self._transactions: list[str] = []  # of events, by their numbers
        self._before = before
        self._piles: dict[tuple[str, str], _Pile] = {}

    @property
    def holds(self) -> bool:
        """Whether there is anything to take: rows, or the end of a transaction whose rows were."""
        ended = bool(self._ends) and self.counter is not None and self.counter.open
        return self.count > 0 or ended

    def committed(self, stamp: int) -> None:
        """Note that the transaction ended whose rows were added last."""
        if self.counter is None or not (self._transactions or self.counter.open):
            return
        events = len(self._transactions)
        if not self._ends or self._ends[-1][0] < events:
            self._ends.append((events, stamp))

    def changed(self, table: Table) -> bool:
        """Return whether rows of an older form of the table are held: they must be given first."""
        pile = self._piles.get((table.database, table.name))
        return pile is not None and pile.table.layout is not table.layout

    def add(
        self,
        table: Table,
        op: int,
        data: Any,
        stamp: int,
        number: int,
        skip: int = 0,
        origin: EventOrigin | None = None,
    ) -> int:
        """Add the rows of an event; returns how many there were, with those that are skipped. Rows
        of a table that `has_origins` have an `origin`.
        """
        name = table.database, table.name
        pile = self._piles.get(name)
        if pile is None:
            pile = self._piles[name] = _Pile(table)
        event = len(self._transactions)
        count = pile.add(op, data, stamp, number, skip, event, origin)
        if self.counter is not None and origin is not None:
            self._transactions.append(origin.transaction)
        if count > skip:
            self.bytes += len(data)
            self.count += count - skip
        return count

    def take(self, settle: Settle) -> list[Batch]:
        """Return all as batches, none of them with an offset; nothing is held then."""
        found = []
        for pile in self._piles.values():
            if not pile.events:
                continue
            changes = settle(pile.table, pile.changes(before=self._before))
            if len(changes.ops):
                found.append((pile.table, changes))
        boundaries = [] if self.counter is None else self._count(found, self.counter)
        self._piles.clear()
        self._transactions.clear()
        self._ends.clear()
        self.bytes = self.count = 0
        batches = [changes.batch(table) for table, changes in found]
        return [*batches, *([boundary_batch(boundaries, self._boundaries)] if boundaries else [])]

    def _count(
        self, found: list[tuple[Table, Changes]], counter: TransactionCounter
    ) -> list[Boundary]:
        """Give changes their places in transactions: in the order of the log, over all tables.
        Returns where the transactions of these changes begin and end.
        """
        events = np.concatenate([np.zeros(0, np.int64), *(one.events for _, one in found)])
        places: list[list[TransactionPlace | None]] = [
            [None] * len(changes.ops) for _, changes in found
        ]
        rows = [(at, row) for at, one in enumerate(places) for row in range(len(one))]
        boundaries: list[Boundary] = []
        ends = deque(self._ends)
        for number in np.argsort(events, kind="stable").tolist():
            event = int(events[number])
            while ends and ends[0][0] <= event:
                boundaries += _ended(counter, ends.popleft()[1])
            at, row = rows[number]
            table, changes = found[at]
            if int(changes.ops[row]) in self._uncounted or not self._counts(table):
                continue
            place = counter.count(self._transactions[event], f"{table.database}.{table.name}")
            places[at][row] = place
            if place.total_order == 1:
                boundaries.append(Boundary(BEGIN, place.id, int(changes.stamps[row])))
        for _, stamp in ends:
            boundaries += _ended(counter, stamp)
        for (_, changes), one in zip(found, places, strict=True):
            if changes.origins is not None:
                changes.origins = with_places(changes.origins, transaction_column(one))
        return boundaries


def _ended(counter: TransactionCounter, stamp: int) -> list[Boundary]:
    """Return the end of a transaction; of none whose changes were all left out."""
    return [Boundary(END, counter.id, stamp, counter.end())] if counter.open else []


# ── batches that are not rows of the log ─────────────────────────────────────────────────────────


def snapshot_batch(
    table: Table, rows: pa.RecordBatch, stamp: int, place: Place, marks: pa.Array
) -> Batch:
    """Return rows of a chunk, which was read at a place in the log, with their marks."""
    columns = [*rows.columns, *snapshot_columns(rows.num_rows, stamp)]
    if BEFORE in table.schema.names:
        columns.append(pa.nulls(rows.num_rows, table.schema.field(BEFORE).type))
    if table.has_origins:
        name, kind = (table.database, table.name), table.schema.field(SOURCE).type
        columns.append(snapshot_origins(name, place, marks, kind))
    made = pa.RecordBatch.from_arrays(columns, schema=table.schema)
    return Batch(made, dataset=table.dataset, key_columns=table.key)


def truncate_batch(table: Table, stamp: int, origin: EventOrigin) -> Batch:
    """Return the row that says that a table is empty, by a statement that stands in the log."""
    nulls = [pa.nulls(1, field.type) for field in table.schema]
    width = len(table.layout.fields)
    nulls[width], nulls[width + 1] = pa.array([int(Op.TRUNCATE)], pa.int8()), pa.array([stamp])
    if table.has_origins:
        first = np.zeros(1, np.int64)
        origins = log_origins((table.database, table.name), [origin], first, first)
        if nulls[-1].type != origins.type:  # a statement is no part of a transaction
            origins = with_places(origins, transaction_column([None]))
        nulls[-1] = origins
    rows = pa.RecordBatch.from_arrays(nulls, schema=table.schema)
    return Batch(rows, dataset=table.dataset, key_columns=table.key)


def schema_change_batch(dataset: str, table: TableName, statement: str, stamp: int) -> Batch:
    """Return the row that tells of a statement that changed a table."""
    row: dict[str, str | int] = {"database": table[0], "table": table[1], "ddl": statement}
    row |= {"__op": int(Op.UNSPECIFIED), "__ts_us": stamp}
    return Batch(pa.RecordBatch.from_pylist([row], schema=_SCHEMA_CHANGE), dataset=dataset)
