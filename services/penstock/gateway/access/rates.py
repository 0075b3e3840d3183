"""How many requests a sender may make, and how often one may be wrong about who it is.

Each sender has so many requests a second, and may save some up. The rule is GCRA, as of ATM's
traffic control: of each sender one number is kept, the time at which its next request would be due.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from penstock.model.errors import RetriableError

MOST_SENDERS: Final = 10_000
"""Senders that are remembered (invariant 12); who is forgotten begins with all of its savings."""

SAVED: Final = 10.0
"""Seconds whose requests a sender may save up: tools ask in bursts."""


class Rate:
    """So many a second, for each sender."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        """`per_second`: 0 for any number."""
        self._interval = 1 / per_second if per_second > 0 else 0.0
        self._now = now
        self._due: OrderedDict[str, float] = OrderedDict()

    def take(self, sender: str) -> None:
        """Count one.

        Raises:
            RetriableError: `http.too_many`: it is one too many, and is not counted.
        """
        if not self._interval:
            return
        self.check(sender)
        self._due[sender] = max(self._due.get(sender, 0.0), self._now()) + self._interval
        self._due.move_to_end(sender)
        if len(self._due) > MOST_SENDERS:
            self._due.popitem(last=False)

    def give_back(self, sender: str) -> None:
        """Take back one that was counted, and should not be."""
        if sender in self._due:
            self._due[sender] -= self._interval

    def check(self, sender: str) -> None:
        """Refuse who has had too many.

        Raises:
            RetriableError: `http.too_many`.
        """
        wait = self._due.get(sender, 0.0) - self._now() - SAVED + self._interval
        if self._interval and wait > 0:
            raise RetriableError(
                "http.too_many",
                "too many requests of one sender",
                fix=f"Send at most {1 / self._interval:g} a second; `Retry-After` says when to go "
                "on.",
                retry_after=math.ceil(wait),
            )
