"""Sources that make their rows: how many are due now, and how long to wait for the next."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

GROUP: Final = 0.1
"""Seconds whose rows are given together. A batch costs the same however few rows it has: shorter
costs CPU at every later step, longer delays rows."""


class Pace:
    """At most so many rows a second. A pace of 0 holds nothing back.

    What could not be given in time (the host had no room) is not made up for beyond a second: a
    source that was paused for an hour goes on at its pace.
    """

    def __init__(self, rows_per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rows_per_second
        self._group = max(1, int(rows_per_second * GROUP))
        self._clock = clock
        self._since = clock()
        self._given = 0

    def due(self, most: int) -> int:
        """Return how many rows may be given now."""
        if not self._rate:
            return most
        now = self._clock()
        owed = (now - self._since) * self._rate - self._given
        if owed > self._rate:
            self._since, self._given, owed = now - 1, 0, self._rate
        given = min(most, int(owed))
        return given if given >= min(most, self._group) else 0

    def gave(self, rows: int) -> None:
        """Take note of rows that were given."""
        self._given += rows

    def wait(self) -> float:
        """Return the seconds until rows are due."""
        if not self._rate:
            return 0.0
        due = self._since + (self._given + self._group) / self._rate
        return max(due - self._clock(), 0.0)
