"""The PostgreSQL store: tables, reads, writes, and watches.

Reads use a pool of connections, writes one connection (`writer`). Watches are fed by a
`ChangeFollower`, which follows the writes of all processes: NOTIFY announces that there are writes,
and the table `change` has them in the order of revisions. A lost notification costs one poll
(invariant 7).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from penstock.aio import cancel_and_wait
from penstock.model.errors import ConfigError, InternalError, PenstockError
from penstock.store.feed import MAX_CHANGES, Feed
from penstock.store.port import FORMAT, Change, Check, Entry, Page, Put, newer_format
from penstock.store.postgresql.settings import PostgresqlSettings, asyncpg, translate_error
from penstock.store.postgresql.writer import Request, Writer, channel_name

MIN_VERSION: Final = 12
"""The oldest supported version of PostgreSQL. Older ones get no fixes and are not tested."""

_LOCK: Final = 0x50535444  # "PSTD": advisory lock while the tables are created

# With free space in the pages, a new value is stored beside the old one and the index is unchanged.
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS entry (
    key bytea PRIMARY KEY, revision bigint NOT NULL, value bytea NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE IF NOT EXISTS change (
    revision bigint PRIMARY KEY, nonce uuid NOT NULL, keys bytea[]
);
CREATE TABLE IF NOT EXISTS state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision bigint NOT NULL,
    layout integer NOT NULL
) WITH (fillfactor = 10);
"""

_FIRST: Final = "INSERT INTO state (revision, layout) VALUES (1, $1) ON CONFLICT DO NOTHING"

POLL_INTERVAL_S: Final = 1.0
"""Time between two reads of changes without a notification. A longer time delays changes whose
notification was lost; a shorter one costs the server more than one query per second and process."""

_FLOOR: Final = "SELECT coalesce(min(revision) - 1, (SELECT revision FROM state)) FROM change"

_NEW_CHANGES: Final = (
    "SELECT s.revision AS now, c.revision, c.keys FROM state s LEFT JOIN LATERAL"
    " (SELECT revision, keys FROM change WHERE revision > $1 ORDER BY revision LIMIT $2) c ON true"
    " ORDER BY c.revision"
)

_log = logging.getLogger(__name__)

MAX_WAITING: Final = 1024
"""Writes that wait for the writer at once (invariant 12); others wait for a free place."""

MAX_WRITE_BYTES: Final = 64 << 20
"""Bytes of one write. A larger write would block all other writers for seconds."""

_READERS: Final = 4
"""Connections for reads. With the writer and the follower at most six per process."""

_RETRY_DELAY_S: Final = 0.1
_GET: Final = "SELECT key, value, revision FROM entry WHERE key = ANY($1::bytea[])"

_RANGE: Final = (
    "SELECT s.revision AS now, e.key, e.value, e.revision FROM state s LEFT JOIN LATERAL"
    " (SELECT key, value, revision FROM entry WHERE key >= $1 AND key > $2 AND key < $3"
    " ORDER BY key LIMIT $4) e ON true ORDER BY e.key"
)


