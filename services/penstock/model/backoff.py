"""Delays between tries that double up to a limit, and how often what failed is restarted."""

from __future__ import annotations

import random
from dataclasses import dataclass


class Backoff:
    """The delay before the next try, in seconds: it doubles from `first_s` to `max_s`.

    `backoff = Backoff(0.5, 30)`, then after each failure `sleep(backoff.delay_s)` and `advance()`;
    `reset()` after a success.
    """

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s, self._max_s = first_s, max_s
        self.delay_s = first_s

    def spread_delay_s(self) -> float:
        """Return between half of the delay and all of it, at random: clients that lost a service
        at one moment do not all come back at one moment.
        """
        return self.delay_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def advance(self) -> None:
        """Double the delay."""
        self.delay_s = min(self.delay_s * 2, self._max_s)

    def reset(self) -> None:
        """Start again with the first delay."""
        self.delay_s = self._first_s


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often and how fast a task is restarted after failures.

    The delay doubles from `first_delay_s` to `max_delay_s`. `max_restarts` limits restarts in a
    row, -1 is no limit. A task that ran for `healthy_after_s` starts a new row, with the first
    delay: it must be longer than a failing task usually runs, else delays never grow. `jitter` is
    the fraction of a delay that is random, so that tasks do not all reconnect at once when their
    system comes back.
    """

    first_delay_s: float
    max_delay_s: float
    healthy_after_s: float
    jitter: float = 0.0
    max_restarts: int = -1

    def delay_s(self, restarts: int, random_fraction: float = 0.0) -> float:
        """Return the delay of a restart that follows `restarts` others. `random_fraction` is in
        0..1.
        """
        full = min(self.max_delay_s, self.first_delay_s * 2.0 ** min(restarts, 60))
        return full * (1.0 - self.jitter * random_fraction)
