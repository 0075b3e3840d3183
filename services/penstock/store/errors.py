"""A driver's errors as coded ones: the one place where sqlite3's exceptions are translated."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.model.errors import ConfigError, InternalError, PenstockError, RetriableError
from penstock.store.port import FORMAT

_PRIMARY = 0xFF
"""The low byte of an extended result code is the primary one."""


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into a `store.*` error that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error, path: Path) -> PenstockError:
    """Return the coded error for one of SQLite's."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return _of_the_file(code, error, path) or _of_the_moment(code, error, path, name)


def _of_the_file(code: int, error: sqlite3.Error, path: Path) -> PenstockError | None:
    match code:
        case sqlite3.SQLITE_FULL:
            return RetriableError(
                "store.full",
                f"no space left for {path}",
                fix="Free space on that file system; nothing of this write was stored.",
                retry_after=1.0,
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return InternalError(
                "store.corrupt",
                f"{path} is damaged or no state file: {error}",
                fix=f"Restore the file from a backup, or move it and {path.name}-wal away to "
                "start anew.",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return ConfigError(
                "store.read_only",
                f"{path} cannot be written: {error}",
                fix="Give this user write permission on the file and on its folder.",
            )
    return None


def _of_the_moment(code: int, error: sqlite3.Error, path: Path, name: str) -> PenstockError:
    match code:
        case sqlite3.SQLITE_CANTOPEN:
            return ConfigError(
                "store.unreachable",
                f"{path} cannot be opened: {error}",
                fix="Check that the folder exists and that this user may write there.",
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return RetriableError(
                "store.busy",
                f"{path} is held by another program",
                fix="End the program that has the file open.",
                retry_after=0.2,
            )
        case sqlite3.SQLITE_IOERR:
            return InternalError(
                "store.io",
                f"reading or writing {path} failed: {error} ({name})",
                fix="Check the disk and the kernel log, then start again.",
            )
    return InternalError("store.failed", f"{path}: {error} ({name})")


def newer(where: str, found: object) -> ConfigError:
    """Return the error for a store that a newer version has written."""
    return ConfigError(
        "store.newer",
        f"{where} was written by a newer version (format {found}, this one knows {FORMAT})",
        fix="Start the newer version, or restore the backup from before it.",
    )
