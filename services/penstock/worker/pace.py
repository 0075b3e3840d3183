"""How many rows the next micro-batch may have, so that a slow sink commits often. Pure."""

from __future__ import annotations

from typing import Final

SECONDS: Final = 5.0
"""Time that the slots of a micro-batch should take at most. Longer, and a slow sink shows nothing
for minutes, and a crash repeats as much work; shorter gains nothing that anyone waits for."""

FIRST: Final = 100_000
"""Rows of the first micro-batch, when nothing is known of the sink: 0.1 s for a fast one."""


class Pace:
    """Learns from what micro-batches took. Time spent in the engine's queue does not count: when
    the engine is busy, larger micro-batches are what helps.
    """

    def __init__(self, most: int) -> None:
        """`most` is the limit that the connector's owner has set, in rows."""
        self._most = most
        self.rows = min(FIRST, most)

    def took(self, rows: int, seconds: float) -> None:
        """Take note of a micro-batch: its rows, and the seconds that its slowest slot took."""
        if seconds > SECONDS:
            self.rows = max(1, int(rows * SECONDS / seconds))
        elif seconds < SECONDS / 2 and 2 * rows >= self.rows:  # a small one says nothing
            self.rows = min(self._most, 2 * self.rows)
