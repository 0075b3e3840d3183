"""Which changes of the log are given out while tables are being read. Pure.

A row and its changes reach people once, in an order that ends right, although rows are read while
they change. A piece of a table is read in a transaction that sees exactly the transactions `Seen`;
the log comes later. So a change is left out when

- its row will be read later: its table was not begun, or its key is beyond what was read;
- its row was read after it: a reading with its key in range saw its transaction.

Beyond the place in the log that is behind all a reading saw, its window closes. Keys must be
compared as the database does. Where that is not known, and where rows were given before (then a
delete that was left out would leave its row), nothing is left out: rows and changes come in an
order that ends right when they are upserted, and inserts and updates are named so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from penstock_databases.postgres_cdc.offsets import Plan, Window, Work
from penstock_databases.types import meaning

Key: TypeAlias = "tuple[Any, ...]"
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
    if meaning(field) == "uuid":  # lower case digits sort as the bytes do
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
        """Tell whether a change of this key is left out."""
        if self.leaves_all or (self.above is not None and key > self.above):
            return True
        return any(
            (low is None or key > low) and (high is None or key <= high)
            for low, high in self.ranges
        )


_LEFT: Rule = Rule(waits=True, leaves_all=True)


def rule_for(
    plan: Plan, table: int, xid: int, key: tuple[str, ...], order: Order | None
) -> Rule | None:
    """Return the rule for a table and a transaction; None: all changes are given as they are.

    Args:
        plan: What is still to be read.
        table: The table.
        xid: The transaction.
        key: The columns of its key now.
        order: How they compare.
    """
    windows = [window for window in plan.windows if window.table == table]
    work = plan.work if plan.work is not None and plan.work.table == table else None
    todo = plan.todo.get(table)
    if todo is None and work is None and not windows:
        return None
    waits = todo is not None or work is not None
    again = bool(todo) or (work is not None and work.again) or any(w.again for w in windows)
    by_key = bool(key) or any(w.low or w.high for w in windows)
    if again or (by_key and order is None) or (work is not None and work.last and work.key != key):
        return Rule(waits=waits, upserts=True)
    if todo is not None or (work is not None and work.last is None and not windows):
        return _LEFT
    ranges = tuple(
        (window.low and order(window.low), window.high and order(window.high))
        if order is not None
        else (None, None)
        for window in windows
        if window.seen.has(xid)
    )
    above = order(work.last) if work is not None and work.last and order is not None else None
    return Rule(waits=waits, above=above, ranges=ranges)


# ── what happens to a plan ───────────────────────────────────────────────────────────────────────


def close_windows(plan: Plan, lsn: int) -> None:
    """Close the windows that the log is past. The one of a table that is read in one go stays
    until it is read.
    """
    whole = plan.work.table if plan.work is not None and not plan.work.key else 0
    plan.windows = [w for w in plan.windows if w.until > lsn or w.table == whole]


def open_window(plan: Plan, window: Window, work: Work | None) -> None:
    """Note that a piece of the table in work was read; `work` is what is left, None: nothing."""
    plan.windows.append(window)
    plan.work = work


def truncated(plan: Plan, table: int) -> bool:
    """Note that a table was emptied; returns whether people are to be told.

    It is empty at this place, and all that comes after is in the log: nothing is left to read.
    """
    gives = plan.todo.get(table, True)
    forget(plan, table)
    return gives


def forget(plan: Plan, table: int) -> None:
    """Take a table out of the plan."""
    plan.todo.pop(table, None)
    plan.windows = [window for window in plan.windows if window.table != table]
    if plan.work is not None and plan.work.table == table:
        plan.work = None
