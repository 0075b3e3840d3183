"""Where rows of a dataset go: a folder, opened and checked, and a hidden one beside it for staging.

All work goes through the descriptors of opened folders. A link that is swapped afterwards changes
nothing: what was checked is what is used.
"""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH100, PTH208

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock_builtin.file_sink import disk
from penstock_builtin.file_sink.file_names import target_name
from penstock_builtin.opening import Roots, telling
from penstock_connector import ConfigError, FencedError, RetriableError

_LOCKED_WITHIN: Final = 10.0
"""Seconds to wait for another process that is in the middle of a commit. A commit takes
milliseconds; one that takes longer was stopped or hangs, and a retry is better than a wait."""

_LOCK_AGAIN: Final = 0.01
"""Seconds between two tries. There is no call that waits for a lock with a deadline."""


def target_path(template: str, dataset: str, task_id: str) -> str:
    """Return the path for a dataset and task."""
    return os.path.abspath(target_name(template, dataset, task_id))


def open_folder(path: str, roots: Roots) -> int:
    """Open a folder, made when it is not there, that is inside the roots."""
    roots.reach.require_path(path)  # nothing is made elsewhere
    with telling(path):
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise ConfigError(
                "file.bad_path",
                f"{path} is a file, expected a folder",
                fix="Name a folder, or set `file` instead of `path` to write into one file.",
            ) from None
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        roots.check(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Place:
    """The target of a dataset: one file, or a folder of files.

    Attributes:
        path: The folder of the target.
        name: The file in it; empty for a folder of files.
        folder: Its descriptor.
        staging: The descriptor of the hidden folder.
        where: What to call it.
    """

    def __init__(self, path: str, name: str, task_id: str, roots: Roots) -> None:
        self.path, self.name = path, name
        self.folder = open_folder(path, roots)
        try:
            inner = f".{name}.penstock" if name else f".penstock/{quote(task_id, safe='')}"
            self.staging = open_folder(f"{path}/{inner}", roots)
        except BaseException:
            os.close(self.folder)
            raise
        self.where = f"{path}/{name}" if name else path
        self._alive: int | None = None
        self._owner = (task_id, 0)

    def close(self) -> None:
        """Let go of it."""
        for fd in (self.folder, self.staging, self._alive):
            if fd is not None:
                os.close(fd)
        self._alive = None

    def claim(self, task_id: str, epoch: int) -> None:
        """Become the owner, and fence every older epoch of the task (invariant 4).

        Raises:
            FencedError: a newer epoch of the task was here.
            ConfigError: another task writes here now.
        """
        with self._locked():
            owner = self._read_owner()
            if owner.get("task") == task_id:
                if owner["epoch"] > epoch:
                    raise self._fenced(owner["epoch"])
                if owner["epoch"] < epoch:
                    disk.unlink(self.staging, _alive_name(task_id, owner["epoch"]))
            elif owner and self._lives(owner):
                raise ConfigError(
                    "file.in_use",
                    f"{self.where} is written by another task, {owner['task']}, now",
                    fix="If both are tasks of this connector: set `tasks.max` to 1, put ${task} "
                    "into `file`, or use `path`. Else another pipeline writes there: stop that, or "
                    "name another file.",
                    config_path="file",
                )
            self._owner = (task_id, epoch)
            self._stay(task_id, epoch)
            self._write_owner(task_id, epoch)

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Do something that no newer owner can come into."""
        with self._locked():
            owner = self._read_owner()
            if (owner.get("task"), owner.get("epoch")) != self._owner:
                raise self._fenced(owner.get("epoch", 0))
            yield

    @contextmanager
    def inside(self, sub: str, *, fsync: bool) -> Iterator[int]:
        """Yield the descriptor of a folder in the target, made when it is not there. A link in its
        place is not followed: it may lead anywhere.
        """
        fd = os.dup(self.folder)
        try:
            for name in sub.split("/") if sub else ():
                inner = disk.open_inner(fd, name, fsync=fsync)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def leftovers(self, but: str) -> list[str]:
        """Return staged files that are not of this life of the task."""
        names = os.listdir(self.staging)
        return [name for name in names if name.endswith(".part") and not name.startswith(but)]

    def _fenced(self, epoch: int) -> FencedError:
        return FencedError(
            "file.fenced",
            f"{self.where} is written by epoch {epoch} now, this is {self._owner[1]}",
            fix="Nothing to do: the newer task goes on.",
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open("lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=self.staging)
        try:
            self._lock(fd)
            yield
        finally:
            os.close(fd)

    def _lock(self, fd: int) -> None:
        deadline = time.monotonic() + _LOCKED_WITHIN
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RetriableError(
                        "file.locked",
                        f"lock: another process has been writing to {self.where} for "
                        f"{_LOCKED_WITHIN:g} s",
                        fix="Look for a process of this task that hangs or was stopped.",
                    ) from None
                time.sleep(_LOCK_AGAIN)
            else:
                return

    # An owner holds a lock of its own for as long as its process lives: so an owner that is gone
    # for good (a connector that was deleted) does not keep others out.

    def _stay(self, task_id: str, epoch: int) -> None:
        if self._alive is not None:
            os.close(self._alive)
        self._alive = self._open_alive(task_id, epoch)
        fcntl.flock(self._alive, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def _lives(self, owner: dict[str, Any]) -> bool:
        fd = self._open_alive(owner["task"], owner["epoch"])
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        disk.unlink(self.staging, _alive_name(owner["task"], owner["epoch"]))
        return False

    def _open_alive(self, task_id: str, epoch: int) -> int:
        name = _alive_name(task_id, epoch)
        return os.open(name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=self.staging)

    def _read_owner(self) -> dict[str, Any]:
        try:
            fd = os.open("owner", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.staging)
        except FileNotFoundError:
            return {}
        try:
            owner: dict[str, Any] = json.loads(os.read(fd, 1 << 16))
        finally:
            os.close(fd)
        return owner

    def _write_owner(self, task_id: str, epoch: int) -> None:
        """Replace the record as a whole: it is read whole or not at all."""
        disk.unlink(self.staging, "owner.new")
        fd = disk.create(self.staging, "owner.new")
        try:
            disk.write(fd, [json.dumps({"task": task_id, "epoch": epoch}).encode()])
            disk.sync(fd)
        finally:
            os.close(fd)
        disk.rename(self.staging, "owner.new", self.staging, "owner")


def _alive_name(task_id: str, epoch: int) -> str:
    return f"{quote(task_id, safe='')}.{epoch}.alive"
