"""Log lines of a process as the API streams them to readers, and levels of loggers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_KEPT_LINES: Final = 1_000
"""Lines that a process keeps for later readers, and lines that wait for one slow reader."""

MAX_STORED_LINES: Final = 1_000
"""Lines of all workers that the scheduler stores. An hour of a cluster that is well has none."""

MAX_STORED_LINE_LENGTH: Final = 1_000
"""Characters of the message of a stored line. 200 of them are one entry of the store, of the 1.5 MB
that etcd takes."""

MAX_MESSAGE_LENGTH: Final = 4_096
"""Characters of a message (invariant 12). The log itself has longer messages, as tracebacks, whole.
"""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log line. `level` is a number of `logging`; `at_us` is in microseconds since 1970;
    `attributes` has the connector, task and epoch that it is about, if any.
    """

    at_us: int
    level: int
    logger: str
    message: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredLogLine:
    """A line that outlives its worker. `worker` is the id of the process that logged it; `number`
    grows from line to line, with gaps.
    """

    worker: str
    line: LogLine
    number: int = 0


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines to read: of one connector (empty: of all), from a level up, the last `tail` kept
    lines, and with `follow` also the lines that are logged from now on. With the `generation` of
    the connector, without those of the tasks of an earlier one of its name.
    """

    connector: str = ""
    level: int = 0
    tail: int = 100
    follow: bool = False
    generation: str = ""

    def matches(self, line: LogLine) -> bool:
        """Whether the filter accepts a line."""
        of = line.attributes.get("connector", "")
        task = line.attributes.get("task", "")
        is_of_generation = not self.generation or not task or task.startswith(f"{self.generation}-")
        is_of_connector = not self.connector or of == self.connector
        return line.level >= self.level and is_of_connector and is_of_generation


@dataclass(frozen=True, slots=True)
class LogLines:
    """Log lines. `missed` is the number of lines before them that a slow reader has lost."""

    lines: tuple[LogLine, ...]
    missed: int = 0


@dataclass(frozen=True, slots=True)
class LogLevel:
    """The level of a logger in every instance of a service. `modified_at`: seconds since 1970."""

    service: str
    logger: str
    level: str
    modified_at: float = 0.0


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger of a process with its level. `own`: set in this process only."""

    logger: str
    level: str
    own: bool = False
