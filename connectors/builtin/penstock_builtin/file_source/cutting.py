"""Where a block of a file may be cut: after the last row that is whole. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Cut: TypeAlias = Callable[[bytearray, int, int], int]
"""Returns how many of the first so many bytes of a block are whole rows. The last argument is the
place of the block in its file."""


def cut_lines(data: bytes | bytearray, size: int, _start: int) -> int:
    """Return the length up to and with the last newline."""
    return data.rfind(b"\n", 0, size) + 1
