"""The writer of one process: waiting writes share one durable transaction.

`decide` is pure: it decides the writes of a group in their order.

When a connection breaks during a commit, the outcome is unknown. Each attempt of a group has a
nonce, which is stored with its changes. The next attempt takes the lock of the counter, which
waits until the first attempt has ended, and looks for the nonce. So a write happens once.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.model import faults
from penstock.model.errors import (
    InternalError,
    PenstockError,
    RetriableError,
    error_from_diagnostic,
)
from penstock.store.feed import MAX_CHANGE_KEYS, MAX_CHANGES
from penstock.store.port import Check, Conflict, Put
from penstock.store.postgresql.settings import PostgresqlSettings, translate_error

_log = logging.getLogger(__name__)

MAX_GROUP_SIZE: Final = 256
"""Writes of one transaction. With more, the first waits longer and few fsyncs are saved."""

_RETRY_DELAY_S: Final = 0.1
_PRUNE_INTERVAL: Final = 256
LOCK: Final = "SELECT revision FROM state FOR UPDATE"
"""Reads the counter of a schema; other writers wait until the transaction has ended."""

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
    """A task that owns the write connection. After `stop` it ends when its queue is empty."""

    def __init__(self, settings: PostgresqlSettings, on_written: Callable[[int], None]) -> None:
        """Start the task, which calls `on_written` with the revision of every group."""
        self._settings, self._on_written = settings, on_written
        self._queue: asyncio.Queue[Request | None] = asyncio.Queue()
        self._connection: Any = None
        self._uncertain: tuple[uuid.UUID, Decision] | None = None
        self.groups = self.writes = 0
        self._task = asyncio.get_running_loop().create_task(self._run())

    def submit(self, request: Request) -> None:
        """Queue a write. The caller bounds the number of waiting writes (invariant 12)."""
        self._queue.put_nowait(request)

    async def stop(self) -> None:
        """Finish the queued writes and end."""
        self._queue.put_nowait(None)
        await self._task

    async def _run(self) -> None:
        stopped = False
        while not stopped:
            group, stopped = await self._take_group()
            if group:
                await self._write_group(group)
        await self._disconnect()

    async def _take_group(self) -> tuple[list[Request], bool]:
        """Wait for a write and take all queued writes; return whether the writer was stopped."""
        group: list[Request] = []
        request = await self._queue.get()
        while request is not None:
            group.append(request)
            if len(group) == MAX_GROUP_SIZE or self._queue.empty():
                return group, False
            request = self._queue.get_nowait()
        return group, True

    async def _write_group(self, group: list[Request]) -> None:
        try:
            decision = await self._write_with_retries(group)
        except PenstockError as error:
            for request in group:  # a separate error each: a raised error collects frames
                request.set_outcome(error_from_diagnostic(error.diagnostic))
            return
        except Exception:  # noqa: BLE001 - logged; every error is the result of all writes
            _log.exception("unexpected error while writing to PostgreSQL")
            for request in group:
                request.set_outcome(InternalError("store.failed", "writing failed unexpectedly"))
            await self._disconnect()
            return
        self.groups += 1
        self.writes += len(group)
        self._on_written(decision.revision)
        for request, outcome in zip(group, decision.outcomes, strict=True):
            request.set_outcome(outcome)

    async def _write_with_retries(self, group: list[Request]) -> Decision:
        """Write a group once, with a new connection after each failed attempt."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.retry_timeout_s
        self._uncertain = None
        while True:
            try:
                return await self._attempt(group)
            except PenstockError as error:
                await self._disconnect()
                can_retry = error.code in {"store.unreachable", "store.busy"}
                if not can_retry or loop.time() + _RETRY_DELAY_S > end:
                    raise (_outcome_unknown(error) if self._uncertain else error) from None
            await asyncio.sleep(_RETRY_DELAY_S)

    async def _attempt(self, group: list[Request]) -> Decision:
        if self._connection is None:
            self._connection = await self._settings.connect()
        try:
            return await self._transaction(self._connection, group)
        except PenstockError:
            raise
        except Exception as error:
            raise translate_error(error, "write") from error

    async def _transaction(self, connection: Any, group: list[Request]) -> Decision:
        transaction = connection.transaction()
        await transaction.start()
        before = await connection.fetchval(LOCK)
        if self._uncertain is not None:
            nonce, earlier = self._uncertain
            if earlier.changes and await connection.fetchval(_DONE, earlier.revision, nonce):
                await transaction.rollback()
                return earlier
            self._uncertain = None
        known = await connection.fetch(_KNOWN, keys_to_read(group))
        revisions = {row["key"].decode(): row["revision"] for row in known}
        decision, nonce = decide(group, before, revisions), uuid.uuid4()
        if decision.changes:
            await self._store_decision(connection, decision, nonce)
        await faults.reach("store.committing")
        self._uncertain = (nonce, decision)
        await transaction.commit()  # acknowledged only after it (invariants 1 and 2 build on it)
        await faults.reach("store.committed")
        return decision

    async def _store_decision(self, connection: Any, decision: Decision, nonce: uuid.UUID) -> None:
        if decision.removed:
            await connection.execute(_REMOVE, _encode_keys(decision.removed))
        if decision.stored:
            revisions, values = zip(*decision.stored.values(), strict=True)
            await connection.execute(_STORE, _encode_keys(decision.stored), revisions, values)
        changes = (
            (revision, nonce, _encode_keys(keys) if len(keys) <= MAX_CHANGE_KEYS else None)
            for revision, keys in decision.changes
        )
        await connection.executemany(_CHANGE, list(changes))
        await connection.execute(_COUNT, decision.revision)
        first = decision.changes[0][0]
        if first // _PRUNE_INTERVAL != (decision.revision + 1) // _PRUNE_INTERVAL:
            await connection.execute(_PRUNE, decision.revision - MAX_CHANGES)
        await connection.execute(
            _NOTIFY, channel_name(self._settings.schema), str(decision.revision)
        )

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def channel_name(schema: str) -> str:
    """Return the channel of NOTIFY for writes to a schema; at most 63 bytes."""
    return f"{schema}_w"[-63:]


