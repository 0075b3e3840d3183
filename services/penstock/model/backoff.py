"""Delays between tries that double up to a limit."""

from __future__ import annotations


class Backoff:
    """The delay before the next try, in seconds: it doubles from `first_s` to `max_s`.

    `backoff = Backoff(0.5, 30)`, then after each failure `sleep(backoff.delay_s)` and `advance()`;
    `reset()` after a success.
    """

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s, self._max_s = first_s, max_s
        self.delay_s = first_s

    def advance(self) -> None:
        """Double the delay."""
        self.delay_s = min(self.delay_s * 2, self._max_s)

    def reset(self) -> None:
        """Start again with the first delay."""
        self.delay_s = self._first_s
