"""The last lines of this process's log, for people who read along from elsewhere.

Lines are masked before they are kept (invariant 9). Who reads slowly misses lines and is told how
many; nobody who logs ever waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from penstock.model.errors import RetriableError
from penstock.model.log_lines import LONGEST, MOST_KEPT, Logged, LogLine, LogRules
from penstock.telemetry.attributes import attributes_now
from penstock.telemetry.redact import Redaction

MOST_READERS: Final = 32
"""People who read along at once (invariant 12)."""

AT_ONCE: Final = 100
"""Lines of one message."""


class Recent(logging.Handler):
    """Keeps lines. There is one of a process: `RECENT`."""

    def __init__(self, kept: int = MOST_KEPT) -> None:
        """`kept`: so many of the last lines."""
        super().__init__()
        self.addFilter(Redaction())
        self._lines: deque[LogLine] = deque(maxlen=kept)
        self._readers: set[_Reader] = set()
        self._changing = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, and hand it on."""
        text = record.getMessage()
        if record.exc_text:
            text = f"{text}\n{record.exc_text}"
        attributes = {key: str(value) for key, value in attributes_now().items()}
        line = LogLine(
            round(record.created * 1_000_000),
            record.levelno,
            record.name,
            text[:LONGEST],
            attributes,
        )
        with self._changing:
            self._lines.append(line)
            for reader in self._readers:
                reader.put(line)

    async def read(self, rules: LogRules) -> AsyncGenerator[Logged, None]:
        """Iterate over lines: those that there are, and, if wanted, those that come."""
        reader = _Reader(rules, asyncio.get_running_loop())
        with self._changing:
            old = [line for line in self._lines if rules.want(line)] if rules.tail else []
            if rules.follow:
                self._add(reader)
        try:
            last = old[-rules.tail :]
            for at in range(0, len(last), AT_ONCE):
                yield Logged(tuple(last[at : at + AT_ONCE]))
            while rules.follow:
                yield await reader.next()
        finally:
            with self._changing:
                self._readers.discard(reader)

    def _add(self, reader: _Reader) -> None:
        if len(self._readers) >= MOST_READERS:
            raise RetriableError(
                "worker.too_many_readers",
                f"{MOST_READERS} read along here already",
                fix="Wait until one has ended.",
            )
        self._readers.add(reader)


class _Reader:
    """Lines that wait for one who reads along."""

    def __init__(self, rules: LogRules, loop: asyncio.AbstractEventLoop) -> None:
        self._rules, self._loop = rules, loop
        self._waiting: deque[LogLine] = deque()
        self._missed = 0
        self._news = asyncio.Event()

    def put(self, line: LogLine) -> None:
        """Take a line, from any thread."""
        if not self._rules.want(line):
            return
        if len(self._waiting) >= MOST_KEPT:
            self._missed += 1
            return
        self._waiting.append(line)
        with suppress(RuntimeError):  # its loop has ended, and it with that
            self._loop.call_soon_threadsafe(self._news.set)

    async def next(self) -> Logged:
        """Wait for lines."""
        while not self._waiting:
            self._news.clear()
            if not self._waiting:
                await self._news.wait()
        lines = tuple(self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE)))
        missed, self._missed = self._missed, 0
        return Logged(lines, missed)


RECENT: Final = Recent()
