"""Numbers that a connector has of itself: counters and gauges that people see at `/metrics`."""

from __future__ import annotations

import math
import re
import threading
from typing import Final

MOST: Final = 32
"""Names of one task: each is a series of every task wherever numbers are kept (invariant 12)."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,59}")
_COUNTS: Final = "_total"


class Metrics:
    """The numbers of one task. Any thread may count; they start anew with each run of the task.

    `add("requests_total")` counts, so its name ends with `_total`; `set("queue_size", 7)` is a
    value that may fall.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: dict[str, float] = {}

    def add(self, name: str, amount: float = 1) -> None:
        """Count something.

        Raises:
            ValueError: the name is not one of a counter, or one too many; the amount is negative.
        """
        if not name.endswith(_COUNTS) or not amount >= 0:
            raise ValueError(f"{name!r}: a counter ends with {_COUNTS}, and only grows")
        with self._lock:
            self._put(name, self._now.get(name, 0) + amount)

    def set(self, name: str, value: float) -> None:
        """Say what a value is now.

        Raises:
            ValueError: the name is not one of a gauge, or one too many; the value is not finite.
        """
        if name.endswith(_COUNTS):
            raise ValueError(f"{name!r}: what ends with {_COUNTS} is counted by add()")
        with self._lock:
            self._put(name, value)

    def now(self) -> dict[str, float]:
        """Return all of them."""
        with self._lock:
            return dict(self._now)

    def _put(self, name: str, value: float) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r}: a name is up to 60 lower-case letters, digits and `_`")
        if not math.isfinite(value):
            raise ValueError(f"{name!r}: {value} is not finite")
        if name not in self._now and len(self._now) >= MOST:
            raise ValueError(f"{name!r}: {MOST} numbers are the most")
        self._now[name] = value
