"""What is tried again, and when. Pure but for the clock."""

from __future__ import annotations

import email.utils
import random
import time
from dataclasses import dataclass
from typing import Final

from penstock_connector import ConnectorError, RetriableError

_JITTER: Final = 0.25
"""Part of a pause that is left to chance, so that many tasks that fell together do not come back
together."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how long.

    Attributes:
        most: Attempts after the first.
        backoff: Seconds before the second attempt; doubles.
        backoff_most: Where doubling ends.
        asked_most: Most seconds that a server may ask to wait.
    """

    most: int
    backoff: float
    backoff_most: float
    asked_most: float

    def pause(self, failures: int, error: ConnectorError) -> float | None:
        """Return the seconds to wait after so many failures in a row; None: give up."""
        if not isinstance(error, RetriableError) or failures > self.most:
            return None
        if error.retry_after > self.asked_most:
            return None  # the host waits then: this task would hold its place for nothing
        doubled = min(self.backoff * 2.0 ** min(failures - 1, 30), self.backoff_most)
        chance = 1 - _JITTER * random.random()  # noqa: S311 - no secret hangs on it
        return max(doubled * chance, error.retry_after)


def retry_after(header: str, now: float | None = None) -> float:
    """Return the seconds of a `Retry-After` header, of either form; 0 when there is none."""
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    parsed = email.utils.parsedate_tz(text) if text else None
    if parsed is None:
        return 0.0
    until = email.utils.mktime_tz(parsed)
    return max(until - (time.time() if now is None else now), 0.0)
