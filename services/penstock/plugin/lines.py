"""Bytes of a pipe cut into lines of bounded length."""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 16 * 1024
"""Longest line that is kept. A handshake with a certificate is about 1 KiB; what is longer is cut
and the rest of it dropped."""

CUT: Final = "…".encode()


class LineCutter:
    """Holds at most one line, of at most `most` bytes (invariant 12)."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._held = bytearray()
        self._cut = False

    @property
    def held(self) -> bytes:
        """The line that has no end yet."""
        return bytes(self._held)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk ends."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._hold(part)
            lines.append(self._take())
        self._hold(rest)
        return lines

    def finish(self) -> list[bytes]:
        """Return what stands after the last newline."""
        return [self._take()] if self._held else []

    def _hold(self, part: bytes) -> None:
        room = self._most - len(self._held)
        self._held += part[:room]
        self._cut |= len(part) > room

    def _take(self) -> bytes:
        line = bytes(self._held).rstrip(b"\r") + (CUT if self._cut else b"")
        self._held.clear()
        self._cut = False
        return line
