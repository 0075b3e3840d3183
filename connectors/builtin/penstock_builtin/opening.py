"""Files and folders that a configuration names: opened safely, and errors told in our words.

A configuration may come from someone who may configure connectors but not log in to the machine.
`Roots` keeps such a one inside the folders that were allowed. What counts is where the *opened*
file is: checking a name first and opening it afterwards could be outrun by swapping a link.
"""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH115, PTH116

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError
from penstock_connector.reach import ANYWHERE, Reach, outside_folder

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_SUCH_PLACE: Final = frozenset({errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR})


def as_file_error(error: OSError, path: str) -> ConnectorError:
    """Return what the operating system said about a path as an error for people."""
    text = f"{path}: {error.strerror or error}"
    if error.errno in _FULL:
        return RetriableError(
            "file.disk_full",
            text,
            fix="Free some space, or write elsewhere; the task goes on by itself.",
        )
    if error.errno in _DENIED:
        return AuthError(
            "file.permission_denied",
            text,
            fix="Give the user that runs the worker the right to it.",
        )
    if error.errno in _NO_SUCH_PLACE:
        return ConfigError("file.bad_path", text, fix="Name a file in folders that exist.")
    if error.errno == errno.ENOENT:
        return ConfigError("file.missing", text, fix="Correct the path, or make the file.")
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return RetriableError("file.too_many_open", text, fix="Raise the limit of open files.")
    return RetriableError("file.io", text, fix="See the log of the operating system.")


@contextmanager
def telling(path: str) -> Iterator[None]:
    """Translate errors of the operating system that are about a path."""
    try:
        yield
    except OSError as error:
        raise as_file_error(error, path) from error


@dataclass(frozen=True, slots=True)
class Roots:
    """The folders that opened files must be in: those of a configuration, everywhere when it gives
    none, and in any case those that the node lets it reach.
    """

    folders: tuple[str, ...] = ()
    reach: Reach = ANYWHERE

    @classmethod
    def of(cls, folders: Sequence[str], reach: Reach = ANYWHERE) -> Roots:
        """Return roots with all links in their own names resolved."""
        return cls(tuple(os.path.realpath(folder) for folder in folders), reach)

    def check(self, fd: int, path: str) -> None:
        """Refuse an opened file or folder that is elsewhere, whatever its name was.

        Raises:
            ConfigError: `file.outside_roots`, `reach.folder`.
        """
        if not self.reach.has_opened(fd):
            raise outside_folder(path)
        if not self.folders:
            return
        real = os.readlink(f"/proc/self/fd/{fd}")
        if not any(real == root or real.startswith(_inside(root)) for root in self.folders):
            raise ConfigError(
                "file.outside_roots",
                f"{path} is not inside the allowed folders",
                fix="Name a file inside `allowed.roots`, or allow its folder there.",
                config_path="allowed.roots",
            )


def _inside(root: str) -> str:
    return root if root.endswith("/") else root + "/"


def open_regular(path: str, roots: Roots) -> int:
    """Open a regular file for reading.

    Never blocks and never starts anything: a device or a pipe is not even opened.

    Raises:
        FileNotFoundError: there is none; what that means is the caller's to say.
        ConnectorError: it is no regular file, not allowed, or not readable.
    """
    try:
        _refuse_irregular(os.stat(path).st_mode, path)
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise as_file_error(error, path) from error
    try:
        _refuse_irregular(os.fstat(fd).st_mode, path)
        roots.check(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _refuse_irregular(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        kind = next((text for test, text in _KINDS if test(mode)), "something else")
        raise ConfigError(
            "file.not_regular",
            f"{path} is {kind}, not a regular file",
            fix="Name a regular file, or a pattern like /data/*.log for those of a folder.",
        )


_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
