"""The file of users, read anew when it changes: who is taken out of it is let in no longer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from penstock.gateway.access.people import User, read_users
from penstock.model.errors import ConfigError

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the file."""


class FileOfUsers:
    """Users of a file. One that cannot be read any more changes nothing, and is told in the log."""

    def __init__(self, file: Path, now: Callable[[], float] = time.monotonic) -> None:
        """Read it.

        Raises:
            ConfigError: `access.file`.
        """
        self._file, self._now = file, now
        self._stamp = _stamp(file)
        self._users: Mapping[str, User] = read_users(file)
        self._looked = now()

    def get(self, name: str) -> User | None:
        """Return a user; None when there is none of that name."""
        if self._now() - self._looked >= LOOK_EVERY:
            self._looked = self._now()
            self._look()
        return self._users.get(name)

    def _look(self) -> None:
        stamp = _stamp(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._users = read_users(self._file)
        except ConfigError as error:
            log.warning("the users stay as they were: %s", error)
        else:
            log.info("the users were read anew")


def _stamp(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:  # it is being replaced
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)
