"""What a reader needs of a place where files are. Implementations: `local`, `s3`, `sftp`,
`hdfs`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock_connector import Pattern


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it is now.

    Attributes:
        path: Its name in offsets: absolute, or a URL.
        size: Bytes.
        version: Another one after every change.
    """

    path: str
    size: int
    version: str


@dataclass(frozen=True, slots=True)
class Names:
    """The names of files that are wanted."""

    pattern: Pattern | None = None

    def has(self, path: str) -> bool:
        """Return whether the last part of a path is such a name.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return self.pattern is None or self.pattern.matches(path.rpartition("/")[2])


class Opened(Protocol):
    """An open file. Where files grow, `read_at` gives what was appended, too."""

    found: Found

    def read_at(self, at: int, size: int) -> bytes:
        """Return bytes from a place on; fewer only at the end of the file."""

    def close(self) -> None:
        """Let go of it."""


class Place(Protocol):
    """Files somewhere. What goes wrong is raised as an error of a connector.

    Attributes:
        grows: A file may be appended to, so a last line without newline may not be whole. Where it
            is False, files are replaced as a whole.
        reopens: An open file stays as it was, and is opened again to read what was appended.
    """

    grows: bool
    reopens: bool

    def find(self) -> Sequence[Found]:
        """Return the files that are meant now, in the order of their names."""

    def look(self, path: str) -> Found | None:
        """Return a file as it is now; None when there is none."""

    def open(self, path: str) -> Opened:
        """Open a file.

        Raises:
            FileNotFoundError: there is none.
        """

    def close(self) -> None:
        """Let go of all that is kept open."""


class Seekable(io.RawIOBase):
    """An opened file for those who want one of Python. It stays its owner's."""

    def __init__(self, opened: Opened, start: int = 0) -> None:
        super().__init__()
        self._opened, self._at = opened, start

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._opened.found.size}
        self._at = max(0, begin[whence] + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer only at the end."""
        left = max(0, self._opened.found.size - self._at)
        data = self._opened.read_at(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data
