"""Logging as text or JSON lines on stderr, each line attributed to connector, task and epoch.

Control characters of messages are escaped: a record's text can forge neither a line nor a colour.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TextIO

from penstock.telemetry.attributes import attributes_now
from penstock.telemetry.recent import RECENT
from penstock.telemetry.redact import Redaction

_MADE_HERE: Final = "penstock-stderr"


class LogFormat(Enum):
    """How lines look."""

    TEXT = "text"
    JSON = "json"


def set_up(
    format: LogFormat = LogFormat.TEXT,  # noqa: A002 - the word that a caller would use
    level: int | str = logging.INFO,
    stream: TextIO | None = None,
    printed: Collection[str] = (),
) -> None:
    """Log everything to a stream, stderr by default. Calling again replaces what it did before.

    Errors of the loggers `printed` are left out of the stream: the caller prints them itself.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.set_name(_MADE_HERE)
    handler.addFilter(lambda one: one.levelno < logging.ERROR or one.name not in printed)
    handler.addFilter(Redaction())
    handler.setFormatter(JsonLines() if format is LogFormat.JSON else TextLines())
    root = logging.getLogger()
    for old in [h for h in root.handlers if h.get_name() == _MADE_HERE]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.addHandler(RECENT)  # as often as it likes: a logger has a handler once
    root.setLevel(level)


class TextLines(logging.Formatter):
    """One line a record, for people: time, level, attributes, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows on lines of its own."""
        attributes = "".join(f" {k}={v}" for k, v in attributes_now().items())
        head = f"{_time(record)} {record.levelname:<7}{escaped(attributes)} {record.name}"
        lines = [f"{head}: {escaped(record.getMessage())}"]
        if record.exc_text or record.exc_info:
            trace = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type] # one of both is set
            lines += [f"    {escaped(line)}" for line in trace.splitlines()]
        return "\n".join(lines)


class JsonLines(logging.Formatter):
    """One JSON object a record, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        document: dict[str, str | int] = {
            **attributes_now(),
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_text or record.exc_info:
            document["exception"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type] # one of both is set
        return json.dumps(document, ensure_ascii=True)


def escaped(text: str) -> str:
    """Return a text in which every control character is written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
