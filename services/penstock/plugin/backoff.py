"""When a process that ended may be started again. Pure: the clock's readings are arguments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Waits `first` seconds, doubling to `longest`; forgets after `healthy_after` seconds of life.

    A smaller `first` spins on a plugin that dies at once; a larger `longest` leaves a cured plugin
    down.
    """

    first: float = 0.1
    longest: float = 10.0
    healthy_after: float = 30.0
    failures: int = 0
    not_before: float = float("-inf")

    def ended(self, *, started: float, now: float) -> None:
        """Note that a process which was started at `started` ended, unasked, at `now`."""
        if now - started >= self.healthy_after:
            self.failures = 0
        wait = min(self.longest, self.first * 2.0 ** min(self.failures, 60))
        self.failures += 1
        self.not_before = now + wait

    def delay(self, now: float) -> float:
        """Return how long to wait from `now`; 0 when a start may be tried."""
        return max(0.0, self.not_before - now)
