"""One file, read block by block while it grows, is rotated, rewritten, or goes away.

A reader holds no rows. It keeps the descriptor of what it reads, so that a rotated file is read to
its end under its old name before the new one begins.
"""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH116, PTH120

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from typing import Any, Final

from penstock_builtin.file_source.chunk import BEGINNING_MOST, Chunk, Lines, Reading
from penstock_builtin.file_source.mark import WINDOW, Mark, digest, ends, truncated
from penstock_builtin.opening import as_file_error, open_regular, telling
from penstock_connector import ConfigError, ConnectorError, DataError, OffsetLostError

_LEAVE_AFTER: Final = 0.5
"""Seconds that a rotated file must be quiet before its reader goes on to the new one. Shorter could
leave behind what a writer that has not noticed the rotation still appends; longer delays the first
rows of the new file."""

log = logging.getLogger(__name__)


def inode_at(path: str) -> int:
    """Return the inode that a path names; 0 for none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


class FileReader:
    """Reads one path from a mark on.

    Attributes:
        path: Absolute; the file that is there may be another one tomorrow.
        gone_on: The path names another file now than the one that is open.
    """

    def __init__(self, path: str, mark: Mark, how: Reading) -> None:
        self.path = path
        self.gone_on = False
        self._how = how
        self._fd: int | None = None
        self._mark = mark
        self._head = b""
        self._tail = b""
        self._searched = 0
        self._was_at_end = False
        self._quiet_since = 0.0
        self._chunk_start = 0
        self._lines = Lines()

    @property
    def mark(self) -> Mark:
        """Where it stands, as it can be stored."""
        if self._fd is None:
            return self._mark
        return replace(self._mark, head=digest(self._head), tail=digest(self._tail))

    @property
    def inode(self) -> int:
        """Of what is read; 0 when nothing was opened yet."""
        return self._mark.inode

    def offset(self) -> dict[str, Any]:
        """Return the offset to store."""
        return self.mark.offset()

    @property
    def leaving(self) -> bool:
        """Whether the path names another file, and this one must stay quiet for a while first."""
        return bool(self._quiet_since) and not self.gone_on

    def left(self) -> int:
        """Return the bytes that are not read yet; -1 when there is no file now."""
        try:
            place = self._fd if self._fd is not None else self.path
            return max(os.stat(place).st_size - self._mark.position, 0)
        except OSError:
            return -1

    def read(self) -> Chunk | None:
        """Return the next whole rows, or None when there are none now."""
        if self._fd is None and not self._open():
            return None
        assert self._fd is not None  # noqa: S101 - _open said so
        with telling(self.path):
            size = os.fstat(self._fd).st_size
            if self._was_at_end or size < self._mark.position:
                self._refuse_rewritten(size)
            chunk = self._rows(size)
        self._was_at_end = chunk is None
        if chunk is None and self._how.tail:
            self._look_behind()
        return chunk

    def is_now_at(self, path: str) -> bool:
        """Tell whether what was read has another name now, and is no longer at its own."""
        if path == self.path or self.inode == inode_at(self.path):
            return False
        try:
            fd = open_regular(path, self._how.roots)
        except (OSError, ConnectorError):
            return False
        try:
            return self.mark.fits(fd)
        finally:
            os.close(fd)

    def may_be_left(self) -> bool:
        """Tell whether nothing of what it read is still to be read under its old name."""
        if self.gone_on or not self._mark.position:
            return True
        if self._fd is not None:
            return False
        rotated = self._rotated()
        if rotated is not None:
            os.close(rotated)
        return rotated is None

    def leave(self, *, restart: bool) -> None:
        """Close the file. With `restart`, what is at the path next is another one, read from its
        start.
        """
        mark = self.mark
        self.close()
        self._mark = Mark() if restart else mark
        self._searched = 0
        self._lines = Lines()
        self._was_at_end = self.gone_on = False
        self._quiet_since = 0.0

    def close(self) -> None:
        """Let go of the descriptor."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def _open(self) -> bool:
        try:
            fd = open_regular(self.path, self._how.roots)
        except FileNotFoundError as error:
            if self._how.tail:
                return False  # it is made later, as Kafka's source has it
            raise self._vanished(error) from error
        try:
            with telling(self.path):
                self._start(fd)
        except BaseException:
            os.close(fd)
            raise
        return True

    def _start(self, fd: int) -> None:
        mark, inode = self._mark, os.fstat(fd).st_ino
        if not mark.position:
            self._take(fd, Mark(inode=inode))
            return
        if mark.inode not in {0, inode}:
            rotated = self._rotated()
            if rotated is not None:
                os.close(fd)
                self._take(rotated, mark)
                return
        if mark.fits(fd):
            self._take(fd, replace(mark, inode=inode))
            return
        self._lost("is another file than the one that was read, or was rewritten")
        self._take(fd, Mark(inode=inode))

    def _take(self, fd: int, mark: Mark) -> None:
        self._head, self._tail = ends(fd, mark.position)
        self._mark, self._fd, self._searched = mark, fd, mark.position

    def _rotated(self) -> int | None:
        """Return the file that was read, open, when it was renamed within its folder."""
        folder = os.path.dirname(self.path)
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if entry.inode() == self._mark.inode]
        for name in names:
            try:
                fd = open_regular(name, self._how.roots)
            except (FileNotFoundError, ConfigError):
                continue
            if self._mark.fits(fd):
                return fd
            os.close(fd)
        return None

    def _vanished(self, error: OSError) -> Exception:
        if self._mark.position:
            return OffsetLostError(
                "file.vanished",
                f"{self.path} is gone; {self._mark.position} bytes of it were read",
                fix="Put it back, or take it out of the configuration.",
            )
        return as_file_error(error, self.path)

    # ── what became of the file ──────────────────────────────────────────────────────────────────

    def _refuse_rewritten(self, size: int) -> None:
        """Notice a file that became shorter, or other bytes under the position."""
        assert self._fd is not None  # noqa: S101 - only called with a file
        position = self._mark.position
        if size >= position:
            start = position - len(self._tail)
            if os.pread(self._fd, len(self._tail), start) == self._tail:
                return
        self._lost("became shorter" if size < position else "was rewritten")
        self._take(self._fd, Mark(inode=self._mark.inode))

    def _lost(self, what: str) -> None:
        text = f"{self.path} {what}; {self._mark.position} bytes of it were read"
        if not self._how.restart:
            raise truncated(text)
        log.warning("%s: reading it from its start", text)

    def _look_behind(self) -> None:
        """At the end of a file: is it still the one that the path names?"""
        assert self._fd is not None  # noqa: S101 - only called with a file
        try:
            current = os.stat(self.path).st_ino
        except FileNotFoundError:
            return  # moved or deleted: what is open stays open until there is a new one
        except OSError as error:
            raise as_file_error(error, self.path) from error
        if current == self._mark.inode:
            return
        now = time.monotonic()
        self._quiet_since = self._quiet_since or now
        self.gone_on = now - self._quiet_since >= _LEAVE_AFTER

    def last_words(self) -> Chunk | None:
        """Return a last line without a newline, of a file that nobody will end any more."""
        if self._fd is None:
            return None
        size = os.fstat(self._fd).st_size
        space, got = self._pread(max(size - self._mark.position, 0))
        return self._chunk(space, got, size)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def _rows(self, size: int) -> Chunk | None:
        position = self._mark.position
        left = size - position
        if left <= 0 or not self._may_have_rows(size):
            return None
        self._quiet_since = 0.0
        want = self._how.block
        while True:
            space, got = self._pread(min(want, left))
            end = self._how.cut(space, got, self._mark.position)
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

    def _may_have_rows(self, size: int) -> bool:
        """Look only at what is new, so that a long line that grows slowly is not read again and
        again.
        """
        if self._searched <= self._mark.position or not self._how.tail:
            return True
        assert self._fd is not None  # noqa: S101 - only called with a file
        at = self._searched
        while at < size:
            new = os.pread(self._fd, min(self._how.block, size - at), at)
            if b"\n" in new or not new:
                return True
            at += len(new)
            self._refuse_long(at - self._mark.position)
        self._searched = size
        return False

    def _pread(self, size: int) -> tuple[bytearray, int]:
        """Read from the position on; fewer bytes come only at the end of the file."""
        assert self._fd is not None  # noqa: S101 - only called with a file
        space = self._how.space.take(size, self._how.block)
        with memoryview(space) as view:
            got = 0
            while got < size:
                more = os.preadv(self._fd, [view[got:size]], self._mark.position + got)
                if not more:
                    break
                got += more
        return space, got

    def _chunk(self, space: bytearray, length: int, size: int) -> Chunk | None:
        if not length:
            return None
        start = self._chunk_start = self._mark.position
        end = start + length
        self._mark = replace(self._mark, position=end)
        self._searched = end
        if len(self._head) < WINDOW:
            self._head = (self._head + space[: min(WINDOW, length)])[:WINDOW]
        last = bytes(space[max(length - WINDOW, 0) : length])
        self._tail = last if length >= WINDOW else (self._tail + last)[-WINDOW:]
        whole = end >= size
        return Chunk(space, length, start, self.path, whole, self._beginning, self._lines_before)

    def _beginning(self) -> bytes:
        assert self._fd is not None  # noqa: S101 - asked for while rows of it are decoded
        return os.pread(self._fd, BEGINNING_MOST, 0)

    def _lines_before(self) -> int:
        assert self._fd is not None  # noqa: S101 - asked for while rows of it are decoded
        fd = self._fd
        return self._lines.before(self._chunk_start, lambda at, size: os.pread(fd, size, at))

    def _refuse_long(self, size: int) -> None:
        if size > self._how.line_most:
            raise DataError(
                "file.line_too_long",
                f"{self.path}: the line at byte {self._mark.position} is longer than "
                f"{self._how.line_most} bytes",
                fix="Raise `max.line.bytes`, or check that the file has lines at all, and that "
                "each quoted value of CSV is closed.",
                config_path="max.line.bytes",
            )
