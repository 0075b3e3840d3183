"""A file system, for readers that take a file as a whole."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH116

from __future__ import annotations

import os
from collections.abc import Sequence

from penstock_builtin.opening import Roots, as_file_error, open_regular, telling
from penstock_builtin.places.port import Found


class LocalFile:
    """A regular file, open."""

    def __init__(self, path: str, fd: int) -> None:
        self._fd = fd
        self.found = _found(path, os.fstat(fd))

    def read_at(self, at: int, size: int) -> bytes:
        """Return bytes from a place on."""
        pieces = []
        with telling(self.found.path):
            while size > 0 and (piece := os.pread(self._fd, size, at)):
                pieces.append(piece)
                at, size = at + len(piece), size - len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)


class LocalPlace:
    """Files under the allowed roots."""

    grows = True
    reopens = False

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def find(self) -> Sequence[Found]:
        """Nothing: which files are meant is found by patterns."""
        return ()

    def look(self, path: str) -> Found | None:
        """Return a file as it is now."""
        try:
            return _found(path, os.stat(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise as_file_error(error, path) from error

    def open(self, path: str) -> LocalFile:
        """Open a regular file, inside the roots."""
        return LocalFile(path, open_regular(path, self._roots))

    def close(self) -> None:
        """Nothing is kept."""


def _found(path: str, stat: os.stat_result) -> Found:
    return Found(path, stat.st_size, f"{stat.st_ino}-{stat.st_size}-{stat.st_mtime_ns}")
