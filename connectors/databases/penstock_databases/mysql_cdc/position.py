"""Places in a binary log. Pure.

A place is a file with a byte position, always right after an event, and the GTIDs of all
transactions up to there where the server has them. A file and a position mean something on one
server only; GTIDs mean the same on all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_NUMBER: Final = re.compile(r"\.(\d+)$")

KeyValue = int | str | bytes
"""A value of a column of a key, as offsets have it."""

_SHIFT: Final = 40
"""Bits of a position within one number: a file of a terabyte."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the log of a server.

    Attributes:
        file: Name of the log file; empty when nothing is known.
        pos: Byte position in it.
        gtid: GTIDs of all transactions up to here, as the server writes them; may be empty.
    """

    file: str = ""
    pos: int = 0
    gtid: str = ""

    @property
    def number(self) -> int:
        """File and position as one number that grows along the log."""
        return number_of(self.file, self.pos)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}" + (f" ({self.gtid})" if self.gtid else "")


def number_of(file: str, pos: int) -> int:
    """Return a place as a number that grows along the log."""
    return file_number(file) << _SHIFT | pos


def file_number(file: str) -> int:
    """Return the number of a log file; 0 when it has none."""
    match = _NUMBER.search(file)
    return int(match[1]) if match else 0


class Gtids:
    """The GTIDs of transactions that were read, in MariaDB's or in MySQL's form."""

    def __init__(self, text: str = "", *, mariadb: bool) -> None:
        self._mariadb = mariadb
        self._domains: dict[int, str] = {}
        self._sets: dict[str, list[tuple[int, int]]] = {}
        for part in filter(None, re.split(r"[,\s]+", text)):
            if mariadb:
                self._domains[int(part.split("-")[0])] = part
            else:
                source, *spans = part.split(":")
                self._sets[source.lower()] = [_span(span) for span in spans]

    def add(self, gtid: str) -> None:
        """Take note of a transaction."""
        if self._mariadb:
            self._domains[int(gtid.split("-", maxsplit=1)[0])] = gtid
            return
        source, number = gtid.lower().split(":")
        spans = self._sets.setdefault(source, [])
        self._sets[source] = _joined([*spans, (int(number), int(number))])

    def sets(self) -> dict[str, list[tuple[int, int]]]:
        """Return MySQL's intervals by source, both ends included."""
        return self._sets

    def __str__(self) -> str:
        if self._mariadb:
            return ",".join(self._domains[domain] for domain in sorted(self._domains))
        return ",".join(
            ":".join([source, *(f"{a}-{b}" if b > a else str(a) for a, b in spans)])
            for source, spans in sorted(self._sets.items())
        )


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined
