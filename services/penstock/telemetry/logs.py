"""Logs: lines on stderr as text or JSON, their context, and the recent lines for remote readers.

Each line has the attributes of its context: connector, task, epoch.

with log_context(connector="orders", task="…-0", epoch=7):
    log.info("…")            # also in coroutines that are awaited and tasks that start inside

Control characters in messages are escaped, so a message can forge neither a line nor a colour.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TextIO

from penstock.model.errors import RetriableError
from penstock.model.logs import MAX_KEPT_LINES, MAX_MESSAGE_LENGTH, LogFilter, LogLine, LogLines
from penstock.telemetry.redaction import RedactionFilter

MAX_READERS: Final = 32
"""Maximum number of concurrent readers (invariant 12)."""

MAX_LINES_PER_MESSAGE: Final = 100

_HANDLER_NAME: Final = "penstock-stderr"

_attributes: ContextVar[Mapping[str, str | int] | None] = ContextVar("penstock_log", default=None)


class LogFormat(Enum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


def configure_logging(
    format: LogFormat = LogFormat.TEXT,  # noqa: A002 - the word that a caller would use
    level: int | str = logging.INFO,
    stream: TextIO | None = None,
    printed: Collection[str] = (),
) -> None:
    """Log to a stream, stderr by default. A further call replaces the previous configuration.

    Errors of the loggers `printed` are left out of the stream: the caller prints them itself.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.set_name(_HANDLER_NAME)
    handler.addFilter(lambda one: one.levelno < logging.ERROR or one.name not in printed)
    handler.addFilter(RedactionFilter())
    handler.setFormatter(JsonFormatter() if format is LogFormat.JSON else TextFormatter())
    root = logging.getLogger()
    for old in [h for h in root.handlers if h.get_name() == _HANDLER_NAME]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.addHandler(RECENT_LOGS)  # idempotent: a logger has a handler once
    root.setLevel(level)


@contextmanager
def log_context(**attributes: str | int) -> Iterator[None]:
    """Add attributes to the lines that the body logs: connector, task, epoch or others."""
    token = _attributes.set({**(_attributes.get() or {}), **attributes})
    try:
        yield
    finally:
        _attributes.reset(token)


def log_attributes() -> Mapping[str, str | int]:
    """Return the attributes of the current context."""
    return _attributes.get() or {}


class TextFormatter(logging.Formatter):
    """Formats a record as one line: time, level, attributes, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows on further lines."""
        attributes = "".join(f" {k}={v}" for k, v in log_attributes().items())
        prefix = f"{_time(record)} {record.levelname:<7}{escape_text(attributes)} {record.name}"
        lines = [f"{prefix}: {escape_text(record.getMessage())}"]
        if record.exc_text or record.exc_info:
            trace = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type] # one of both is set
            lines += [f"    {escape_text(line)}" for line in trace.splitlines()]
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        document: dict[str, str | int] = {
            **log_attributes(),
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_text or record.exc_info:
            document["exception"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type] # one of both is set
        return json.dumps(document, ensure_ascii=True)


def escape_text(text: str) -> str:
    """Return a text with every control character as an escape sequence."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class RecentLogs(logging.Handler):
    """Keeps the recent lines of the process, redacted (invariant 9), and passes them to readers.

    A slow reader misses lines and gets their number; logging never waits. A process has one:
    `RECENT_LOGS`.
    """

    def __init__(self, max_lines: int = MAX_KEPT_LINES) -> None:
        super().__init__()
        self.addFilter(RedactionFilter())
        self._lines: deque[LogLine] = deque(maxlen=max_lines)
        self._readers: set[_Reader] = set()
        self._lock = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, and pass it to the readers."""
        text = record.getMessage()
        if record.exc_text:
            text = f"{text}\n{record.exc_text}"
        line = LogLine(
            round(record.created * 1_000_000),
            record.levelno,
            record.name,
            text[:MAX_MESSAGE_LENGTH],
            {key: str(value) for key, value in log_attributes().items()},
        )
        with self._lock:
            self._lines.append(line)
            for reader in self._readers:
                reader.put(line)

    async def read(self, log_filter: LogFilter) -> AsyncGenerator[LogLines, None]:
        """Yield the past lines that match and, if the filter follows, new ones.

        Raises:
            RetriableError: `worker.too_many_readers`.
        """
        reader = _Reader(log_filter, asyncio.get_running_loop())
        with self._lock:
            past = [line for line in self._lines if log_filter.matches(line)]
            past = past[-log_filter.tail :] if log_filter.tail else []
            if log_filter.follow:
                self._add(reader)
        try:
            for start in range(0, len(past), MAX_LINES_PER_MESSAGE):
                yield LogLines(tuple(past[start : start + MAX_LINES_PER_MESSAGE]))
            while log_filter.follow:
                yield await reader.next()
        finally:
            with self._lock:
                self._readers.discard(reader)

    def _add(self, reader: _Reader) -> None:
        if len(self._readers) >= MAX_READERS:
            raise RetriableError(
                "worker.too_many_readers",
                f"{MAX_READERS} readers already follow the log of this process",
                fix="Wait until one of them has ended.",
            )
        self._readers.add(reader)


class _Reader:
    """The lines that wait for one reader."""

    def __init__(self, log_filter: LogFilter, loop: asyncio.AbstractEventLoop) -> None:
        self._filter, self._loop = log_filter, loop
        self._waiting: deque[LogLine] = deque()
        self._missed = 0
        self._has_lines = asyncio.Event()

    def put(self, line: LogLine) -> None:
        """Add a line, from any thread."""
        if not self._filter.matches(line):
            return
        if len(self._waiting) >= MAX_KEPT_LINES:
            self._missed += 1
            return
        self._waiting.append(line)
        with suppress(RuntimeError):  # its loop has ended, and the reader with it
            self._loop.call_soon_threadsafe(self._has_lines.set)

    async def next(self) -> LogLines:
        """Wait for lines."""
        while not self._waiting:
            self._has_lines.clear()
            if not self._waiting:
                await self._has_lines.wait()
        count = min(len(self._waiting), MAX_LINES_PER_MESSAGE)
        lines = tuple(self._waiting.popleft() for _ in range(count))
        missed, self._missed = self._missed, 0
        return LogLines(lines, missed)


RECENT_LOGS: Final = RecentLogs()
