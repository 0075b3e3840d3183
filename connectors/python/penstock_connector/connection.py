"""How a connector reaches a server: the keys, and calls that are made again.

`Retry` is the one loop around a call that may succeed later. `ConnectionKeys` are the keys that
every connector of a database has, with one meaning.
"""

from __future__ import annotations

import itertools
import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock_connector._config import key
from penstock_connector._errors import ConnectorError, RetriableError
from penstock_connector._logs import ATTEMPT
from penstock_connector.reach import Reaching

T = TypeVar("T")

_log = logging.getLogger(__name__)

CONNECT_WITHIN_S: Final = 25.0
"""Seconds after the first attempt to connect in which another one begins. The host waits 30 s for a
task to open: later attempts would be made for nobody."""


@dataclass(frozen=True, slots=True)
class Retry:
    """When a call that failed is made again. The call must change nothing when it is made twice.

    Attributes:
        attempts: Most calls, the first among them.
        backoff_s: Seconds before the second call.
        max_backoff_s: The seconds double for each further call, up to here; 0: they stay.
        within_s: Seconds after the first call in which another one begins.
        jitter: Seconds are a half to one and a half of themselves, by chance: two tasks that were
            in each other's way do not meet again.
        errors: What is tried again.
    """

    attempts: int
    backoff_s: float
    max_backoff_s: float = 0.0
    within_s: float = math.inf
    jitter: bool = False
    errors: type[ConnectorError] = RetriableError

    def call(
        self,
        act: Callable[[], T],
        wait: Callable[[float], object],
        failed: Callable[[], object] = lambda: None,
    ) -> T:
        """Return what a call returns, or raise its last error.

        Args:
            act: The call.
            wait: Sleeps, and returns True when the task is ending: `self.stopping.wait`.
            failed: Is called after each failure, for instance to close what is broken.
        """
        until = time.monotonic() + self.within_s
        for attempt in itertools.count(1):
            try:
                return act()
            except self.errors as error:
                failed()
                pause = max(self.pause_s(attempt), error.retry_after)
                late = time.monotonic() + pause > until
                if late or attempt >= self.attempts:
                    raise
                log_attempt(error, attempt, pause, attempts=self.attempts)
                if wait(pause):
                    raise
        raise AssertionError("unreachable")

    def pause_s(self, attempt: int) -> float:
        """Return the seconds between a call and the next one; the first call is 1."""
        seconds = self.backoff_s
        if self.max_backoff_s:
            seconds = min(seconds * 2.0 ** min(attempt - 1, 30), self.max_backoff_s)
        return seconds * random.uniform(0.5, 1.5) if self.jitter else seconds  # noqa: S311 - no secret


def log_attempt(error: ConnectorError, attempt: int, pause_s: float, *, attempts: int = 0) -> None:
    """Log why an attempt to connect failed. While the task opens, the host shows the last one.

    Args:
        error: Why it failed.
        attempt: Its number; the first is 1.
        pause_s: Seconds until the next one.
        attempts: Most attempts; 0: until a time.
    """
    of = f" of {attempts}" if attempts else ""
    told = {
        "code": error.code,
        "message": error.message,
        "fix": error.fix,
        "attempt": attempt,
        "attempts": attempts,
    }
    text = "[%s] %s; attempt %d%s, the next one in %.1f s"
    _log.warning(text, error.code, error.message, attempt, of, pause_s, extra={ATTEMPT: told})


@dataclass(frozen=True)
class ConnectionKeys(Reaching):
    """The keys of a connector of a database; a subclass says what its URLs look like."""

    connection_url: str = key(doc="Where the database is.", required=True, group="Connection")
    connection_user: str = key(
        "", doc="User of the database.", group="Connection", importance="high"
    )
    connection_password: str = key(
        "", doc="Password of the user.", type="password", group="Connection"
    )
    connection_attempts: int = key(
        3, doc="Most attempts to connect, before the task is opened again.", group="Connection"
    )
    connection_backoff_ms: float = key(
        10.0,
        doc="Time between attempts to connect; all of them begin within 25 s.",
        type="duration",
        group="Connection",
    )

    @property
    def connection_retry(self) -> Retry:
        """How often a connection is opened."""
        return Retry(
            self.connection_attempts, self.connection_backoff_ms, within_s=CONNECT_WITHIN_S
        )
