"""One process per state file: an advisory lock that the kernel lets go when the process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from penstock.model.errors import ConfigError


class FileLock:
    """Holds `<file>.lock` until `release`. A crash leaves the file behind and the lock free."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            ConfigError: `store.locked` with the pid of the holder, or `store.unreachable`.
        """
        self._path = path.with_name(f"{path.name}.lock")
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unreachable(self._path, error) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise ConfigError(
                "store.locked",
                f"{path} is in use by process {holder}",
                fix="Stop that process, or give this one a state folder of its own.",
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let go. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _unreachable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        "store.unreachable",
        f"{path} cannot be opened: {error.strerror}",
        fix="Check that the folder exists and that this user may write there.",
    )
