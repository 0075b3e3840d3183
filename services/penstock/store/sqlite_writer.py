"""The single writer of a SQLite store: waiting writes share one durable transaction (group commit).

An fsync takes the same time for one write as for a hundred. While the thread waits for one, new
writes are queued, and the next transaction takes all of them. So throughput grows with load, and a
single write does not wait for others.

`translate_error` gives the errors of sqlite3 their codes.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.model import faults
from penstock.model.errors import (
    ConfigError,
    InternalError,
    PenstockError,
    RetriableError,
    error_from_diagnostic,
)
from penstock.store.port import Check, Conflict, Put

_PRIMARY = 0xFF
"""The low byte of an extended result code is the primary code."""


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise errors of SQLite as `store.*` errors that name the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate_error(error, path) from error


def translate_error(error: sqlite3.Error, path: Path) -> PenstockError:
    """Return the coded error for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return _file_error(code, error, path) or _access_error(code, error, path, name)


def _file_error(code: int, error: sqlite3.Error, path: Path) -> PenstockError | None:
    match code:
        case sqlite3.SQLITE_FULL:
            return RetriableError(
                "store.full",
                f"no space left for {path}",
                fix="Free space on that file system. Nothing of this write was stored.",
                retry_after_s=1.0,
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return InternalError(
                "store.corrupt",
                f"{path} is damaged or not a state file: {error}",
                fix=f"Restore the file from a backup. Or move it and {path.name}-wal away to start "
                "with an empty state.",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return ConfigError(
                "store.read_only",
                f"{path} cannot be written: {error}",
                fix="Give this user write permission on the file and on its folder.",
            )
    return None


def _access_error(code: int, error: sqlite3.Error, path: Path, name: str) -> PenstockError:
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
                f"another program has {path} locked",
                fix="End the program that has the file open.",
                retry_after_s=0.2,
            )
        case sqlite3.SQLITE_IOERR:
            return InternalError(
                "store.io",
                f"reading or writing {path} failed: {error} ({name})",
                fix="Check the disk and the kernel log, then restart.",
            )
    return InternalError("store.failed", f"{path}: {error} ({name})")


_log = logging.getLogger(__name__)

MAX_GROUP_SIZE = 256
"""Writes of one transaction. With more, the first waits longer and few fsyncs are saved."""

_READ_REVISION = "SELECT value FROM meta WHERE name = 'revision'"
_WRITE_REVISION = "UPDATE meta SET value = ? WHERE name = 'revision'"
_READ_KEY = "SELECT revision FROM entry WHERE key = ?"
_PUT = "INSERT OR REPLACE INTO entry (key, revision, value) VALUES (?, ?, ?)"
_REMOVE = "DELETE FROM entry WHERE key = ?"


@dataclass(frozen=True, slots=True)
class Request:
    """A queued write."""

    checks: Sequence[Check]
    puts: Sequence[Put]
    result: asyncio.Future[int]


Outcome = tuple[Request, "int | BaseException"]


class SqliteWriter:
    """A thread that owns the write connection. After `stop` it ends when its queue is empty."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        deliver: Callable[[list[Outcome]], None],
    ) -> None:
        """Start the thread, which calls `deliver` once for each group."""
        self._path, self._connection, self._deliver = path, connection, deliver
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._fatal_error: PenstockError | None = None
        self.groups = self.writes = 0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Queue a write. The caller bounds the number of waiting writes (invariant 12)."""
        self._queue.put(request)

    def stop(self) -> None:
        """Finish the queued writes and end. Blocks: call it in a thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        stopped = False
        while not stopped:
            group, stopped = self._take_group()
            if group:
                self._deliver(self._commit(group))
        self._connection.close()

    def _take_group(self) -> tuple[list[Request], bool]:
        """Wait for a write and take all queued writes; return whether the writer was stopped."""
        group: list[Request] = []
        request = self._queue.get()
        while request is not None:
            group.append(request)
            if len(group) == MAX_GROUP_SIZE:
                return group, False
            try:
                request = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _commit(self, group: list[Request]) -> list[Outcome]:
        if self._fatal_error is not None:
            return _fail_all(group, self._fatal_error)
        try:
            outcomes = self._run_transaction(group)
        except Exception as error:  # noqa: BLE001 - every error is the result of all writes
            return _fail_all(group, self._roll_back(error))
        self.groups += 1
        self.writes += len(group)
        return outcomes

    def _run_transaction(self, group: list[Request]) -> list[Outcome]:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        (before,) = run(_READ_REVISION).fetchone()
        revision, outcomes = before, list[Outcome]()
        for request in group:
            conflict = self._find_conflict(request.checks)
            if conflict is None:
                revision += 1
                self._put(request.puts, revision)
            outcomes.append((request, conflict or revision))
        if revision != before:
            run(_WRITE_REVISION, (revision,))
        faults.hit("store.committing")
        run("COMMIT")  # the fsync: acknowledged only after it (invariants 1 and 2 build on it)
        faults.hit("store.committed")
        return outcomes

    def _find_conflict(self, checks: Sequence[Check]) -> Conflict | None:
        for check in checks:
            if check.revision is None:
                continue
            row = self._connection.execute(_READ_KEY, (check.key.encode(),)).fetchone()
            current = row[0] if row else 0
            if current != check.revision:
                return Conflict(check.key, current)
        return None

    def _put(self, puts: Sequence[Put], revision: int) -> None:
        removed = [(key.encode(),) for key, value in puts if value is None]
        stored = [(key.encode(), revision, value) for key, value in puts if value is not None]
        self._connection.executemany(_REMOVE, removed)
        self._connection.executemany(_PUT, stored)

    def _roll_back(self, error: Exception) -> PenstockError:
        """Roll back and return the coded error.

        After an I/O error the writer refuses all writes: what a failed fsync left on the disk is
        unknown, and the next fsync would hide it.
        """
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as second:
            _log.warning("rollback of %s failed: %s", self._path, second)
        if isinstance(error, PenstockError):
            return error
        if not isinstance(error, sqlite3.Error):
            _log.error("unexpected error while writing %s", self._path, exc_info=error)
            return InternalError("store.failed", f"writing {self._path} failed unexpectedly")
        failure = translate_error(error, self._path)
        if failure.code in {"store.io", "store.corrupt"}:
            self._fatal_error = failure
        return failure


def _fail_all(group: list[Request], failure: PenstockError) -> list[Outcome]:
    """Return a separate error for each write: a raised error collects the frames of its caller."""
    return [(request, error_from_diagnostic(failure.diagnostic)) for request in group]
