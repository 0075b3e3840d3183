"""Lines of the log of a process, for somebody who reads along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MOST_KEPT: Final = 1_000
"""Lines that a process keeps for those who come later, and that wait for one who reads slowly."""

LONGEST: Final = 4_096
"""Characters of a message (invariant 12). A traceback that is longer is in the log itself."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. `level` by its number in `logging`; `at_us` microseconds since 1970; `attributes`
    the connector, task and epoch it is about, as far as it is about some.
    """

    at_us: int
    level: int
    logger: str
    message: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogRules:
    """What to show: of a connector (empty: of all), from a level on, the last `tail` lines that
    there are, and with `follow` those that come.
    """

    connector: str = ""
    level: int = 0
    tail: int = 100
    follow: bool = False

    def want(self, line: LogLine) -> bool:
        """Tell whether to show a line."""
        of = line.attributes.get("connector", "")
        return line.level >= self.level and (not self.connector or of == self.connector)


@dataclass(frozen=True, slots=True)
class Logged:
    """Lines, and how many are left out before them: the reader was too slow."""

    lines: tuple[LogLine, ...]
    missed: int = 0
