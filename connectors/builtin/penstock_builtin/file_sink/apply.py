"""Makes a prepared write visible: once, whatever was done of it before a crash.

Staged files are removed only after the target is safe. So a staged file that is missing says that
its write is done; and while they are all there, the target's bytes say how far it came.
"""

from __future__ import annotations

import os

from penstock_builtin.file_sink import disk
from penstock_builtin.file_sink.place import Place
from penstock_builtin.file_sink.writes import Write
from penstock_builtin.opening import Roots
from penstock_connector import ConfigError


def apply(write: Write, place: Place, roots: Roots, *, fsync: bool) -> None:
    """Do a write, or the rest of it.

    Raises:
        ConfigError: `file.changed`: something else wrote to the target meanwhile.
        OSError: the disk is full, for instance; the target is as it was before.
    """
    if not all(disk.exists(place.staging, name) for name, _ in write.parts):
        _clear(write, place)
        return
    with place.inside(write.sub, fsync=fsync) as folder:
        _apply(write, place, folder, roots, fsync=fsync)


def _apply(write: Write, place: Place, folder: int, roots: Roots, *, fsync: bool) -> None:
    if write.renames and not disk.exists(folder, write.target):
        disk.rename(place.staging, write.parts[0][0], folder, write.target)
        if fsync:
            disk.sync_folder(folder)
        return
    fd = disk.open_target(folder, write.target)
    try:
        roots.check(fd, write.target)
        if not _is_applied(write, place, fd):
            _append(write, place, fd)
        if fsync:
            disk.sync(fd)
            if not write.before:
                disk.sync_folder(folder)
    finally:
        os.close(fd)
    _clear(write, place)


def _clear(write: Write, place: Place) -> None:
    for name, _ in write.parts:
        disk.unlink(place.staging, name)


def _is_applied(write: Write, place: Place, fd: int) -> bool:
    """Return whether all of it is there already. Half of it is taken back."""
    size = os.fstat(fd).st_size
    if size == write.before:
        return False
    present = _common(write, place, fd)
    if size >= write.after and present == write.after - write.before:
        return True
    there = size - write.before
    if there < 0 or (present < there and not _is_empty(fd, write.before + present, size)):
        raise ConfigError(
            "file.changed",
            f"{write.folder}/{write.path} has {size} bytes, {write.before} were expected: "
            "something else wrote to it",
            fix="Let nothing else write to the file; use `path` to have files that are begun anew. "
            "The rows are kept: cut the file to the expected length, and restart.",
        )
    disk.truncate(fd, write.before)
    return False


def _common(write: Write, place: Place, fd: int) -> int:
    """Return how many bytes of the write are in the target."""
    at = len(write.start)
    if os.pread(fd, at, write.before) != write.start:
        return 0
    for name, size in write.parts:
        source = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=place.staging)
        try:
            same = disk.common_length(fd, write.before + at, source, size)
        finally:
            os.close(source)
        at += same
        if same < size:
            break
    return at


def _is_empty(fd: int, start: int, end: int) -> bool:
    """Return whether only zeros are there: what some file systems leave of bytes that were still on
    their way when the power went.
    """
    while start < end:
        data = os.pread(fd, min(end - start, 1 << 20), start)
        if data.strip(b"\0"):
            return False
        start += len(data) or end
    return True


def _append(write: Write, place: Place, fd: int) -> None:
    try:
        disk.write_at(fd, write.start, write.before)
        at = write.before + len(write.start)
        for name, size in write.parts:
            source = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=place.staging)
            try:
                disk.copy(source, fd, size, at)
            finally:
                os.close(source)
            at += size
    except OSError:
        disk.truncate(fd, write.before)  # nothing half visible: readers see whole transactions
        raise
