"""Which rows of a look go out, and up to where time is settled after it. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from penstock_connector.tables.columns import Column
from penstock_databases.dialect import Stamp
from penstock_databases.jdbc_source.modes import Where, after, compared
from penstock_databases.jdbc_source.places import Place, time_value
from penstock_databases.jdbc_source.window import MOST, Window

_UNITS = {"s": 1_000_000, "ms": 1_000, "milli": 1_000}


@dataclass(frozen=True, slots=True)
class Look:
    """What one statement asks for.

    Attributes:
        stamp: The time of rows.
        keys: Columns that order rows of one time; none: rows of one time have no order.
        order: All that rows are ordered by, as SQL.
        start: Where it begins.
        again: It begins where time is settled; else behind the newest row.
        settled: Microseconds; older rows are settled.
        upper: Microseconds; younger rows wait.
        limit: Rows to ask for.
    """

    stamp: Stamp
    keys: tuple[Column, ...]
    order: tuple[str, ...]
    start: Place
    again: bool
    settled: int
    upper: int
    limit: int

    @property
    def where(self) -> Where:
        """The condition of its rows."""
        at, form = self.stamp.sql, self.stamp.form
        value = time_value(self.start.at, form)
        upper = compared(at, "<=", time_value(self.upper, form))
        if self.start.key is None or len(self.start.key) not in {0, len(self.keys)}:
            return compared(at, ">=", value) & upper
        if not self.keys or not self.start.key:
            return compared(at, ">", value) & upper
        return after(self.order, (value, *self.start.key)) & upper


@dataclass(frozen=True, slots=True)
class Picked:
    """What becomes of the rows of a look.

    Attributes:
        rows: Places of the rows that go out.
        count: How many rows were looked at.
        limited: More rows may wait behind them.
        marks: Times and digests of the rows to remember.
    """

    rows: list[int]
    count: int
    limited: bool
    marks: list[tuple[int, bytes]]


def settled_at(now: int, late: float, form: str) -> int:
    """Return the time before which rows are settled, as exactly as times are compared."""
    at = now - round(late * 1_000_000)
    return at - at % _UNITS.get(form, 1)


def whole_runs(times: Sequence[int], look: Look, *, limited: bool) -> int:
    """Return how many rows to look at. Without a key a run of equal times is taken as a whole, or
    left for the next look; a run that is still young is remembered row by row instead.
    """
    if not limited or look.keys or times[-1] >= look.settled:
        return len(times)
    return bisect.bisect_left(times, times[-1])


def first_to_mark(times: Sequence[int], look: Look, window: Window, count: int) -> int:
    """Return the first row whose digest matters: the others are settled, and seen once."""
    if len(window) or not look.again:
        return 0
    return min(bisect.bisect_left(times, look.settled), count)


def pick(
    times: Sequence[int],
    marks: Sequence[tuple[int, bytes]],
    look: Look,
    window: Window,
    *,
    count: int,
    limited: bool,
) -> Picked:
    """Return which of the first `count` rows go out. `marks` are those of the last of them."""
    first = count - len(marks)
    # what a look behind the newest row gives is read again: time is not settled by it
    young = bisect.bisect_left(times, look.settled) if look.again else 0
    room = MOST - len(window)
    rows = list(range(first))
    remembered: list[tuple[int, bytes]] = []
    for place, (mark, is_new) in enumerate(zip(marks, window.new(marks), strict=True), first):
        if not is_new:
            continue
        if place >= young:
            if room <= 0:
                return Picked(rows, place, limited=True, marks=remembered)
            room -= 1
            remembered.append(mark)
        rows.append(place)
    return Picked(rows, count, limited, remembered)


def settle(look: Look, newest: Place, last: Place | None, *, limited: bool) -> Place:
    """Return up to where time is settled after a look that began there.

    Args:
        look: The look.
        newest: The newest row that ever went out.
        last: The last row that was looked at; None when there was none.
        limited: More rows may wait behind it.
    """
    if limited and last is None:
        return look.start
    reached = last if limited and last is not None else newest
    if reached.at < look.settled:
        return reached if reached.at >= look.start.at else look.start
    return Place(look.settled) if look.settled > look.start.at else look.start
