"""Messages of a connection (RFC 6587): each behind the count of its bytes, or each a line. Pure.

A sender does not say which of the two it uses. A message begins with `<`, a count with a digit, so
the first byte of each tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_COUNT_DIGITS: Final = 9
"""Of a longer count the sender means something else."""

_LINE_ENDS: Final = b"\n\r\0"
CUT: Final = "the connection ended in the middle of it"
NO_COUNT: Final = "it begins with a digit, and is no count of bytes and a space"


class SyslogFraming:
    """Takes one connection apart.

    Args:
        framing: `auto`, `octet-counting` or `newline`.
        max_bytes: Most bytes of a message. Of a longer one so many and one more are returned, and
            the rest is passed over.
    """

    def __init__(self, framing: str, max_bytes: int) -> None:
        self._kind, self._max = framing, max_bytes
        self._rest = b""
        self._skipped_bytes = 0  # of a counted message that is too long
        self._skips_line = False
        self.is_broken = False

    def feed(self, block: bytes) -> Sequence[tuple[bytes, str]]:
        """Return the messages that are whole now."""
        found: list[tuple[bytes, str]] = []
        data, at = self._rest + block, 0
        while at < len(data) and not self.is_broken:
            after = self._passed(data, at)
            if after == at:
                after = self._message(data, at, found)
            if after == at:
                break
            at = after
        self._rest = b"" if self.is_broken else data[at:]
        return found

    def end(self) -> Sequence[tuple[bytes, str]]:
        """Return what is left: a last line needs no newline, a counted message all its bytes."""
        rest = self._rest.strip(_LINE_ENDS)
        if not rest:
            return []
        return [(rest, CUT if self._is_counted(rest[0]) else "")]

    def _is_counted(self, first: int) -> bool:
        return self._kind == "octet-counting" or (
            self._kind == "auto" and ord("1") <= first <= ord("9")
        )

    def _passed(self, data: bytes, at: int) -> int:
        """Return the place after what belongs to no message."""
        if self._skipped_bytes:
            step = min(self._skipped_bytes, len(data) - at)
            self._skipped_bytes -= step
            return at + step
        if self._skips_line:
            end = data.find(b"\n", at)
            self._skips_line = end < 0
            return len(data) if end < 0 else end + 1
        while at < len(data) and data[at] in _LINE_ENDS:
            at += 1
        return at

    def _message(self, data: bytes, at: int, found: list[tuple[bytes, str]]) -> int:
        """Add the message that begins here; return the place after it, or the same."""
        if self._is_counted(data[at]):
            return self._counted(data, at, found)
        end = data.find(b"\n", at)
        if end < 0 and len(data) - at <= self._max:
            return at
        self._skips_line = end < 0
        end = len(data) if end < 0 else end
        found.append((data[at : min(end, at + self._max + 1)].rstrip(_LINE_ENDS), ""))
        return end if self._skips_line else end + 1

    def _counted(self, data: bytes, at: int, found: list[tuple[bytes, str]]) -> int:
        space = data.find(b" ", at, at + _COUNT_DIGITS + 1)
        count = data[at : space if space >= 0 else at + _COUNT_DIGITS + 1]
        is_count = count.isdigit() and not count.startswith(b"0") and len(count) <= _COUNT_DIGITS
        if not is_count:  # nothing says where the next one begins
            found.append((data[at : at + self._max], NO_COUNT))
            self.is_broken = True
            return len(data)
        if space < 0:
            return at
        size = int(count)
        if size > self._max:
            if len(data) - space - 1 <= self._max:
                return at
            found.append((data[space + 1 : space + self._max + 2], ""))
            self._skipped_bytes = size - self._max - 1
            return space + self._max + 2
        end = space + 1 + size
        if end > len(data):
            return at
        found.append((data[space + 1 : end].rstrip(_LINE_ENDS), ""))
        return end