def _encode_keys(keys: Sequence[str] | set[str] | dict[str, tuple[int, bytes]]) -> list[bytes]:
    return [key.encode() for key in keys]


def _outcome_unknown(error: PenstockError) -> RetriableError:
    return RetriableError(
        "store.outcome_unknown",
        f"the write may have been made or not: {error.diagnostic.message}",
        fix="Read again, and repeat the change if it was not made.",
    )


@dataclass(frozen=True, slots=True)
class Request:
    """A queued write."""

    checks: Sequence[Check]
    puts: Sequence[Put]
    result: asyncio.Future[int]

    def set_outcome(self, outcome: int | BaseException) -> None:
        """Set the result, unless the caller was cancelled meanwhile."""
        if self.result.done():
            return
        if isinstance(outcome, int):
            self.result.set_result(outcome)
        else:
            self.result.set_exception(outcome)


@dataclass(slots=True)
class Decision:
    """Outcomes in the order of the requests, and what is stored.

    `stored` and `removed`: the final state of each key; `changes`: the keys of each revision.
    """

    revision: int
    outcomes: list[int | Conflict] = field(default_factory=list)
    stored: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    changes: list[tuple[int, list[str]]] = field(default_factory=list)


def keys_to_read(group: Sequence[Request]) -> list[bytes]:
    """Return the keys whose revisions `decide` needs."""
    checks = (check for request in group for check in request.checks)
    return [*{check.key.encode(): None for check in checks if check.revision is not None}]


def decide(group: Sequence[Request], revision: int, known: Mapping[str, int]) -> Decision:
    """Decide each request on the state after the requests before it. `known`: existing keys."""
    decision, current = Decision(revision), dict(known)
    for request in group:
        conflict = _find_conflict(request.checks, current)
        if conflict is None:
            decision.revision += 1
            _apply_puts(decision, dict(request.puts), current)
        decision.outcomes.append(conflict or decision.revision)
    return decision


def _find_conflict(checks: Sequence[Check], current: Mapping[str, int]) -> Conflict | None:
    for check in checks:
        if check.revision is not None and current.get(check.key, 0) != check.revision:
            return Conflict(check.key, current.get(check.key, 0))
    return None


def _apply_puts(
    decision: Decision, puts: Mapping[str, bytes | None], current: dict[str, int]
) -> None:
    for key, value in puts.items():
        if value is None:
            current.pop(key, None)
            decision.stored.pop(key, None)
            decision.removed.add(key)
        else:
            current[key] = decision.revision
            decision.stored[key] = (decision.revision, value)
            decision.removed.discard(key)
    decision.changes.append((decision.revision, sorted(puts)))
