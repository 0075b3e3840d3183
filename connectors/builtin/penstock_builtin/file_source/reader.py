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

from penstock_builtin.file_source.altering import inside_line
from penstock_builtin.file_source.chunk import Chunk, Reading
from penstock_builtin.file_source.mark import Mark, truncated
from penstock_builtin.file_source.open_file import OpenFile
from penstock_builtin.opening import as_file_error, open_regular, telling
from penstock_connector import ConfigError, ConnectorError, OffsetLostError

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
        self._file: OpenFile | None = None
        self._left_at = mark
        self._was_at_end = False
        self._quiet_since = 0.0

    @property
    def mark(self) -> Mark:
        """Where it stands, as it can be stored."""
        return self._left_at if self._file is None else self._file.mark

    @property
    def inode(self) -> int:
        """Of what is read; 0 when nothing was opened yet."""
        return self._left_at.inode if self._file is None else self._file.inode

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
            if self._file is not None:
                return max(self._file.size() - self._file.position, 0)
            return max(os.stat(self.path).st_size - self._left_at.position, 0)
        except OSError:
            return -1

    def read(self) -> Chunk | None:
        """Return the next whole rows, or None when there are none now."""
        file = self._file or self._open()
        if file is None:
            return None
        with telling(self.path):
            size = file.size()
            if self._was_at_end or size < file.position:
                file = self._refuse_rewritten(file, size)
            chunk = None
            if file.has_new(size):
                self._quiet_since = 0.0
                chunk = file.rows(size)
        self._was_at_end = chunk is None
        if chunk is None and self._how.tail:
            self._look_behind(file)
        return chunk

    def is_now_at(self, path: str) -> bool:
        """Return whether what was read has another name now, and is no longer at its own."""
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
        """Return whether nothing of what it read is still to be read under its old name."""
        if self.gone_on:
            return True
        if self._file is not None:
            return not self._file.position
        if not self._left_at.position:
            return True
        rotated = self._rotated(self._left_at)
        if rotated is not None:
            os.close(rotated)
        return rotated is None

    def last_words(self) -> Chunk | None:
        """Return a last line without a newline, of a file that nobody will end any more."""
        return None if self._file is None else self._file.last_words()

    def leave(self, *, restart: bool) -> None:
        """Close the file. With `restart`, what is at the path next is another one, read from its
        start.
        """
        self.close()
        if restart:
            self._left_at = Mark()
        self._was_at_end = self.gone_on = False
        self._quiet_since = 0.0

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._left_at = self._file.mark
            self._file.close()
            self._file = None

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def _open(self) -> OpenFile | None:
        """Open the file where it was left; None when it may be made later."""
        try:
            fd = open_regular(self.path, self._how.roots)
        except FileNotFoundError as error:
            if self._how.tail:
                return None  # as Kafka's source has it
            raise self._vanished(error) from error
        try:
            with telling(self.path):
                self._file = self._start(fd)
        except BaseException:
            os.close(fd)
            raise
        return self._file

    def _start(self, fd: int) -> OpenFile:
        mark, inode = self._left_at, os.fstat(fd).st_ino
        if not mark.position:
            return self._opened(fd, Mark(inode=inode))
        if mark.inode not in {0, inode}:
            rotated = self._rotated(mark)
            if rotated is not None:
                os.close(fd)
                return self._opened(rotated, mark)
        if mark.fits(fd):
            if mark.splits_line(fd):
                raise inside_line(self.path, mark.position)
            return self._opened(fd, replace(mark, inode=inode))
        self._lost(mark.position, "is another file than the one that was read, or was rewritten")
        return self._opened(fd, Mark(inode=inode))

    def _opened(self, fd: int, mark: Mark) -> OpenFile:
        return OpenFile(self.path, fd, mark, self._how)

    def _rotated(self, mark: Mark) -> int | None:
        """Return the file that was read, open, when it was renamed within its folder."""
        folder = os.path.dirname(self.path)
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if entry.inode() == mark.inode]
        for name in names:
            try:
                fd = open_regular(name, self._how.roots)
            except (FileNotFoundError, ConfigError):
                continue
            if mark.fits(fd):
                return fd
            os.close(fd)
        return None

    def _vanished(self, error: OSError) -> Exception:
        position = self._left_at.position
        if position:
            return OffsetLostError(
                "file.vanished",
                f"{self.path} is gone; {position} bytes of it were read",
                fix="Put it back, or take it out of the configuration.",
            )
        return as_file_error(error, self.path)

    # ── what became of the file ──────────────────────────────────────────────────────────────────

    def _refuse_rewritten(self, file: OpenFile, size: int) -> OpenFile:
        """Notice a file that became shorter, or other bytes under the position. Return it as it is
        to be read on.
        """
        is_shorter = size < file.position
        if not is_shorter and file.has_what_was_read():
            return file
        self._lost(file.position, "became shorter" if is_shorter else "was rewritten")
        self._file = self._opened(file.fd, Mark(inode=file.inode))
        return self._file

    def _lost(self, position: int, what: str) -> None:
        text = f"{self.path} {what}; {position} bytes of it were read"
        if not self._how.restart:
            raise truncated(text)
        log.warning("%s: reading it from its start", text)

    def _look_behind(self, file: OpenFile) -> None:
        """At the end of a file: is it still the one that the path names?"""
        try:
            current = os.stat(self.path).st_ino
        except FileNotFoundError:
            return  # moved or deleted: what is open stays open until there is a new one
        except OSError as error:
            raise as_file_error(error, self.path) from error
        if current == file.inode:
            return
        now = time.monotonic()
        self._quiet_since = self._quiet_since or now
        self.gone_on = now - self._quiet_since >= _LEAVE_AFTER
