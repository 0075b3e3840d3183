"""Entries of a schema: read at one revision while services run, and put where none are.

What was put is known by a nonce, which is stored as that of an ordinary write. So whoever does not
know whether it was put puts it again, and it is there once.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from penstock.model import faults
from penstock.model.errors import PenstockError
from penstock.store.port import FORMAT, Entry, newer_format
from penstock.store.postgresql.settings import PostgresqlSettings, asyncpg, translate_error
from penstock.store.postgresql.store import create_tables, to_entry
from penstock.store.postgresql.writer import LOCK, channel_name

_PAGE: Final = 1000
"""Entries of a read or of a write: a page must come within the time of one statement."""

_SELECT: Final = "SELECT key, value, revision FROM entry WHERE key >= $1 AND key < $2 ORDER BY key"
_FIRST: Final = "SELECT key FROM entry ORDER BY key LIMIT 1"
_PUT_BEFORE: Final = "SELECT EXISTS (SELECT FROM change WHERE nonce = $1 AND revision = $2)"
_CHANGE: Final = "INSERT INTO change (revision, nonce, keys) VALUES ($1, $2, NULL)"
_COUNT: Final = "UPDATE state SET revision = $1"


class PostgresqlSnapshot:
    """A schema at one revision."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def entries(self, prefixes: Sequence[str]) -> AsyncIterator[Entry]:
        """Yield the entries whose keys start with one of the prefixes."""
        try:
            for prefix in sorted(prefixes):
                first = prefix.encode()
                # UTF-8 never contains 0xFF
                cursor = self._connection.cursor(_SELECT, first, first + b"\xff", prefetch=_PAGE)
                async for row in cursor:
                    yield to_entry(row)
        except (OSError, asyncpg().PostgresError, asyncpg().InterfaceError) as error:
            raise translate_error(error, "read a snapshot") from error


@asynccontextmanager
async def open_snapshot(settings: PostgresqlSettings) -> AsyncIterator[PostgresqlSnapshot | None]:
    """Read a schema as it is now; None where there are no tables.

    Raises:
        PenstockError: `store.unreachable`, `store.credentials_refused`, `store.newer`, ….
    """
    connection = await settings.connect()
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            if not await connection.fetchval("SELECT to_regclass($1)", f"{settings.schema}.state"):
                yield None
                return
            layout = await connection.fetchval("SELECT layout FROM state")
            if layout > FORMAT:
                raise newer_format(f"schema {settings.schema}", layout)
            yield PostgresqlSnapshot(connection)
    finally:
        connection.terminate()


async def find_first_key(settings: PostgresqlSettings, nonce: uuid.UUID) -> str:
    """Return the first key of a schema; empty when there is none, or when its entries are those
    that were put with the nonce, and nothing was written since.

    Raises:
        PenstockError: as `fill_schema`.
    """
    connection = await settings.connect()
    try:
        revision = await create_tables(connection, settings.schema)
        if await connection.fetchval(_PUT_BEFORE, nonce, revision):
            return ""
        return _text(await connection.fetchval(_FIRST))
    except (OSError, asyncpg().PostgresError, asyncpg().InterfaceError) as error:
        raise translate_error(error, "look for entries") from error
    finally:
        connection.terminate()


async def fill_schema(
    settings: PostgresqlSettings, entries: Iterable[Entry], revision: int, nonce: uuid.UUID
) -> str:
    """Put entries with their revisions into a schema that has none, all or nothing; its next
    revision is after `revision`. Where they were put with this nonce, nothing is done. Return the
    first key of a schema that has other entries, else nothing.

    Raises:
        PenstockError: `store.unreachable`, `store.permission_denied`, ….
    """
    connection = await settings.connect()
    try:
        await create_tables(connection, settings.schema)
        async with connection.transaction():
            now = await connection.fetchval(LOCK)
            if await connection.fetchval(_PUT_BEFORE, nonce, now):
                return ""
            if key := await connection.fetchval(_FIRST):
                return _text(key)
            await _put(connection, entries)
            await connection.execute(_CHANGE, revision, nonce)
            await connection.execute(_COUNT, revision)
            await connection.execute(
                "SELECT pg_notify($1, $2)", channel_name(settings.schema), str(revision)
            )
            faults.hit("store.committing")
        faults.hit("store.committed")
    except PenstockError:
        raise
    except (OSError, asyncpg().PostgresError, asyncpg().InterfaceError) as error:
        raise translate_error(error, "restore") from error
    finally:
        connection.terminate()
    return ""


async def _put(connection: Any, entries: Iterable[Entry]) -> None:
    rows = ((one.key.encode(), one.revision, one.value) for one in entries)
    while page := list(itertools.islice(rows, _PAGE)):
        await connection.copy_records_to_table(
            "entry", records=page, columns=["key", "revision", "value"]
        )


def _text(key: bytes | None) -> str:
    return key.decode() if key else ""
