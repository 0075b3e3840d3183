"""A staged file that is being written: the port, and the local one."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock_builtin.file_sink import disk
from penstock_builtin.file_sink.place import Place


@dataclass(frozen=True, slots=True)
class Part:
    """A staged file.

    Attributes:
        name: Its own, in the hidden folder, or the object's key.
        size: Its bytes.
        rows: How many rows are in it.
        head: What has to stand before it in a new file.
        sub: The folder in the target that it belongs to; empty for the target itself.
        upload, tags: Of an object: the upload and its parts, by which it is completed.
    """

    name: str
    size: int
    rows: int
    head: bytes = b""
    sub: str = ""
    upload: str = ""
    tags: tuple[str, ...] = ()


class Sheet(Protocol):
    """A staged file. Nobody sees it before a commit.

    Attributes:
        size: Bytes that were written so far.
    """

    size: int

    def write(self, buffers: Sequence[Any]) -> None:
        """Write buffers one after the other."""

    def end(self, rows: int, head: bytes, sub: str) -> Part:
        """Make it durable."""

    def drop(self) -> None:
        """Remove it."""


class LocalSheet:
    """A file in the hidden folder of a place."""

    def __init__(self, place: Place, name: str, *, fsync: bool) -> None:
        self._place, self._name, self._fsync = place, name, fsync
        self._fd = disk.create(place.staging, name)
        self.size = 0

    def write(self, buffers: Sequence[Any]) -> None:
        """Write buffers one after the other."""
        self.size += disk.write(self._fd, buffers)

    def end(self, rows: int, head: bytes, sub: str) -> Part:
        """Wait for the disk, where that is wanted."""
        if self._fsync:
            disk.sync(self._fd)
        os.close(self._fd)
        return Part(self._name, self.size, rows, head, sub)

    def drop(self) -> None:
        """Remove it."""
        os.close(self._fd)
        disk.unlink(self._place.staging, self._name)


class SheetFile(io.RawIOBase):
    """A sheet for those who write to a file of Python. After `cut_off` nothing comes through: some
    of them write an end when they are forgotten.
    """

    def __init__(self, sheet: Sheet) -> None:
        super().__init__()
        self._sheet: Sheet | None = sheet

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes."""
        size = len(data)
        if self._sheet is not None and size:
            self._sheet.write([data])
        return size

    def cut_off(self) -> None:
        """Let nothing through any more."""
        self._sheet = None
