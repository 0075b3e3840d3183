"""A folder of a file system, of one machine or shared by several.

A version is put by `link(2)`, which is atomic on every file system with hard links. On NFS the
server decides. There is no lock that a stopped process could hold.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock.model import faults
from penstock.topic_files.folder import FileInfo

TEMPORARY_PREFIX: Final = ".penstock-"
"""Prefix of the names of files that are being put."""


def sync_file(path: Path) -> int:
    """Make a file's content durable and return its bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LocalFolder:
    """A folder by its path."""

    delta_options: dict[str, str] | None = None

    def __init__(self, path: Path, parents: tuple[Path, ...] = ()) -> None:
        """`parents` are the folders above it that are synced when it is created."""
        self.path, self._parents = path, parents

    def __repr__(self) -> str:
        return f"LocalFolder({str(self.path)!r})"

    @property
    def url(self) -> str:
        """The path."""
        return str(self.path)

    def to_ticket(self) -> dict[str, Any]:
        """Return the path."""
        return {"root": str(self.path)}

    def subfolder(self, name: str) -> LocalFolder:
        """Return a folder in this one."""
        return LocalFolder(self.path / name, (*self._parents, self.path))

    def check_usable(self) -> None:
        """Create the folder for its owner only: it holds rows, and dead letters. One that exists
        keeps its mode, so that an operator can let others read.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def create(self) -> None:
        """Create the folder, and sync its name, also when it exists: the process that created it
        may have ended before the sync.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        for folder in self._parents:
            sync_folder(folder)

    def put_new(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists."""
        target = self.path / name
        broken = faults.hit("topic.put_condition")
        if target.exists() and not broken:
            return False
        temporary = self.path / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}.tmp"
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # the name comes last, so a reader sees all of the content or nothing
            (os.replace if broken else os.link)(temporary, target)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(self.path)
        return True

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        return (self.path / name).read_bytes()

    def read_sequence(self, names: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of files up to the first that does not exist."""
        for name in names:
            try:
                content = (self.path / name).read_bytes()
            except FileNotFoundError:
                return
            yield content

    def get_sizes(self, names: Iterable[str]) -> list[int | None]:
        """Return the bytes of files."""
        return [_size(self.path / name) for name in names]

    def list_files(self, prefix: str = "") -> Iterator[FileInfo]:
        """Yield the files whose names begin with `prefix`."""
        with suppress(FileNotFoundError), os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(prefix) and entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        yield FileInfo(entry.name, found.st_size, found.st_mtime)

    def list_folders(self) -> list[str]:
        """Return the names of the folders in this one."""
        names: list[str] = []
        with suppress(FileNotFoundError), os.scandir(self.path) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
        return sorted(names)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, in their order."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def create_file(self, name: str) -> LocalFile:
        """Begin a file."""
        return LocalFile(self.path / name)

    def open_files(self, files: Iterable[tuple[str, int]]) -> Iterator[pa.NativeFile]:
        """Yield files, mapped into memory."""
        for name, _ in files:
            yield pa.memory_map(str(self.path / name))

    def sync(self, names: Iterable[str] = ()) -> None:
        """Make all names durable, and the content of `names`."""
        for name in names:
            sync_file(self.path / name)
        sync_folder(self.path)


class LocalFile:
    """A file that is being written."""

    def __init__(self, path: Path) -> None:
        self.sink = path

    def finish(self) -> int:
        """Make the content durable and return its bytes."""
        return sync_file(self.sink)

    def discard(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self.sink.unlink()


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
