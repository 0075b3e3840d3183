"""Batches in shared memory: memory files of Linux that one process writes and another one copies.

A batch in a message of gRPC is copied some six times on its way to a process of the same machine,
in a memory file twice. A memory file has no name in any folder: when its owner dies, by whatever
signal, nothing is left. It is opened through `/proc/<process>/fd`, so no descriptors are passed,
and it is closed with what bounds the batch anyway: the credit of a source, the window of a Put.
"""

from __future__ import annotations

import fcntl
import functools
import os
import re
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from penstock.api.record.v1 import record_pb2 as pb

SMALLEST_BYTES: Final = 128 << 10
"""Smaller batches are sent as before: the eight system calls of a memory file cost as much."""

_MOST_SHOWN: Final = 4096
"""Bytes of a file that a process shows: a sparse one of any size costs its maker nothing."""

_NAME: Final = re.compile(r"penstock-[0-9a-f]{32}")


class BrokenMemoryFileError(ValueError):
    """A message names a file that is not as the protocol wants it."""


class MemoryFileGoneError(Exception):
    """A memory file cannot be opened: its process has ended, or closed it, or is not visible."""


@dataclass(slots=True)
class MemoryFile:
    """A memory file that this process holds open. `close` it once."""

    message: pb.MemoryFile
    """How others find it."""

    @staticmethod
    def of_batch(data: pa.Buffer) -> MemoryFile | None:
        """Return a file with a batch; None when it is small, or as `create`."""
        return MemoryFile.create(data) if data.size >= SMALLEST_BYTES else None

    @staticmethod
    def create(data: pa.Buffer | bytes) -> MemoryFile | None:
        """Return a sealed file with these bytes; None where the system has no room for it, or no
        memory files.

        Half of the descriptors that the process may have are left to everything else.
        """
        name = f"penstock-{os.urandom(16).hex()}"
        try:
            descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except (OSError, AttributeError):
            return None
        try:
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            if descriptor > most // 2:
                raise OSError("too many descriptors")
            view = memoryview(data)
            written = 0
            while written < len(view):
                written += os.write(descriptor, view[written:])
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _seals())
        except OSError:
            os.close(descriptor)
            return None
        message = pb.MemoryFile(
            process_id=os.getpid(), descriptor=descriptor, bytes=written, name=name
        )
        return MemoryFile(message)

    def read(self) -> pa.Buffer:
        """Return the bytes of the file."""
        return _read(self.message.descriptor, self.message.bytes)

    def close(self) -> None:
        """Free the memory, unless another process just copies it."""
        os.close(self.message.descriptor)


def has_memory_file(batch: pb.Batch) -> bool:
    """Return whether the rows of a frame are in a memory file.

    Raises:
        BrokenMemoryFileError: they are there and in the frame, too, or in chunks.
    """
    if not batch.HasField("memory_file"):
        return False
    if batch.data or batch.chunk or batch.more_chunks:
        raise BrokenMemoryFileError(f"batch {batch.seq} has rows beside its memory file")
    if batch.encoding != pb.ENCODING_ARROW_IPC:
        raise BrokenMemoryFileError(f"batch {batch.seq} has JSON lines in a memory file")
    return True


def read_memory_file(message: pb.MemoryFile) -> pa.Buffer:
    """Return a copy of the bytes in a file of another process.

    Raises:
        BrokenMemoryFileError: it is not sealed, of another user, or of another size.
        MemoryFileGoneError: there is no such file, or none that can be opened.
    """
    if not _NAME.fullmatch(message.name):
        raise BrokenMemoryFileError(f"a memory file is called {message.name[:60]!r}")
    path, target = f"/proc/{message.process_id}/fd/{message.descriptor}", _link(message.name)
    try:
        # looked at before it is opened, since opening a device or a pipe may have effects
        _require_link(path, target)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise MemoryFileGoneError(f"{path}: {error.strerror}") from None
    try:
        _require_link(f"/proc/self/fd/{descriptor}", target)  # the number may be another file's now
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise BrokenMemoryFileError(f"{path} belongs to user {status.st_uid}")
        if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _seals() != _seals():
            raise BrokenMemoryFileError(f"{path} is not sealed")
        if status.st_size != message.bytes:
            raise BrokenMemoryFileError(
                f"{path} has {status.st_size} bytes, and was announced with {message.bytes}"
            )
        return _read(descriptor, message.bytes)
    finally:
        os.close(descriptor)


def _seals() -> int:
    return fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def _link(name: str) -> str:
    return f"/memfd:{name} (deleted)"


def _require_link(path: str, target: str) -> None:
    found = str(Path(path).readlink())
    if found != target:  # closed since, and the number used again
        raise MemoryFileGoneError(f"{path} is {found[:200]!r}, not the memory file that was named")


def _read(descriptor: int, size: int) -> pa.Buffer:
    buffer = pa.allocate_buffer(size)
    view = memoryview(buffer)
    done = 0
    while done < size:
        count = os.preadv(descriptor, [view[done:]], done)
        if not count:
            raise BrokenMemoryFileError(f"a memory file ends after {done} of {size} bytes")
        done += count
    return buffer


@functools.lru_cache(maxsize=1)
def _own_file(process_id: int) -> MemoryFile | None:
    """A forked process makes its own: that of its parent names another process."""
    return MemoryFile.create(str(process_id).encode())


def own_memory_file() -> pb.MemoryFile | None:
    """Return a file of this process that stays open, by which others find out whether they can read
    those with rows; None where it can have none.
    """
    file = _own_file(os.getpid())
    return None if file is None else file.message


def can_read(message: pb.MemoryFile) -> bool:
    """Return whether memory files of the process that sent this one can be read here."""
    if message.bytes > _MOST_SHOWN:  # it only shows that it can be opened
        return False
    try:
        read_memory_file(message)
    except (BrokenMemoryFileError, MemoryFileGoneError):
        return False
    return True
