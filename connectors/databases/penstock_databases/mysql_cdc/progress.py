"""How far the snapshot is, and what that makes of changes in the log. Pure.

A chunk holds the rows of a range of keys as they were at a place in the log. Until the log was
read up to there, the chunk is a window:

- a change before the place, of a key in the range, is in the chunk already: dropped
- a change of a key that no chunk has come to yet will be in its chunk: dropped
- every other change is given

so that every change is given once. That needs keys that can be compared here as the server
compares them, single integers, and places that are exact. Otherwise nothing is dropped and what is
in doubt is given as an upsert: whoever keeps rows by key ends with the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_connector import Op
from penstock_databases.mysql_cdc.gathering import Changes, Table
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.statements import TableName

KeyValue = int | str | bytes
Key = tuple[KeyValue, ...]

WINDOWS_MOST: Final = 64
"""Windows that may be open. More of them make every offset larger and every change slower to
settle; the snapshot waits for the log then."""


@dataclass(frozen=True, slots=True)
class Window:
    """A range of keys of a table, read as they were at a place.

    Attributes:
        table: The table.
        after: The key before the first; None: from the beginning.
        upto: The last key; None: to the end.
        place: Where in the log.
        exact: Whether the place is exact.
    """

    table: TableName
    after: Key | None
    upto: Key | None
    place: Place
    exact: bool = True


@dataclass(slots=True)
class Work:
    """A table that is to be read, or is being read.

    Attributes:
        table: The table.
        last: The last key that was given; None when none was.
        begun: Whether rows of it were given.
        keep: Whether no change may be dropped: it was read before, or its chunks have no exact
            place.
    """

    table: TableName
    last: Key | None = None
    begun: bool = False
    keep: bool = False


@dataclass(slots=True)
class Progress:
    """The snapshot.

    Attributes:
        work: Tables that are not read to their end, in the order in which they are begun.
        windows: Chunks that the log has not come to.
    """

    work: dict[TableName, Work] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether there is anything to read, or to settle."""
        return bool(self.work or self.windows)

    def add(self, tables: Iterable[TableName], *, keep: bool = False) -> None:
        """Take tables that are to be read, from their beginning."""
        for table in tables:
            self.work[table] = Work(table, keep=keep)

    def resumed(self) -> None:
        """Begin again after a crash: a table without a key is read from its first row on."""
        for work in list(self.work.values()):
            if work.begun and work.last is None:
                self.forget(work.table)
                self.add([work.table], keep=work.keep)

    def given(self, window: Window, *, done: bool) -> None:
        """Take note of rows that are given out: those of a range, up to a key."""
        for place, one in enumerate(self.windows):
            if _continues(one, window):
                joined = Window(window.table, one.after, window.upto, window.place, window.exact)
                self.windows[place] = joined
                break
        else:
            self.windows.append(window)
        if done:
            del self.work[window.table]
        else:
            work = self.work[window.table]
            work.last, work.begun = window.upto, True
            work.keep = work.keep or not window.exact

    def passed(self, number: int) -> None:
        """Close windows that the log was read past."""
        if self.windows:
            self.windows = [one for one in self.windows if one.place.number > number]

    def forget(self, table: TableName) -> Work | None:
        """Drop all that is known of a table; returns what was left to do there."""
        self.windows = [one for one in self.windows if one.table != table]
        return self.work.pop(table, None)

    def inexact(self, place: Place) -> None:
        """Take the windows to another server, where places are others: they end at this one."""
        self.windows = [
            Window(one.table, one.after, one.upto, place, exact=False) for one in self.windows
        ]
        for work in self.work.values():
            work.keep = work.keep or work.begun

    def settle(self, table: Table, changes: Changes) -> Changes:
        """Return what is to be given of changes."""
        name = table.database, table.name
        work = self.work.get(name)
        windows = [one for one in self.windows if one.table == name]
        if work is None and not windows:
            return changes
        exact = all(one.exact for one in windows) and not (work and work.keep)
        drop, doubt = np.zeros((2, len(changes.ops)), np.bool_)
        if work and not work.begun and exact:
            drop[:] = True
        elif not exact or not _comparable(table):
            _doubted(work, windows, changes, drop, doubt, exact=exact)
        else:
            keys = _keys(changes.columns[table.layout.key[0]])
            if work and work.last is not None:
                drop |= keys > np.array(work.last[0], keys.dtype)
            for one in windows:
                drop |= _inside(one, keys) & (changes.numbers <= one.place.number)
        created = (changes.ops == Op.CREATE) | (changes.ops == Op.UPDATE)
        changes.ops[doubt & created] = Op.UPSERT
        return changes.kept(~drop) if drop.any() else changes


def _continues(last: Window, window: Window) -> bool:
    """Tell whether rows are the next ones of the same chunk."""
    same = last.table == window.table and last.place == window.place
    return same and last.exact == window.exact and last.upto == window.after


def _doubted(
    work: Work | None,
    windows: list[Window],
    changes: Changes,
    drop: npt.NDArray[np.bool_],
    doubt: npt.NDArray[np.bool_],
    *,
    exact: bool,
) -> None:
    """Settle changes whose keys cannot be compared."""
    for one in windows:
        before = changes.numbers <= one.place.number
        if exact and one.after is None and one.upto is None:
            drop |= before  # the whole table: no key is needed
        else:
            doubt |= before
    if work:
        doubt[:] = True


def _comparable(table: Table) -> bool:
    key = table.layout.key
    if len(key) != 1:
        return False
    kind = table.layout.fields[key[0]].type
    return bool(pa.types.is_integer(kind) or kind == pa.decimal128(20, 0))


def _keys(column: pa.Array) -> npt.NDArray[np.int64] | npt.NDArray[np.uint64]:
    if pa.types.is_decimal(column.type):
        words = np.frombuffer(column.buffers()[1], np.uint64)
        first = column.offset * 2
        found: npt.NDArray[np.uint64] = words[first : first + len(column) * 2 : 2]
        return found
    numbers: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _inside(
    window: Window, keys: npt.NDArray[np.int64] | npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    inside = np.ones(len(keys), np.bool_)
    if window.after is not None:
        inside &= keys > np.array(window.after[0], keys.dtype)
    if window.upto is not None:
        inside &= keys <= np.array(window.upto[0], keys.dtype)
    return inside
