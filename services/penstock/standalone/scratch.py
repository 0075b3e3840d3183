"""The folder of a process for its sockets and Spark's scratch files: gone with the process."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "penstock-"
"""How these folders are named, in the system's folder for temporary files. Short: the path of a
socket has 107 bytes at most."""

_LOCK: Final = "alive"


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Yield a private folder and remove it at the end, with those of processes that were killed.

    A process holds a lock in its folder as long as it lives, however it ends: who gets the lock
    knows that nobody is there.
    """
    parent = parent or Path(tempfile.gettempdir())
    _sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    new = folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new.rename(folder / _LOCK)  # nobody finds it before it is locked
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        # a folder without the file is one that is being made, or is none of these
        with suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
