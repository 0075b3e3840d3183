"""The single writer: several waiting writes share one durable transaction (group commit).

An fsync costs the same for one write as for a hundred. While the thread waits for one, new writes
gather in the queue and go together into the next transaction: throughput grows with load, and a
lone write waits for nobody.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.model import faults
from penstock.model.errors import InternalError, PenstockError, error_of
from penstock.store.errors import translate
from penstock.store.port import Check, Conflict, Put

log = logging.getLogger(__name__)

MOST_GROUPED = 256
"""Writes in one transaction. More lengthen the wait of the first without saving much fsync."""

_READ_REVISION = "SELECT value FROM meta WHERE name = 'revision'"
_WRITE_REVISION = "UPDATE meta SET value = ? WHERE name = 'revision'"
_READ_KEY = "SELECT revision FROM entry WHERE key = ?"
_PUT = "INSERT OR REPLACE INTO entry (key, revision, value) VALUES (?, ?, ?)"
_REMOVE = "DELETE FROM entry WHERE key = ?"


@dataclass(frozen=True, slots=True)
class Request:
    """A write that waits for its turn."""

    checks: Sequence[Check]
    puts: Sequence[Put]
    answer: asyncio.Future[int]


Outcome = tuple[Request, "int | BaseException"]


class Writer:
    """A thread that owns the writing connection. Ends after `stop`, when its queue is empty."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        deliver: Callable[[list[Outcome]], None],
    ) -> None:
        """Start the thread. `deliver` is called in it, once a group."""
        self._path, self._connection, self._deliver = path, connection, deliver
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._broken: PenstockError | None = None
        self.groups = self.writes = 0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Queue a write; the caller bounds how many wait (invariant 12)."""
        self._queue.put(request)

    def stop(self) -> None:
        """Finish what is queued and end. Blocking: call in a thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            group, ended = self._gather()
            if group:
                self._deliver(self._commit(group))
        self._connection.close()

    def _gather(self) -> tuple[list[Request], bool]:
        """Wait for a write, and take those that wait behind it."""
        group: list[Request] = []
        request = self._queue.get()
        while request is not None:
            group.append(request)
            if len(group) == MOST_GROUPED:
                return group, False
            try:
                request = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _commit(self, group: list[Request]) -> list[Outcome]:
        if self._broken is not None:
            return _refused(group, self._broken)
        try:
            outcomes = self._transaction(group)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer to every writer
            return _refused(group, self._failed(error))
        self.groups += 1
        self.writes += len(group)
        return outcomes

    def _transaction(self, group: list[Request]) -> list[Outcome]:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        (before,) = run(_READ_REVISION).fetchone()
        revision, outcomes = before, list[Outcome]()
        for request in group:
            conflict = self._conflict(request.checks)
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

    def _conflict(self, checks: Sequence[Check]) -> Conflict | None:
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

    def _failed(self, error: Exception) -> PenstockError:
        """Roll back, and say what went wrong. After an I/O error nothing is written any more: what
        a failed fsync left on the disk is not known, and the next one would hide it.
        """
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as second:
            log.warning("roll back of %s failed: %s", self._path, second)
        if isinstance(error, PenstockError):
            return error
        if not isinstance(error, sqlite3.Error):
            log.error("unexpected error while writing %s", self._path, exc_info=error)
            return InternalError("store.failed", f"writing {self._path} failed unexpectedly")
        failure = translate(error, self._path)
        if failure.code in {"store.io", "store.corrupt"}:
            self._broken = failure
        return failure


def _refused(group: list[Request], failure: PenstockError) -> list[Outcome]:
    """Answer every writer with an error of its own: a raised one collects its raiser's frames."""
    return [(request, error_of(failure.diagnostic)) for request in group]
