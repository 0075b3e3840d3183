"""The driver for one machine: a SQLite file in WAL mode, used by one process at a time.

One thread writes (`penstock.store.sqlite_writer`), another reads. With WAL both work at the same
time, and each read sees one revision. With `synchronous=FULL`, acknowledged writes survive a power
cut.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from penstock.model.errors import ConfigError, InternalError
from penstock.store.feed import Feed
from penstock.store.port import FORMAT, Change, Check, Entry, Page, Put, newer_format
from penstock.store.sqlite_writer import Outcome, Request, SqliteWriter, translate_errors

_T = TypeVar("_T")

MAX_WAITING = 1024
"""Writes that wait for the writer at once (invariant 12); others wait for a free place."""

MAX_WRITE_BYTES = 64 << 20
"""Bytes of one write. A larger write would block all other writers for seconds."""

_APPLICATION: Final = 0x50535444  # "PSTD": identifies the database, also for `file`

_SCHEMA: Final = (
    "CREATE TABLE entry (key BLOB PRIMARY KEY, revision INT NOT NULL, value BLOB) WITHOUT ROWID",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INT NOT NULL) WITHOUT ROWID",
    # not 0: a watch after 0 starts now, and would miss writes between a list and the watch
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
class OpenFile:
    """A state file that this process has locked."""

    lock: FileLock
    write_connection: sqlite3.Connection
    read_connection: sqlite3.Connection
    revision: int

    def close(self) -> None:
        """Roll back what is not committed, close, and unlock."""
        self.write_connection.close()
        self.read_connection.close()
        self.lock.release()


class SqliteStore:
    """A `Store` in one file. Create it with `open`; belongs to the event loop that opened it."""

    def __init__(self, path: Path, opened: OpenFile) -> None:
        self._path, self._lock = path, opened.lock
        self._read_connection = opened.read_connection
        self._loop = asyncio.get_running_loop()
        self._read_thread = ThreadPoolExecutor(1, "store-reader")
        self._write_slots = asyncio.Semaphore(MAX_WAITING)
        self._feed = Feed(opened.revision)
        self._writer = SqliteWriter(path, opened.write_connection, self._deliver)
        self._closed = False

    @staticmethod
    async def open(path: Path) -> SqliteStore:
        """Open or create the state file, and lock it.

        Raises:
            PenstockError: `store.locked`, `store.corrupt`, `store.read_only`, `store.newer`, ….
        """
        return SqliteStore(path, await asyncio.to_thread(_open_file, path))

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision; those that do not exist are absent."""
        return await self._read(lambda: self._get(keys))

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read the keys that start with `prefix` and come after `after`, at one revision."""
        return await self._read(lambda: self._range(prefix, after, limit))

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, durably, if every check passes; return the revision of the write."""
        size = sum(len(key) + len(value or b"") for key, value in puts)
        if size > MAX_WRITE_BYTES:
            raise ConfigError(
                "store.write_too_large",
                f"a write of {size} bytes exceeds the limit of {MAX_WRITE_BYTES} bytes",
                fix="Split the change.",
            )
        async with self._write_slots:
            if self._closed:
                raise self._closed_error()
            result: asyncio.Future[int] = self._loop.create_future()
            self._writer.submit(Request(checks, puts, result))
            return await result

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Iterate over changes of keys under `prefix` after a revision; 0: from now on."""
        return self._feed.watch(prefix, after_revision)

    async def close(self) -> None:
        """Finish the waiting writes, end the watches, unlock the file. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._feed.close()
        await asyncio.to_thread(self._writer.stop)
        await asyncio.to_thread(self._read_thread.shutdown)
        self._read_connection.close()
        self._lock.release()

    def statistics(self) -> dict[str, int]:
        """Return the number of durable writes, and of their transactions."""
        return {"writes": self._writer.writes, "groups": self._writer.groups}

    async def _read(self, query: Callable[[], _T]) -> _T:
        if self._closed:
            raise self._closed_error()
        return await self._loop.run_in_executor(self._read_thread, query)

    def _get(self, keys: Sequence[str]) -> dict[str, Entry]:
        with self._snapshot():
            rows = (self._read_connection.execute(_GET, (key.encode(),)).fetchone() for key in keys)
            return {entry.key: entry for entry in (to_entry(row) for row in rows if row)}

    def _range(self, prefix: str, after: str, limit: int) -> Page:
        first = prefix.encode()
        with self._snapshot():
            revision = find_revision(self._read_connection)
            last = after.encode()
            # Only one lower bound: with two, SQLite would seek the first and scan to the second.
            query, start = (_AFTER, last) if last >= first and after else (_FROM, first)
            bounds = (start, _prefix_end(first), limit + 1)
            rows = self._read_connection.execute(query, bounds).fetchall()
        return Page(tuple(to_entry(row) for row in rows[:limit]), revision, len(rows) > limit)

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Read at one revision: in WAL mode a transaction does not see later writes."""
        with translate_errors(self._path):
            self._read_connection.execute("BEGIN")
            try:
                yield
            finally:
                self._read_connection.execute("COMMIT")

    def _deliver(self, outcomes: list[Outcome]) -> None:
        if not self._loop.is_closed():  # else no caller waits any more
            self._loop.call_soon_threadsafe(self._set_results, outcomes)

    def _set_results(self, outcomes: list[Outcome]) -> None:
        for request, outcome in outcomes:
            if isinstance(outcome, int):
                self._feed.publish(outcome, [key for key, _ in request.puts])
            if request.result.done():  # the caller was cancelled meanwhile
                continue
            if isinstance(outcome, int):
                request.result.set_result(outcome)
            else:
                request.result.set_exception(outcome)

    def _closed_error(self) -> InternalError:
        return InternalError("store.closed", f"{self._path} was closed already")


@contextmanager
def open_file(path: Path) -> Iterator[OpenFile]:
    """Open or create a state file, and lock it for the block.

    Raises:
        PenstockError: as `SqliteStore.open`.
    """
    opened = _open_file(path)
    try:
        yield opened
    finally:
        opened.close()


def _open_file(path: Path) -> OpenFile:
    _create_file(path)
    lock = FileLock(path)
    try:
        with translate_errors(path):
            connection = _connect(path)
            try:
                _prepare(path, connection)
                revision = find_revision(connection)
                return OpenFile(lock, connection, _connect_reader(path), revision)
            except BaseException:
                connection.close()
                raise
    except BaseException:
        lock.release()
        raise


def _create_file(path: Path) -> None:
    """Create the file before SQLite does, so that no other user may read it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        denied = error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}
        raise ConfigError(
            "store.read_only" if denied else "store.unreachable",
            f"{path} cannot be opened for writing: {error.strerror}",
            fix="Choose a folder to which this user may write.",
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    # Used by one thread at a time, but not by the one that creates it.
    return sqlite3.connect(path, timeout=2.0, isolation_level=None, check_same_thread=False)


def _connect_reader(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise ConfigError(
            "store.no_wal",
            f"the file system of {path} does not support a write-ahead log",
            fix="Choose a folder on a local disk.",
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        _create_tables(connection)
    check_format(path, connection)


def check_format(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a database that is no state file, or one of a newer version.

    Raises:
        ConfigError: `store.foreign`, `store.newer`.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise ConfigError(
            "store.foreign",
            f"{path} is the database of another program",
            fix="Choose another path.",
        )
    if found > FORMAT:
        raise newer_format(str(path), found)


def _create_tables(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    with closing(connection.cursor()) as cursor:
        for statement in _SCHEMA:
            cursor.execute(statement)
    connection.execute("COMMIT")


def find_revision(connection: sqlite3.Connection) -> int:
    """Return the revision of a state file."""
    (revision,) = connection.execute(_REVISION).fetchone()
    return int(revision)


def to_entry(row: tuple[bytes, bytes, int]) -> Entry:
    """Return the entry of a row."""
    key, value, revision = row
    return Entry(key.decode(), value, revision)


def _prefix_end(prefix: bytes) -> bytes:
    """Return the end of the range of a prefix. Keys are UTF-8, which never contains 0xFF."""
    return prefix + b"\xff"


class FileLock:
    """An advisory lock on `<file>.lock`, so that one process uses a state file at a time.

    The kernel frees it when the process ends; after a crash only the file is left behind.
    """

    def __init__(self, path: Path) -> None:
        """Lock.

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
                fix="Stop that process, or use another state folder.",
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Unlock. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _unreachable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        "store.unreachable",
        f"{path} cannot be opened: {error.strerror}",
        fix="Check that the folder exists and that this user may write there.",
    )
