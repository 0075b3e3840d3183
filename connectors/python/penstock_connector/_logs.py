"""Logs of a plugin: JSON lines on stderr, in the form that go-plugin hosts read."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """One JSON object a line; exceptions ride in it, so that a record is never several lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "@level": record.levelname.lower().replace("warning", "warn"),
            "@message": record.getMessage(),
            "@module": record.name,
            "@timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr() -> None:
    """Send logs to stderr, unless the plugin has set up its own."""
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
