"""Logs of a plugin: JSON lines on stderr, in the form that go-plugin hosts read."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

_TASK: Final = ContextVar("task", default=("", 0))

ATTEMPT: Final = "attempt"
"""Attribute of a record that tells a failed attempt to connect: the host shows the last one as what
the task waits for.
"""


def set_task(task_id: str, epoch: int) -> None:
    """Have what this thread logs from now on, or this call, belong to a task."""
    _TASK.set((task_id, epoch))


class JsonLines(logging.Formatter):
    """One JSON object a line; exceptions ride in it, so that a record is never several lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "@level": record.levelname.lower().replace("warning", "warn"),
            "@message": record.getMessage(),
            "@module": record.name,
            "@timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        task, epoch = _TASK.get()
        if task and (attempt := getattr(record, ATTEMPT, None)):
            line["@attempt"] = {"task": task, "epoch": epoch, **attempt}
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr() -> None:
    """Send logs to stderr, unless the plugin has set up its own."""
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
