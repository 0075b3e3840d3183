"""The driver: reads from a pool of connections, writes through one, watches from a tail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from penstock.model.errors import ConfigError, InternalError, PenstockError
from penstock.store.port import Change, Check, Entry, Page, Put
from penstock.store.postgresql import schema
from penstock.store.postgresql.errors import translate
from penstock.store.postgresql.group import Request
from penstock.store.postgresql.settings import PostgresqlSettings, asyncpg
from penstock.store.postgresql.tail import Tail
from penstock.store.postgresql.writer import Writer

log = logging.getLogger(__name__)

MOST_WAITING: Final = 1024
"""Writes that may wait for the writer (invariant 12); others wait for a place."""

MOST_WRITE_BYTES: Final = 64 << 20
"""Bytes in one write. A larger one would hold up every other writer for seconds."""

_READERS: Final = 4
"""Connections for reads. With the writer and the tail at most six a process."""

_PAUSE: Final = 0.1

_GET: Final = "SELECT key, value, revision FROM entry WHERE key = ANY($1::bytea[])"
_RANGE: Final = (
    "SELECT s.revision AS now, e.key, e.value, e.revision FROM state s LEFT JOIN LATERAL"
    " (SELECT key, value, revision FROM entry WHERE key >= $1 AND key > $2 AND key < $3"
    " ORDER BY key LIMIT $4) e ON true ORDER BY e.key"
)


class PostgresqlStore:
    """A `Store` in a schema of PostgreSQL. Made by `open`; belongs to one event loop."""

    def __init__(self, settings: PostgresqlSettings, pool: Any, revision: int) -> None:
        """Take what `open` made."""
        self._settings, self._pool = settings, pool
        self._seen = revision
        self._places = asyncio.Semaphore(MOST_WAITING)
        self._writer = Writer(settings, self._written)
        self._tail: Tail | None = None
        self._closed = False

    @staticmethod
    async def open(settings: PostgresqlSettings) -> PostgresqlStore:
        """Connect and make the tables; waits for a server that is still starting.

        Raises:
            PenstockError: `store.unreachable` after `start_for` seconds, `store.no_database`,
                `store.credentials_refused`, `store.newer`, `store.no_driver`, ….
        """
        end = asyncio.get_running_loop().time() + settings.start_for
        while True:
            try:
                revision = await _prepared(settings)
                break
            except PenstockError as error:
                left = end - asyncio.get_running_loop().time()
                if error.code != "store.unreachable" or left <= 0:
                    raise
                log.warning("%s; trying for %.0f s more", error.diagnostic.message, left)
            await asyncio.sleep(min(1.0, settings.start_for))
        session = settings.session()
        pool = asyncpg().create_pool(
            settings.url.reveal(), min_size=0, max_size=_READERS, timeout=5.0, **session
        )
        return PostgresqlStore(settings, await pool, revision)

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision; those that do not exist are absent."""
        rows = await self._read("get", _GET, [key.encode() for key in keys])
        return {entry.key: entry for entry in map(_entry, rows)}

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read the keys that start with `prefix` and come after `after`, at one revision."""
        first = prefix.encode()
        bounds = (first, after.encode(), first + b"\xff", limit + 1)  # 0xFF is in no UTF-8
        rows = await self._read("range", _RANGE, *bounds)
        revision = rows[0]["now"]
        self._seen = max(self._seen, revision)
        found = [row for row in rows if row["key"] is not None]
        return Page(tuple(map(_entry, found[:limit])), revision, len(found) > limit)

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, durably, if every check holds; returns the revision of the write.

        Raises:
            Conflict: a check failed.
            ConfigError: `store.write_too_large`.
            RetriableError: `store.outcome_unknown`: the server went away while it committed, and
                stayed away; read before writing again.
        """
        size = sum(len(key) + len(value or b"") for key, value in puts)
        if size > MOST_WRITE_BYTES:
            raise ConfigError(
                "store.write_too_large",
                f"a write of {size} bytes is over the limit of {MOST_WRITE_BYTES}",
                fix="Split the change.",
            )
        async with self._places:
            self._refuse_closed()
            answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._writer.submit(Request(checks, puts, answer))
            return await answer

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Tell about writes to keys under `prefix` after a revision; 0 for from now."""
        return self._watch(prefix, after_revision or self._seen)

    async def close(self) -> None:
        """Finish the writes that wait, end the watches, hang up. Idempotent."""
        if self._closed:
            return
        self._closed = True
        await self._writer.stop()
        if self._tail is not None:
            await self._tail.stop()
        self._pool.terminate()

    def statistics(self) -> dict[str, int]:
        """Return how many writes were made durable, and in how many transactions."""
        return {"writes": self._writer.writes, "groups": self._writer.groups}

    async def _watch(self, prefix: str, after: int) -> AsyncIterator[Change]:
        if self._closed:
            return
        self._tail = self._tail or Tail(self._settings)
        if self._tail.feed.revision < after or not self._tail.feed.revision:
            await self._tail.looked()
        async for change in self._tail.feed.watch(prefix, after):
            yield change

    async def _read(self, stage: str, statement: str, *arguments: Any) -> list[Any]:
        """Run a query, again while the server is away."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.try_for
        while True:
            self._refuse_closed()
            try:
                rows: list[Any] = await self._pool.fetch(statement, *arguments)
            except Exception as error:
                failure = translate(error, stage)
                if failure.code != "store.unreachable" or loop.time() + _PAUSE > end:
                    raise failure from error
            else:
                return rows
            await asyncio.sleep(_PAUSE)

    def _written(self, revision: int) -> None:
        self._seen = max(self._seen, revision)
        if self._tail is not None:
            self._tail.nudge()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise InternalError("store.closed", "the store in PostgreSQL was closed already")


async def _prepared(settings: PostgresqlSettings) -> int:
    connection = await settings.connect()
    try:
        return await schema.prepare(connection, settings.schema)
    except asyncpg().PostgresError as error:
        raise translate(error, "prepare the schema") from error
    finally:
        connection.terminate()


def _entry(row: Any) -> Entry:
    return Entry(row["key"].decode(), row["value"], row["revision"])
