"""An open file of lines, read block by block from a position on, while it grows."""

from __future__ import annotations

import os
from dataclasses import replace

from penstock_builtin.file_source.chunk import BEGINNING_MOST, Chunk, Lines, Reading
from penstock_builtin.file_source.mark import WINDOW, Mark, digest, ends
from penstock_connector import DataError


class OpenFile:
    """Owns a descriptor. Knows the first and the last bytes of what it read, by which the file is
    known again.
    """

    def __init__(self, path: str, fd: int, mark: Mark, how: Reading) -> None:
        self.fd = fd
        self._path, self._how, self._mark = path, how, mark
        self._head, self._tail = ends(fd, mark.position)
        self._searched = mark.position
        self._chunk_start = 0
        self._lines = Lines()

    @property
    def mark(self) -> Mark:
        """How far it was read, as it can be stored."""
        return replace(self._mark, head=digest(self._head), tail=digest(self._tail))

    @property
    def inode(self) -> int:
        """Of the file."""
        return self._mark.inode

    @property
    def position(self) -> int:
        """Bytes that were read."""
        return self._mark.position

    def size(self) -> int:
        """Return the bytes that it has now."""
        return os.fstat(self.fd).st_size

    def has_what_was_read(self) -> bool:
        """Return whether the last bytes before the position are as they were."""
        start = self.position - len(self._tail)
        return os.pread(self.fd, len(self._tail), start) == self._tail

    def close(self) -> None:
        """Let go of the descriptor."""
        os.close(self.fd)

    def has_new(self, size: int) -> bool:
        """Return whether there may be rows in so many bytes. Looks only at what is new, so that a
        long line that grows slowly is not read again and again.
        """
        if size <= self.position:
            return False
        if self._searched <= self.position or not self._how.tail:
            return True
        at = self._searched
        while at < size:
            new = os.pread(self.fd, min(self._how.block, size - at), at)
            if b"\n" in new or not new:
                return True
            at += len(new)
            self._refuse_long(at - self.position)
        self._searched = size
        return False

    def rows(self, size: int) -> Chunk | None:
        """Return the next whole rows of so many bytes; None when none is whole."""
        position = self.position
        left, want = size - position, self._how.block
        while True:
            space, got = self._pread(min(want, left))
            end = self._how.cut(space, got, position)
            if end and got >= left and not self._how.tail:
                end = got  # the last line needs no newline, and its values count for the types
            if end:
                return self._chunk(space, end, size)
            self._refuse_long(got)
            if got >= left or got < want:
                break
            want = min(want * 2, self._how.line_most + 1)
        self._searched = position + got
        return None if self._how.tail else self._chunk(space, got, size)

    def last_words(self) -> Chunk | None:
        """Return what is left: a last line without a newline."""
        size = self.size()
        space, got = self._pread(max(size - self.position, 0))
        return self._chunk(space, got, size)

    def _pread(self, size: int) -> tuple[bytearray, int]:
        """Read from the position on; fewer bytes come only at the end of the file."""
        space = self._how.space.take(size, self._how.block)
        with memoryview(space) as view:
            got = 0
            while got < size:
                more = os.preadv(self.fd, [view[got:size]], self.position + got)
                if not more:
                    break
                got += more
        return space, got

    def _chunk(self, space: bytearray, length: int, size: int) -> Chunk | None:
        if not length:
            return None
        start = self._chunk_start = self.position
        end = start + length
        self._mark = replace(self._mark, position=end)
        self._searched = end
        if len(self._head) < WINDOW:
            self._head = (self._head + space[: min(WINDOW, length)])[:WINDOW]
        last = bytes(space[max(length - WINDOW, 0) : length])
        self._tail = last if length >= WINDOW else (self._tail + last)[-WINDOW:]
        whole = end >= size
        return Chunk(space, length, start, self._path, whole, self._beginning, self._lines_before)

    def _beginning(self) -> bytes:
        return os.pread(self.fd, BEGINNING_MOST, 0)

    def _lines_before(self) -> int:
        return self._lines.before(self._chunk_start, lambda at, size: os.pread(self.fd, size, at))

    def _refuse_long(self, size: int) -> None:
        if size > self._how.line_most:
            raise DataError(
                "file.line_too_long",
                f"{self._path}: the line at byte {self.position} is longer than "
                f"{self._how.line_most} bytes",
                fix="Raise `max.line.bytes`, or check that the file has lines at all, and that "
                "each quoted value of CSV is closed.",
                config_path="max.line.bytes",
            )
