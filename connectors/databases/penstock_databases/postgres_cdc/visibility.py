"""Which transactions a reading of a table has seen. Pure.

https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SNAPSHOT
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_ROUND: Final = 1 << 32
"""Transactions are numbered with 64 bits; the log has the low 32 of them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a database snapshot sees of the transactions that are in the log, so are committed.

    Attributes:
        below: All below this are seen (`xmin`).
        until: None from this on are seen (`xmax`).
        running: Those in between that were running: they are not seen.
    """

    below: int
    until: int
    running: frozenset[int]

    @classmethod
    def of(cls, text: str) -> Seen:
        """Read what `pg_current_snapshot()` wrote: `xmin:xmax:xip,xip,…`."""
        below, until, running = text.split(":")
        return cls(int(below), int(until), frozenset(map(int, filter(None, running.split(",")))))

    def __str__(self) -> str:
        return f"{self.below}:{self.until}:{','.join(map(str, sorted(self.running)))}"

    def has(self, xid: int) -> bool:
        """Tell whether it sees a committed transaction, by the low 32 bits of its number."""
        ahead = (xid - self.until + _ROUND // 2) % _ROUND - _ROUND // 2
        full = self.until + ahead
        return full < self.below or (ahead < 0 and full not in self.running)
