"""A block of whole rows as it goes from a reader to a decoder, and how blocks are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock_builtin.file_source.cutting import Cut, cut_lines
from penstock_builtin.opening import Roots

BEGINNING_MOST: Final = 1 << 20
"""Bytes that are searched for the end of a header. A longer one is no header."""

_COUNT_MOST: Final = 1 << 30
"""Bytes that are read to tell the number of a bad line. More would keep a task from its work for
longer than the number is worth: the error then names the byte alone."""

AGAIN: Final = -1
"""`Chunk.start` of bytes whose place in the file is not known any more."""

_EXCERPT: Final = 120
"""Characters of a bad row that its error shows."""


class Space:
    """Memory that blocks are read into, the same for all files of a task: fresh memory for each
    block would cost more than reading it.
    """

    def __init__(self) -> None:
        self._kept = bytearray()

    def take(self, size: int, most_kept: int) -> bytearray:
        """Return room for so many bytes or more. It is given out again by the next call."""
        if size > most_kept:
            return bytearray(size)
        if len(self._kept) < size:
            self._kept = bytearray(size)
        return self._kept


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole rows of a file, as bytes. `complete`: nothing follows them now.

    `start` is where they are in the file; `AGAIN`: they are a row of it that was read before.
    The bytes are `space[:size]`, and there only until the next chunk is read. `beginning` and
    `lines_before`, the file's first bytes and how many lines are before these (-1: too many to
    count), are asked for while they are decoded.
    """

    space: bytearray
    size: int
    start: int
    path: str
    complete: bool
    beginning: Callable[[], bytes]
    lines_before: Callable[[], int]

    @property
    def data(self) -> bytes:
        """A copy that stays."""
        return bytes(memoryview(self.space)[: self.size])


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read; the same for all files of a task."""

    roots: Roots = field(default_factory=Roots)
    space: Space = field(default_factory=Space)
    cut: Cut = cut_lines
    block: int = 3 << 20
    line_most: int = 64 << 20
    tail: bool = True
    restart: bool = True


class Lines:
    """Counts the lines before a place of a file, when an error asks for them, and each once."""

    def __init__(self) -> None:
        self._counted = (0, 0)

    def before(self, place: int, read: Callable[[int, int], bytes]) -> int:
        """Return the newlines before a place; -1 when there is too much to read. `read` returns
        bytes at a place.
        """
        at, lines = self._counted if self._counted[0] <= place else (0, 0)
        if place - at > _COUNT_MOST:
            return -1
        while at < place:
            data = read(at, min(BEGINNING_MOST, place - at))
            if not data:
                break
            lines, at = lines + data.count(b"\n"), at + len(data)
        self._counted = place, lines
        return lines


def spot(chunk: Chunk, lines: int) -> str:
    """Return where the line after so many of a chunk is, for people."""
    if chunk.start == AGAIN:
        return f"the row of {chunk.path}"
    before = chunk.lines_before()
    if before < 0:
        return f"{chunk.path}, {lines} lines after byte {chunk.start}"
    return f"{chunk.path}, line {before + lines + 1}"


def excerpt(row: bytes) -> str:
    """Return the beginning of a bad row, on one line."""
    text = row.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…")
