"""A session that is opened when it is needed, waited for, and knows the server's time."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from penstock_databases.dialect import Connection
from penstock_databases.jdbc_source.config import JdbcSourceConfig

_ASK_TIME: Final = 1.0
"""Seconds between two looks at the server's clock; in between ours counts on. What it tells is
never ahead of the server: an answer is old when it comes. Shorter costs a statement more often."""

_ASK_OFFSET: Final = 60.0
"""The same for the server's zone, which changes twice a year."""


class Session:
    """One connection, opened anew when it was lost.

    Args:
        config: Where and how.
        stopping: Ends every wait.
    """

    def __init__(self, config: JdbcSourceConfig, stopping: threading.Event) -> None:
        self._config = config
        self._stopping = stopping
        self._open: Connection | None = None
        self._time = datetime.min  # noqa: DTZ901 - never used before it was asked for
        self._offset = timedelta()
        self._asked = self._asked_offset = float("-inf")

    def connection(self) -> Connection:
        """Return the connection; opens it, with `connection.attempts`.

        Raises:
            RetriableError: `sql.unreachable`: it never came about.
        """
        if self._open is None:
            self._open = self._connect()
            self._asked = self._asked_offset = float("-inf")
        return self._open

    def _connect(self) -> Connection:
        config = self._config
        return config.connection_retry.call(
            lambda: config.dialect.connect(config.target, config.login), self._stopping.wait
        )

    def close(self) -> None:
        """End it. It can be opened again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def now(self, *, instant: bool) -> datetime:
        """Return the server's time: in UTC, or on the wall of times without a zone."""
        connection, at = self.connection(), time.monotonic()
        if at - self._asked >= _ASK_TIME:
            self._time = self._config.dialect.now(connection)
            self._asked = time.monotonic()
        if not instant and not self._config.db_timezone and at - self._asked_offset >= _ASK_OFFSET:
            self._offset = self._config.dialect.offset(connection)
            self._asked_offset = at
        utc = self._time + timedelta(seconds=time.monotonic() - self._asked)
        if instant:
            return utc
        if self._config.db_timezone:
            zone = ZoneInfo(self._config.db_timezone)
            return utc.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
        return utc + self._offset
