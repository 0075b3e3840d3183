"""Opens a session, as often as the configuration says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from penstock_connector import RetriableError
from penstock_databases.databend_sink.config import DatabendSinkConfig
from penstock_databases.databend_sink.session import Session
from penstock_databases.databend_sink.url import parse_url
from penstock_databases.dialect import Login

_ATTEMPTS_WITHIN: Final = 20.0
"""Seconds for all attempts together: the host waits for 30 until a task is open, and then tries
again by itself, with other tasks going on meanwhile."""


def opened(config: DatabendSinkConfig, wait: Callable[[float], object]) -> Session:
    """Return a session. `wait` sleeps, and ends early when the task does.

    Raises:
        ConnectorError: `sql.unreachable`, `sql.auth`, `databend.in_use`, …
    """
    until = time.monotonic() + _ATTEMPTS_WITHIN
    for attempt in range(1, config.connection_attempts + 1):
        try:
            return _open(config)
        except RetriableError:
            left = until - time.monotonic()
            stopped = left <= 0 or attempt == config.connection_attempts
            if stopped or wait(min(config.connection_backoff_ms, left)):
                raise
    raise AssertionError("unreachable")


def _open(config: DatabendSinkConfig) -> Session:
    target = parse_url(config.connection_url)
    if target.folder:
        from penstock_databases.databend_sink.embedded import EmbeddedSession  # noqa: PLC0415 - only one of them is used

        return EmbeddedSession(target.folder)
    from penstock_databases.databend_sink.http import HttpSession  # noqa: PLC0415 - as above

    return HttpSession(target, Login(config.connection_user, config.connection_password))
