"""Warnings and errors in the logs of workers, which outlive the workers. Pure."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Final

from penstock.model.logs import (
    MAX_STORED_LINE_LENGTH,
    MAX_STORED_LINES,
    LogFilter,
    LogLine,
    StoredLogLine,
)
from penstock.scheduler.state.numbered_log import NumberedLog

LOWEST_LEVEL: Final = logging.WARNING
"""Lines below it are not stored: a worker that is well logs such lines, and each would be a write.
"""

MAX_LINES_PER_READ: Final = 20
"""Lines of a worker that are stored of one read, the last ones. A worker that logs a warning for
every row would write all the time."""


class LogLines(NumberedLog[StoredLogLine]):
    """The latest lines of all workers. A noisy worker pushes out its own."""

    def __init__(self) -> None:
        super().__init__(MAX_STORED_LINES, lambda one: one.worker)

    def add(self, worker: str, lines: Sequence[LogLine], missed: int = 0) -> None:
        """Add lines of a worker, without those that are known. `missed` are lines before them that
        were not read.
        """
        known = {_identity(one.line) for one in self._items if one.worker == worker}
        new = [line for line in map(_cut, lines) if _identity(line) not in known]
        missed += max(len(new) - MAX_LINES_PER_READ, 0)
        kept = new[-MAX_LINES_PER_READ:]
        if missed and kept:
            kept.insert(0, _missed_line(kept[0], missed))
        self.append(StoredLogLine(worker, line) for line in kept)

    def latest(self, log_filter: LogFilter) -> list[StoredLogLine]:
        """Return the latest lines that match."""
        return self.select(lambda one: log_filter.matches(one.line), log_filter.tail)


def _cut(line: LogLine) -> LogLine:
    return replace(line, message=line.message[:MAX_STORED_LINE_LENGTH])


def _identity(line: LogLine) -> tuple[int, str, str]:
    return line.at_us, line.logger, line.message


def _missed_line(after: LogLine, missed: int) -> LogLine:
    """Return the line that stands for others, so that a gap is not taken for silence."""
    message = f"{missed} lines of this worker before the next one are not stored"
    return LogLine(after.at_us, logging.WARNING, __name__, message)


def encode_log_lines(lines: Iterable[StoredLogLine]) -> bytes:
    """Return the JSON value of an entry."""
    return json.dumps(
        [asdict(line) for line in lines], ensure_ascii=False, separators=(",", ":")
    ).encode()


def decode_log_lines(value: bytes) -> list[StoredLogLine]:
    """Return the lines of an entry. Fields of a newer version are left out."""
    names = LogLine.__dataclass_fields__.keys()
    return [
        StoredLogLine(
            one["worker"],
            LogLine(**{name: found for name, found in one["line"].items() if name in names}),
            one["number"],
        )
        for one in json.loads(value)
    ]
