"""Everything that the sink does to a disk, one function a step.

A crash can come between any two of these calls and nowhere else that matters; the tests replace
each of them to make it come there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any, Final

_CANNOT_COPY: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_COPY_AT_ONCE: Final = 64 << 20
_COMPARE_AT_ONCE: Final = 1 << 20


def create(folder: int, name: str) -> int:
    """Open a new file for writing."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(name, flags, 0o666, dir_fd=folder)


def open_target(folder: int, name: str) -> int:
    """Open a file for appending and comparing; make it when there is none."""
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    return os.open(name, flags, 0o666, dir_fd=folder)


def write(fd: int, buffers: Sequence[Any]) -> int:
    """Write buffers one after the other; returns their bytes."""
    views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    total = 0
    while views:
        done = os.writev(fd, views)
        total += done
        while views and done >= len(views[0]):
            done -= len(views.pop(0))
        if done:
            views[0] = views[0][done:]
    return total


def copy(source: int, target: int, size: int, at: int) -> None:
    """Copy a whole file to a place in another, inside the kernel."""
    done = 0
    while done < size:
        step = min(size - done, _COPY_AT_ONCE)
        try:
            moved = os.copy_file_range(source, target, step, done, at + done)
        except OSError as error:
            if error.errno not in _CANNOT_COPY:
                raise
            os.lseek(target, at + done, os.SEEK_SET)
            moved = os.sendfile(target, source, done, step)
        if not moved:
            raise OSError(errno.EIO, "a staged file is shorter than it was written")
        done += moved


def write_at(fd: int, data: bytes, at: int) -> None:
    """Write a few bytes at a place."""
    while data:
        done = os.pwrite(fd, data, at)
        data, at = data[done:], at + done


def truncate(fd: int, size: int) -> None:
    """Cut a file off."""
    os.ftruncate(fd, size)


def sync(fd: int) -> None:
    """Wait until the bytes of a file are on the disk."""
    os.fdatasync(fd)


def sync_folder(folder: int) -> None:
    """Wait until the names in a folder are on the disk."""
    os.fsync(folder)


def rename(folder: int, name: str, to_folder: int, to_name: str) -> None:
    """Give a file its final name."""
    os.rename(name, to_name, src_dir_fd=folder, dst_dir_fd=to_folder)


def unlink(folder: int, name: str) -> None:
    """Remove a file; none is as good."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def exists(folder: int, name: str) -> bool:
    """Return whether there is something of this name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def size(folder: int, name: str) -> int:
    """Return the bytes of a file; 0 when there is none."""
    try:
        return os.stat(name, dir_fd=folder).st_size
    except FileNotFoundError:
        return 0


def open_inner(folder: int, name: str, *, fsync: bool) -> int:
    """Open a folder in another one, made when it is not there."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        make_folder(folder, name)
    if fsync:
        sync_folder(folder)
    return os.open(name, flags, dir_fd=folder)


def make_folder(folder: int, name: str) -> None:
    """Make a folder in another one; one that is there is as good."""
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return


def beginning(folder: int, name: str, size_: int) -> bytes:
    """Return the first bytes of a file; nothing when there is none."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return b""
    try:
        return os.read(fd, size_)
    finally:
        os.close(fd)


def common_length(target: int, at: int, source: int, size_: int) -> int:
    """Return how many bytes of a staged file stand at a place of another already."""
    done = 0
    while done < size_:
        step = min(size_ - done, _COMPARE_AT_ONCE)
        one, other = os.pread(target, step, at + done), os.pread(source, step, done)
        if one != other:
            return done + next(
                (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)),
            )
        if not one:
            break
        done += len(one)
    return done
