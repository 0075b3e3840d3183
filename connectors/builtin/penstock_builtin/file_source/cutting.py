"""Where a block of a file may be cut: after the last row that is whole. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

Cut: TypeAlias = Callable[[bytearray, int], int]
"""Returns how many of the first so many bytes of a block are whole rows."""


def cut_lines(data: bytearray, size: int) -> int:
    """Return the length up to and with the last newline."""
    return data.rfind(b"\n", 0, size) + 1


def cut_quoted(quote: bytes) -> Cut:
    """Return a cut that leaves newlines inside quotes alone.

    A newline ends a row when an even number of quotes stands before it: doubled quotes inside a
    value keep that so.
    """

    def cut(data: bytearray, size: int) -> int:
        end = cut_lines(data, size)
        odd = data.count(quote, 0, end) % 2
        while odd and end:
            # The quote that opened the last value has to stay behind, with its row.
            opening = data.rfind(quote, 0, end)
            end = data.rfind(b"\n", 0, opening) + 1
            odd = (odd + data.count(quote, end, opening + 1)) % 2 if end else 0
        return end

    return cut


def cut_escaped(quote: bytes, escape: bytes) -> Cut:
    """Return a cut for files in which a character takes away what the next one means: it has to
    look at each, from the first on.
    """

    def cut(data: bytearray, size: int) -> int:
        end = 0
        for record_end in _record_ends(memoryview(data)[:size], quote, escape):
            end = record_end
        return end

    return cut


def first_record(data: bytes, quote: bytes, escape: bytes) -> int:
    """Return the length of the first record with its newline; 0 when it has none."""
    return next(_record_ends(data, quote, escape), 0)


def _record_ends(data: bytes | memoryview, quote: bytes, escape: bytes) -> Iterator[int]:
    marks = [rb"\n"]
    if quote:
        marks.append(re.escape(quote))
    if escape:
        marks.insert(0, re.escape(escape) + b".")
    inside = False
    for match in re.finditer(b"|".join(marks), data, re.DOTALL):
        found = match[0]
        if quote and found == quote:
            inside = not inside
        elif found == b"\n" and not inside:
            yield match.end()
