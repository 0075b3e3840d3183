"""What is due again and again."""

from __future__ import annotations

import time


class Every:
    """Comes due every so many seconds; never with 0."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.again()

    def again(self) -> None:
        """Begin to count anew."""
        self._at = time.monotonic() + self._seconds if self._seconds else float("inf")

    def left(self, now: float) -> float:
        """Return the seconds until then."""
        return self._at - now

    def is_due(self, now: float) -> bool:
        """Tell whether it is time; it then counts anew."""
        if now < self._at:
            return False
        self.again()
        return True
