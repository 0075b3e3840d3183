"""Counts the times in which tasks left their workers, and how long they took. Pure.

A time begins when the first task is told to leave, and ends when none is on its way any more: what
Kafka Connect calls a rebalance. They are those of one leader; the next begins at 0.
"""

from __future__ import annotations

from penstock.model.status import Rebalances


class Moves:
    """The times so far."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._completed = 0
        self._total = self._most = 0.0

    def note(self, now: float, *, leaving: bool) -> None:
        """Take note whether a task is on its way."""
        if leaving and self._began is None:
            self._began = now
        elif not leaving and self._began is not None:
            seconds, self._began = now - self._began, None
            self._completed += 1
            self._total += seconds
            self._most = max(self._most, seconds)

    def so_far(self) -> Rebalances:
        """Return how many there were."""
        mean = self._total / self._completed if self._completed else 0.0
        return Rebalances(self._completed, mean, self._most)