class PostgresqlStore:
    """A `Store` in a schema of PostgreSQL. Create it with `open`; belongs to one event loop."""

    def __init__(self, settings: PostgresqlSettings, pool: Any, revision: int) -> None:
        self._settings, self._pool = settings, pool
        self._newest_revision = revision
        self._write_slots = asyncio.Semaphore(MAX_WAITING)
        self._writer = Writer(settings, self._handle_written)
        self._follower: ChangeFollower | None = None
        self._closed = False

    @staticmethod
    async def open(settings: PostgresqlSettings) -> PostgresqlStore:
        """Connect and create the tables; waits for a server that is still starting.

        Raises:
            PenstockError: `store.unreachable` after `connect_timeout_s`, `store.no_database`,
                `store.credentials_refused`, `store.newer`, `store.no_driver`, ….
        """
        end = asyncio.get_running_loop().time() + settings.connect_timeout_s
        while True:
            try:
                revision = await _prepare_schema(settings)
                break
            except PenstockError as error:
                remaining_s = end - asyncio.get_running_loop().time()
                if error.code != "store.unreachable" or remaining_s <= 0:
                    raise
                _log.warning("%s; trying for %.0f s more", error.diagnostic.message, remaining_s)
            await asyncio.sleep(min(1.0, settings.connect_timeout_s))
        session = settings.session()
        pool = asyncpg().create_pool(
            settings.url.reveal(), min_size=0, max_size=_READERS, timeout=5.0, **session
        )
        return PostgresqlStore(settings, await pool, revision)

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision; those that do not exist are absent."""
        rows = await self._read("get", _GET, [key.encode() for key in keys])
        return {entry.key: entry for entry in map(to_entry, rows)}

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read the keys that start with `prefix` and come after `after`, at one revision."""
        first = prefix.encode()
        bounds = (first, after.encode(), first + b"\xff", limit + 1)  # UTF-8 never contains 0xFF
        rows = await self._read("range", _RANGE, *bounds)
        revision = rows[0]["now"]
        self._newest_revision = max(self._newest_revision, revision)
        found = [row for row in rows if row["key"] is not None]
        return Page(tuple(map(to_entry, found[:limit])), revision, len(found) > limit)

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, durably, if every check passes; return the revision of the write.

        Raises:
            Conflict: a check failed.
            ConfigError: `store.write_too_large`.
            RetriableError: `store.outcome_unknown`: the server became unavailable during the
                commit and did not come back; read before writing again.
        """
        size = sum(len(key) + len(value or b"") for key, value in puts)
        if size > MAX_WRITE_BYTES:
            raise ConfigError(
                "store.write_too_large",
                f"a write of {size} bytes exceeds the limit of {MAX_WRITE_BYTES} bytes",
                fix="Split the change.",
            )
        async with self._write_slots:
            self._refuse_closed()
            result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._writer.submit(Request(checks, puts, result))
            return await result

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Iterate over changes of keys under `prefix` after a revision; 0: from now on."""
        return self._watch(prefix, after_revision or self._newest_revision)

    async def close(self) -> None:
        """Finish the waiting writes, end the watches, disconnect. Idempotent."""
        if self._closed:
            return
        self._closed = True
        await self._writer.stop()
        if self._follower is not None:
            await self._follower.stop()
        self._pool.terminate()

    def statistics(self) -> dict[str, int]:
        """Return the number of durable writes, and of their transactions."""
        return {"writes": self._writer.writes, "groups": self._writer.groups}

    async def _watch(self, prefix: str, after: int) -> AsyncIterator[Change]:
        if self._closed:
            return
        self._follower = self._follower or ChangeFollower(self._settings)
        if self._follower.feed.revision < after or not self._follower.feed.revision:
            await self._follower.wait_for_read()
        async for change in self._follower.feed.watch(prefix, after):
            yield change

    async def _read(self, stage: str, statement: str, *arguments: Any) -> list[Any]:
        """Run a query; repeat it while the server is unavailable."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.retry_timeout_s
        while True:
            self._refuse_closed()
            try:
                rows: list[Any] = await self._pool.fetch(statement, *arguments)
            except Exception as error:
                failure = translate_error(error, stage)
                if failure.code != "store.unreachable" or loop.time() + _RETRY_DELAY_S > end:
                    raise failure from error
            else:
                return rows
            await asyncio.sleep(_RETRY_DELAY_S)

    def _handle_written(self, revision: int) -> None:
        self._newest_revision = max(self._newest_revision, revision)
        if self._follower is not None:
            self._follower.read_now()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise InternalError("store.closed", "the store in PostgreSQL was closed already")


async def _prepare_schema(settings: PostgresqlSettings) -> int:
    connection = await settings.connect()
    try:
        return await create_tables(connection, settings.schema)
    except asyncpg().PostgresError as error:
        raise translate_error(error, "prepare the schema") from error
    finally:
        connection.terminate()


def to_entry(row: Any) -> Entry:
    """Return the entry of a row."""
    return Entry(row["key"].decode(), row["value"], row["revision"])


async def create_tables(connection: Any, schema: str) -> int:
    """Create missing tables; return the revision of the store.

    Raises:
        ConfigError: `store.newer`: a newer version has written to the schema;
            `store.unsupported_version`.
    """
    _check_version(connection.get_server_version())
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        if not await connection.fetchval("SELECT to_regclass($1)", f"{schema}.state"):
            await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            await connection.execute(_TABLES)
            await connection.execute(_FIRST, FORMAT)
        state = await connection.fetchrow("SELECT revision, layout FROM state")
    if state["layout"] > FORMAT:
        raise newer_format(f"schema {schema}", state["layout"])
    if await connection.fetchval("SHOW fsync") != "on":
        _log.warning("PostgreSQL runs with fsync=off: a power cut loses acknowledged writes")
    return int(state["revision"])


def _check_version(version: Any) -> None:
    if version.major < MIN_VERSION:
        raise ConfigError(
            "store.unsupported_version",
            f"the server is PostgreSQL {version.major}; the oldest supported version is "
            f"{MIN_VERSION}",
            fix="Upgrade PostgreSQL.",
        )


class ChangeFollower:
    """A task that reads the writes of all processes into a `Feed`. Owned by the store."""

    def __init__(self, settings: PostgresqlSettings) -> None:
        """Start the task; the feed is empty before the first read."""
        self.feed = Feed(0)
        self._settings = settings
        self._wake = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._task = asyncio.get_running_loop().create_task(self._run())

    def read_now(self) -> None:
        """Read changes at once."""
        self._wake.set()

    async def wait_for_read(self) -> None:
        """Wait for a read that began after this call."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.read_now()
        await future

    async def stop(self) -> None:
        """End the watches and the task."""
        self.feed.close()
        await cancel_and_wait(self._task)
        self._finish_waiting(self._waiting)

    async def _run(self) -> None:
        while True:
            connection = None
            try:
                connection = await self._settings.connect()
                await self._follow(connection)
            except PenstockError as error:
                _log.warning("cannot follow the writes of other processes: %s", error)
            except Exception as error:  # noqa: BLE001 - asyncpg raises many; the next attempt follows
                failure = translate_error(error, "watch")
                _log.warning("cannot follow the writes of other processes: %s", failure)
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _follow(self, connection: Any) -> None:
        name = channel_name(self._settings.schema)
        await connection.add_listener(name, lambda *_: self.read_now())
        if not self.feed.revision:
            self.feed.reset(await connection.fetchval(_FLOOR))
        while True:
            self._wake.clear()
            waiting, self._waiting = self._waiting, []
            try:
                while await self._read_changes(connection):
                    pass
            except BaseException:
                self._waiting += waiting
                raise
            self._finish_waiting(waiting)
            try:
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _read_changes(self, connection: Any) -> bool:
        """Publish new changes; return whether there may be more."""
        rows = await connection.fetch(_NEW_CHANGES, self.feed.revision, MAX_CHANGES)
        now = rows[0]["now"]
        changes = [row for row in rows if row["revision"] is not None]
        is_gap = changes and changes[0]["revision"] > self.feed.revision + 1
        if now < self.feed.revision or is_gap:
            self.feed.reset(now)  # restored from a backup, or changes were pruned meanwhile
            return False
        for row in changes:
            if row["keys"] is None:
                self.feed.reset(row["revision"])  # too many keys to name
            else:
                self.feed.publish(row["revision"], [key.decode() for key in row["keys"]])
        return len(changes) == MAX_CHANGES

    def _finish_waiting(self, waiting: list[asyncio.Future[None]]) -> None:
        for future in waiting:
            if not future.done():
                future.set_result(None)
