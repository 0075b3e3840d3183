"""The time of day, for people to read."""

from __future__ import annotations

import time


def wall_clock_us() -> int:
    """Return the wall clock in microseconds since the epoch. For display only: no decision may
    depend on it.
    """
    return time.time_ns() // 1000
