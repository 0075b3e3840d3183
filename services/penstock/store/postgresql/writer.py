"""The writer of one process: several waiting writes share one durable transaction.

A connection that breaks while it commits leaves open whether it did. Each attempt of a group goes
by one nonce, stored with its changes; the next attempt takes the lock of the counter, which waits
until the first has ended either way, and looks for the nonce. So a write happens once.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.model import faults
from penstock.model.errors import InternalError, PenstockError, RetriableError, error_of
from penstock.store.feed import KEPT, MOST_KEYS
from penstock.store.postgresql.errors import translate
from penstock.store.postgresql.group import Decision, Request, checked_keys, decide
from penstock.store.postgresql.settings import PostgresqlSettings

log = logging.getLogger(__name__)

MOST_GROUPED: Final = 256
"""Writes in one transaction. More lengthen the wait of the first without saving much fsync."""

_PAUSE: Final = 0.1
_PRUNE_EVERY: Final = 256

_LOCK: Final = "SELECT revision FROM state FOR UPDATE"
_DONE: Final = "SELECT EXISTS (SELECT FROM change WHERE revision = $1 AND nonce = $2)"
_KNOWN: Final = "SELECT key, revision FROM entry WHERE key = ANY($1::bytea[])"
_REMOVE: Final = "DELETE FROM entry WHERE key = ANY($1::bytea[])"
_STORE: Final = (
    "INSERT INTO entry (key, revision, value)"
    " SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[])"
    " ON CONFLICT (key) DO UPDATE SET revision = excluded.revision, value = excluded.value"
)
_CHANGE: Final = "INSERT INTO change (revision, nonce, keys) VALUES ($1, $2, $3)"
_PRUNE: Final = "DELETE FROM change WHERE revision <= $1"
_COUNT: Final = "UPDATE state SET revision = $1"
_NOTIFY: Final = "SELECT pg_notify($1, $2)"


class Writer:
    """A task that owns the writing connection. Ends after `stop`, when its queue is empty."""

    def __init__(self, settings: PostgresqlSettings, written: Callable[[int], None]) -> None:
        """Start the task. `written` is told the revision of every group."""
        self._settings, self._written = settings, written
        self._queue: asyncio.Queue[Request | None] = asyncio.Queue()
        self._connection: Any = None
        self._maybe: tuple[uuid.UUID, Decision] | None = None
        self.groups = self.writes = 0
        self._task = asyncio.get_running_loop().create_task(self._run())

    def submit(self, request: Request) -> None:
        """Queue a write; the caller bounds how many wait (invariant 12)."""
        self._queue.put_nowait(request)

    async def stop(self) -> None:
        """Finish what is queued, and end."""
        self._queue.put_nowait(None)
        await self._task

    async def _run(self) -> None:
        ended = False
        while not ended:
            group, ended = await self._gather()
            if group:
                await self._write(group)
        await self._hang_up()

    async def _gather(self) -> tuple[list[Request], bool]:
        """Wait for a write, and take those that wait behind it."""
        group: list[Request] = []
        request = await self._queue.get()
        while request is not None:
            group.append(request)
            if len(group) == MOST_GROUPED or self._queue.empty():
                return group, False
            request = self._queue.get_nowait()
        return group, True

    async def _write(self, group: list[Request]) -> None:
        try:
            decision = await self._repeated(group)
        except PenstockError as error:
            for request in group:  # an error of its own each: a raised one collects frames
                request.answered(error_of(error.diagnostic))
            return
        except Exception:
            log.exception("unexpected error while writing to PostgreSQL")
            for request in group:
                request.answered(InternalError("store.failed", "writing failed unexpectedly"))
            await self._hang_up()
            return
        self.groups += 1
        self.writes += len(group)
        self._written(decision.revision)
        for request, outcome in zip(group, decision.outcomes, strict=True):
            request.answered(outcome)

    async def _repeated(self, group: list[Request]) -> Decision:
        """Write a group once, over as many connections as it takes."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.try_for
        self._maybe = None
        while True:
            try:
                return await self._attempt(group)
            except PenstockError as error:
                await self._hang_up()
                again = error.code in {"store.unreachable", "store.busy"}
                if not again or loop.time() + _PAUSE > end:
                    raise (_unknown(error) if self._maybe else error) from None
            await asyncio.sleep(_PAUSE)

    async def _attempt(self, group: list[Request]) -> Decision:
        if self._connection is None:
            self._connection = await self._settings.connect()
        try:
            return await self._transaction(self._connection, group)
        except PenstockError:
            raise
        except Exception as error:
            raise translate(error, "write") from error

    async def _transaction(self, connection: Any, group: list[Request]) -> Decision:
        transaction = connection.transaction()
        await transaction.start()
        before = await connection.fetchval(_LOCK)
        if self._maybe is not None:
            nonce, maybe = self._maybe
            if maybe.changes and await connection.fetchval(_DONE, maybe.revision, nonce):
                await transaction.rollback()
                return maybe
            self._maybe = None
        known = await connection.fetch(_KNOWN, checked_keys(group))
        revisions = {row["key"].decode(): row["revision"] for row in known}
        decision, nonce = decide(group, before, revisions), uuid.uuid4()
        if decision.changes:
            await self._store(connection, decision, nonce)
        await faults.reach("store.committing")
        self._maybe = (nonce, decision)
        await transaction.commit()  # acknowledged only after it (invariants 1 and 2 build on it)
        await faults.reach("store.committed")
        return decision

    async def _store(self, connection: Any, decision: Decision, nonce: uuid.UUID) -> None:
        if decision.removed:
            await connection.execute(_REMOVE, _encoded(decision.removed))
        if decision.stored:
            revisions, values = zip(*decision.stored.values(), strict=True)
            await connection.execute(_STORE, _encoded(decision.stored), revisions, values)
        changes = (
            (revision, nonce, _encoded(keys) if len(keys) <= MOST_KEYS else None)
            for revision, keys in decision.changes
        )
        await connection.executemany(_CHANGE, list(changes))
        await connection.execute(_COUNT, decision.revision)
        first = decision.changes[0][0]
        if first // _PRUNE_EVERY != (decision.revision + 1) // _PRUNE_EVERY:
            await connection.execute(_PRUNE, decision.revision - KEPT)
        await connection.execute(_NOTIFY, channel(self._settings.schema), str(decision.revision))

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def channel(schema: str) -> str:
    """Return the name that writes are announced under; at most 63 bytes."""
    return f"{schema}_w"[-63:]


def _encoded(keys: Sequence[str] | set[str] | dict[str, tuple[int, bytes]]) -> list[bytes]:
    return [key.encode() for key in keys]


def _unknown(error: PenstockError) -> RetriableError:
    return RetriableError(
        "store.outcome_unknown",
        f"the write may have happened or not: {error.diagnostic.message}",
        fix="Read again, and repeat the change when it is not there.",
    )
