"""The driver for one machine: a SQLite file in WAL mode, one process at a time.

One thread writes (see `penstock.store.writer`), another reads; WAL lets both work at once, each
read at one revision. `synchronous=FULL`: what was acknowledged survives a power cut.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from penstock.model.errors import ConfigError, InternalError
from penstock.store.errors import newer, translated
from penstock.store.feed import Feed
from penstock.store.lock import FileLock
from penstock.store.port import FORMAT, Change, Check, Entry, Page, Put
from penstock.store.writer import Outcome, Request, Writer

_T = TypeVar("_T")

MOST_WAITING = 1024
"""Writes that may wait for the writer (invariant 12); others wait for a place."""

MOST_WRITE_BYTES = 64 << 20
"""Bytes in one write. A larger one would hold up every other writer for seconds."""

_APPLICATION: Final = 0x50535444  # "PSTD", so that `file` and we can tell whose database it is
_SCHEMA: Final = (
    "CREATE TABLE entry (key BLOB PRIMARY KEY, revision INT NOT NULL, value BLOB) WITHOUT ROWID",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INT NOT NULL) WITHOUT ROWID",
    # not 0: a watch after 0 is one from now, and would miss what comes between a list and a watch
    "INSERT INTO meta VALUES ('revision', 1)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)
_REVISION: Final = "SELECT value FROM meta WHERE name = 'revision'"
_GET: Final = "SELECT key, value, revision FROM entry WHERE key = ?"
_FROM: Final = (
    "SELECT key, value, revision FROM entry WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
)
_AFTER: Final = _FROM.replace(">=", ">")


@dataclass(frozen=True, slots=True)
class _Opened:
    lock: FileLock
    writing: sqlite3.Connection
    reading: sqlite3.Connection
    revision: int


class SqliteStore:
    """A `Store` in one file. Made by `open`; belongs to the event loop that opened it."""

    def __init__(self, path: Path, opened: _Opened) -> None:
        """Take what `open` made."""
        self._path, self._lock, self._reading = path, opened.lock, opened.reading
        self._loop = asyncio.get_running_loop()
        self._readers = ThreadPoolExecutor(1, "store-reader")
        self._places = asyncio.Semaphore(MOST_WAITING)
        self._feed = Feed(opened.revision)
        self._writer = Writer(path, opened.writing, self._deliver)
        self._closed = False

    @staticmethod
    async def open(path: Path) -> SqliteStore:
        """Open or make the state file, and lock it.

        Raises:
            PenstockError: `store.locked`, `store.corrupt`, `store.read_only`, `store.newer`, ….
        """
        return SqliteStore(path, await asyncio.to_thread(_open, path))

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision; those that do not exist are absent."""
        return await self._read(lambda: self._get(keys))

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read the keys that start with `prefix` and come after `after`, at one revision."""
        return await self._read(lambda: self._range(prefix, after, limit))

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, durably, if every check holds; returns the revision of the write."""
        size = sum(len(key) + len(value or b"") for key, value in puts)
        if size > MOST_WRITE_BYTES:
            raise ConfigError(
                "store.write_too_large",
                f"a write of {size} bytes is over the limit of {MOST_WRITE_BYTES}",
                fix="Split the change.",
            )
        async with self._places:
            if self._closed:
                raise self._after_close()
            answer: asyncio.Future[int] = self._loop.create_future()
            self._writer.submit(Request(checks, puts, answer))
            return await answer

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Tell about writes to keys under `prefix` after a revision; 0 for from now."""
        return self._feed.watch(prefix, after_revision)

    async def close(self) -> None:
        """Finish the writes that wait, end the watches, let go of the file. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._feed.close()
        await asyncio.to_thread(self._writer.stop)
        await asyncio.to_thread(self._readers.shutdown)
        self._reading.close()
        self._lock.release()

    def statistics(self) -> dict[str, int]:
        """Return how many writes were made durable, and in how many transactions."""
        return {"writes": self._writer.writes, "groups": self._writer.groups}

    async def _read(self, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise self._after_close()
        return await self._loop.run_in_executor(self._readers, work)

    def _get(self, keys: Sequence[str]) -> dict[str, Entry]:
        with self._snapshot():
            rows = (self._reading.execute(_GET, (key.encode(),)).fetchone() for key in keys)
            return {entry.key: entry for entry in (_entry(row) for row in rows if row)}

    def _range(self, prefix: str, after: str, limit: int) -> Page:
        first = prefix.encode()
        with self._snapshot():
            revision = _revision(self._reading)
            last = after.encode()
            # Only one lower bound: SQLite would seek the first of two, and walk to the second.
            query, start = (_AFTER, last) if last >= first and after else (_FROM, first)
            rows = self._reading.execute(query, (start, _end(first), limit + 1)).fetchall()
        return Page(tuple(_entry(row) for row in rows[:limit]), revision, len(rows) > limit)

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Read at one revision: WAL keeps it still while writes go on."""
        with translated(self._path):
            self._reading.execute("BEGIN")
            try:
                yield
            finally:
                self._reading.execute("COMMIT")

    def _deliver(self, outcomes: list[Outcome]) -> None:
        if not self._loop.is_closed():  # else nobody waits any more
            self._loop.call_soon_threadsafe(self._answer, outcomes)

    def _answer(self, outcomes: list[Outcome]) -> None:
        for request, outcome in outcomes:
            if isinstance(outcome, int):
                self._feed.publish(outcome, [key for key, _ in request.puts])
            if request.answer.done():  # cancelled while it waited
                continue
            if isinstance(outcome, int):
                request.answer.set_result(outcome)
            else:
                request.answer.set_exception(outcome)

    def _after_close(self) -> InternalError:
        return InternalError("store.closed", f"{self._path} was closed already")


def _open(path: Path) -> _Opened:
    _make(path)
    lock = FileLock(path)
    try:
        with translated(path):
            writing = _connect(path)
            try:
                _prepare(path, writing)
                return _Opened(lock, writing, _reader(path), _revision(writing))
            except BaseException:
                writing.close()
                raise
    except BaseException:
        lock.release()
        raise


def _make(path: Path) -> None:
    """Make the file before SQLite does, so that nobody else may read it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        denied = error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}
        raise ConfigError(
            "store.read_only" if denied else "store.unreachable",
            f"{path} cannot be opened for writing: {error.strerror}",
            fix="Choose a folder that this user may write to.",
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    # Used by one thread at a time, though not by the one that makes it.
    return sqlite3.connect(path, timeout=2.0, isolation_level=None, check_same_thread=False)


def _reader(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise ConfigError(
            "store.no_wal",
            f"the file system of {path} cannot hold a write-ahead log",
            fix="Choose a folder on a local disk.",
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        _lay_out(connection)
    elif application != _APPLICATION:
        raise ConfigError(
            "store.foreign",
            f"{path} is a database of another program",
            fix="Choose another path.",
        )
    elif found > FORMAT:
        raise newer(str(path), found)


def _lay_out(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    with closing(connection.cursor()) as cursor:
        for statement in _SCHEMA:
            cursor.execute(statement)
    connection.execute("COMMIT")


def _revision(connection: sqlite3.Connection) -> int:
    (revision,) = connection.execute(_REVISION).fetchone()
    return int(revision)


def _entry(row: tuple[bytes, bytes, int]) -> Entry:
    key, value, revision = row
    return Entry(key.decode(), value, revision)


def _end(prefix: bytes) -> bytes:
    """Return the first key after all that start with `prefix`. Keys are UTF-8: 0xFF is in none."""
    return prefix + b"\xff"
