"""Where a block of a file may be cut: after the last row that is whole. Pure."""

from __future__ import annotations

from collections.abc import Callable
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
