"""How far a snapshot is. Pure.

A chunk holds the rows of a range of keys as they were at a place in the log. Until the log was
read past that place the chunk is a window, because changes in its range may be in its rows. Both
sources follow the same rules:

- a change of a key that no chunk has come to yet is left out: its chunk will have it
- a change in a window that its chunk has seen is left out
- every other change is given

So every change is given once. That needs keys that compare here as they do in the server, and
rows that were not given before (a delete that is left out would leave its row). Otherwise nothing
is left out, and inserts and updates in doubt are upserts: whoever keeps rows by key ends with the
same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from penstock_databases.cdc.snapshot_marks import (
    FIRST,
    FIRST_OF_TABLE,
    INCREMENTAL,
    LAST,
    LAST_OF_TABLE,
    READ,
    snapshot_marks,
)

Key: TypeAlias = "tuple[Any, ...]"
"""Values of a key's columns, in the key's order."""


class LogPlace(Protocol):
    """A place in a log."""

    @property
    def number(self) -> int:
        """It grows along the log."""


T = TypeVar("T", bound=Hashable)
P = TypeVar("P", bound=LogPlace)


@dataclass(frozen=True, slots=True)
class Window(Generic[T, P]):
    """A range of keys of a table, read as they were at a place.

    Attributes:
        table: The table.
        after: The key before the first; None: from the beginning.
        upto: The last key; None: to the end.
        place: Where in the log.
        exact: Whether changes may be left out.
    """

    table: T
    after: Key | None
    upto: Key | None
    place: P
    exact: bool = True


@dataclass(slots=True)
class Work(Generic[T]):
    """A table that is to be read, or is being read.

    Attributes:
        table: The table.
        last: The last key that was given; None when none was.
        begun: Whether rows of it were given.
        keep: Whether no change may be left out: it was read before, or its chunks have no exact
            place.
        columns: Columns of the key by which it is read, where they can change meanwhile.
        condition: SQL that the rows meet that are read; empty: all.
        incremental: A signal asked for it: it is no part of a snapshot that has an end.
    """

    table: T
    last: Key | None = None
    begun: bool = False
    keep: bool = False
    columns: tuple[str, ...] = ()
    condition: str = ""
    incremental: bool = False


@dataclass(slots=True)
class Progress(Generic[T, P]):
    """A snapshot.

    Attributes:
        work: Tables that are not read to their end, in the order in which they are begun.
        windows: Chunks that the log has not passed.
        paused: No chunk is begun until this is taken back, or nothing is left to read.
        signals: How far channels of signals were read, by their names.
        started: Rows of the snapshot were given; those of signals are none of it.
    """

    work: dict[T, Work[T]] = field(default_factory=dict)
    windows: list[Window[T, P]] = field(default_factory=list)
    paused: bool = False
    signals: dict[str, Any] = field(default_factory=dict)
    started: bool = False

    @property
    def running(self) -> bool:
        """Whether there is anything to read, or to settle."""
        return bool(self.work or self.windows)

    def windows_of(self, table: T) -> list[Window[T, P]]:
        """Return the windows of a table."""
        return [one for one in self.windows if one.table == table]

    def add(
        self,
        tables: Iterable[T],
        *,
        keep: bool = False,
        condition: str = "",
        anew: bool = False,
        incremental: bool = False,
    ) -> None:
        """Take tables that are to be read, from their beginning. Of one that is being read already,
        the rows that meet either condition are.

        Args:
            tables: The tables.
            keep: No change may be left out.
            condition: SQL that the rows meet that are read; empty: all.
            anew: Their work was forgotten just now, for this: a pause stays.
            incremental: A signal asks for them.
        """
        self.paused = self.paused and (anew or bool(self.work))
        self.started = self.started and (anew or bool(self._of_snapshot()))
        for table in tables:
            was = self.work.get(table)
            made = Work(table, keep=keep, condition=condition, incremental=incremental)
            if was is not None:
                made.keep = keep or was.keep
                made.condition = _either(was.condition, condition)
                made.incremental = incremental and was.incremental
            self.work[table] = made

    def reads_all(self, table: T) -> bool:
        """Return whether a table is to be read, or being read, and all of its rows."""
        work = self.work.get(table)
        return work is not None and not work.condition

    def keep_all(self, tables: Iterable[T]) -> None:
        """Leave out no change of tables that are read: their chunks may not have all rows."""
        for table in tables:
            if (work := self.work.get(table)) is not None:
                work.keep = True

    def given(self, window: Window[T, P], *, done: bool) -> None:
        """Take note of rows that are given out: those of a range, up to a key."""
        for at, one in enumerate(self.windows):
            if _continues(one, window):
                joined = Window(window.table, one.after, window.upto, window.place, window.exact)
                self.windows[at] = joined
                break
        else:
            self.windows.append(window)
        if done:
            del self.work[window.table]
        else:
            work = self.work[window.table]
            work.last, work.begun = window.upto, True
            work.keep = work.keep or not window.exact

    def marks(
        self, window: Window[T, P], count: int, *, done: bool, follow: Callable[[T], bool]
    ) -> pa.Array:
        """Return the marks of rows that are `given` next.

        Args:
            window: Where they are from.
            count: How many.
            done: They are the table's last.
            follow: Whether a table that is to be read has rows.
        """
        work = self.work[window.table]
        if work.incremental:
            return pa.repeat(pa.scalar(INCREMENTAL), count)
        first = last = READ
        if not work.begun:
            first = FIRST_OF_TABLE if self.started else FIRST
        if done:
            others = (one for one in self._of_snapshot() if one is not work)
            more = any(one.begun or follow(one.table) for one in others)
            last = LAST_OF_TABLE if more else LAST
        self.started = self.started or count > 0
        return snapshot_marks(count, first, last)

    def _of_snapshot(self) -> list[Work[T]]:
        return [work for work in self.work.values() if not work.incremental]

    def passed(self, number: int) -> None:
        """Close windows that the log was read past. The window of a table that is read in one go
        stays until all of its rows were given.
        """
        self.windows = [
            one for one in self.windows if one.place.number > number or self._is_open(one.table)
        ]

    def forget(self, table: T) -> Work[T] | None:
        """Drop all that is known of a table; returns what was left to do there."""
        self.windows = [one for one in self.windows if one.table != table]
        return self.work.pop(table, None)

    def _is_open(self, table: T) -> bool:
        work = self.work.get(table)
        return work is not None and work.begun and work.last is None


def _either(one: str, other: str) -> str:
    """Return the SQL that rows meet that meet either condition; an empty one is met by all."""
    if not one or not other:
        return ""
    return one if one == other else f"({one}) OR ({other})"


def _continues(last: Window[T, P], window: Window[T, P]) -> bool:
    """Return whether rows are the next ones of the same chunk."""
    same = last.table == window.table and last.place == window.place
    return same and last.exact == window.exact and last.upto == window.after
