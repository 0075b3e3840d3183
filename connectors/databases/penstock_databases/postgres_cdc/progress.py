"""Which changes of the log are given out while tables are being read; see `cdc.progress`. Pure.

A chunk is read in a transaction that sees exactly the transactions `Seen`, and its window closes
beyond the place in the log that is behind all of them. A transaction is in the log a moment before
readers see it (a long one, when it waits for a standby), so a chunk must have seen every
transaction whose changes were left out for it, or given before it.

https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SNAPSHOT
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock_databases.cdc.progress import Key, Progress, Window
from penstock_values.semantic_types import semantic_type

_ROUND: Final = 1 << 32
"""Transactions are numbered with 64 bits; the log has the low 32 of them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a database snapshot sees of the transactions that are in the log, so are committed.

    Attributes:
        below: All below this are seen (`xmin`).
        until: None from this on are seen (`xmax`).
        running: Those in between that were running: they are not seen.
    """

    below: int
    until: int
    running: frozenset[int]

    @classmethod
    def of(cls, text: str) -> Seen:
        """Read what `pg_current_snapshot()` wrote: `xmin:xmax:xip,xip,…`."""
        below, until, running = text.split(":")
        return cls(int(below), int(until), frozenset(map(int, filter(None, running.split(",")))))

    def __str__(self) -> str:
        return f"{self.below}:{self.until}:{','.join(map(str, sorted(self.running)))}"

    def has(self, xid: int) -> bool:
        """Return whether it sees a committed transaction, by the low 32 bits of its number."""
        ahead = (xid - self.until + _ROUND // 2) % _ROUND - _ROUND // 2
        full = self.until + ahead
        return full < self.below or (ahead < 0 and full not in self.running)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a chunk is read.

    Attributes:
        seen: The transactions that it sees.
        number: Place in the log behind all of them.
    """

    seen: Seen
    number: int


@dataclass(slots=True)
class TableProgress(Progress[int, Moment]):
    """A snapshot beside the log. Tables are known by their numbers.

    Attributes:
        pending: Transactions whose changes were left out, or came before rows of their table: the
            next chunk must have seen them.
    """

    pending: set[int] = field(default_factory=set)

    def settle(self, moment: Moment) -> None:
        """Forget pending transactions that everybody sees by now."""
        self.pending = {xid for xid in self.pending if not moment.seen.has(xid)}

    def truncated(self, table: int) -> bool:
        """Note that a table was emptied; returns whether a row must say so.

        It is empty at this place, and all that comes after is in the log: nothing is left to read.
        """
        work = self.forget(table)
        return work is None or work.begun or work.keep


Order: TypeAlias = "Callable[[Sequence[Any]], Key]"
"""Makes texts of a key (str or bytes) comparable as the database compares it."""


def order_of(fields: Sequence[pa.Field]) -> Order | None:
    """Return how keys of these columns compare; None when only the database knows."""
    steps = [_step(field) for field in fields]
    if not steps or None in steps:
        return None
    if len(steps) == 1 and steps[0] is int:
        return lambda texts: (int(texts[0]),)
    return lambda texts: tuple(step(text) for step, text in zip(steps, texts, strict=True))  # type: ignore[misc] # no None here


def _step(field: pa.Field) -> Callable[[Any], Any] | None:
    if pa.types.is_integer(field.type):
        return int
    if semantic_type(field) == "uuid":  # lower case digits sort as the bytes do
        return lambda text: text if isinstance(text, str) else text.decode()
    return None


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of the changes of one table in one transaction.

    Attributes:
        waits: Rows of the table are still to be read: these must have seen the transaction.
        upserts: Nothing is left out; inserts and updates are upserts.
        leaves_all: All are left out.
        above: Those with a key above are left out.
        ranges: Those with a key above the first and up to the second are left out.
    """

    waits: bool = False
    upserts: bool = False
    leaves_all: bool = False
    above: Key | None = None
    ranges: tuple[tuple[Key | None, Key | None], ...] = ()

    def leaves(self, key: Key) -> bool:
        """Return whether a change of this key is left out."""
        if self.leaves_all or (self.above is not None and key > self.above):
            return True
        return any(
            (low is None or key > low) and (high is None or key <= high)
            for low, high in self.ranges
        )


_LEFT: Rule = Rule(waits=True, leaves_all=True)


def rule_for(
    progress: TableProgress, table: int, xid: int, key: tuple[str, ...], order: Order | None
) -> Rule | None:
    """Return the rule for a table and a transaction; None: all changes are given as they are.

    Args:
        progress: What is still to be read.
        table: The table.
        xid: The transaction.
        key: The columns of its key now.
        order: How they compare.
    """
    work, windows = progress.work.get(table), progress.windows_of(table)
    if work is None and not windows:
        return None
    waits = work is not None
    by_key = bool(key) or any(w.after or w.upto for w in windows)
    again = not all(window.exact for window in windows)
    last = None
    if work is not None:
        again = again or work.keep or (work.last is not None and work.columns != key)
        last = work.last
    if again or (by_key and order is None):
        return Rule(waits=waits, upserts=True)
    if work is not None and not work.begun:
        return _LEFT
    ranges = tuple(_compared(window, order) for window in windows if window.place.seen.has(xid))
    return Rule(waits=waits, above=order(last) if last and order else None, ranges=ranges)


def _compared(window: Window[int, Moment], order: Order | None) -> tuple[Key | None, Key | None]:
    if order is None:
        return None, None
    return window.after and order(window.after), window.upto and order(window.upto)
