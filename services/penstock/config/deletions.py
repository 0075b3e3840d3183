"""Deletes what belongs to deleted connectors: entries of the store, and resources of plugins.

The write that deletes a connector moves it to `gone/<generation>`. Then its versions and topics
are deleted here (`delete_leftovers`), and its plugins delete what it owns in external
systems: a replication slot, staged files (`ResourceRemover`). The entry is deleted last. So after a
crash at any point the entry exists, and the next start of the service continues
(`resume_deletions`).

The tasks of the connector may still be ending. So a removal that fails is retried, and abandoned
after some minutes; the deletion itself never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from penstock.aio import cancel_and_wait
from penstock.config.records import (
    DELETED_PREFIX,
    connector_key,
    decode_connector,
    deleted_key,
    kept_key,
    revision_prefix,
    topic_prefix,
)
from penstock.model.connector import ApplyAction, Connector
from penstock.model.errors import Diagnostic, PenstockError, error_from_diagnostic
from penstock.store.port import Store

log = logging.getLogger(__name__)

DELETE_BATCH_SIZE: Final = 16
"""Keys that are read and deleted at once: 8 MiB if all are versions of the maximum size."""

RETRY_DELAYS_S: Final = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0)
"""Seconds before each attempt. A task ends within seconds, and a worker with the plugin may come
back within minutes. A removal that fails for longer has another cause, and is logged."""

MAX_CONCURRENT_REMOVALS: Final = 4
"""Concurrent removals. Each may start a plugin."""


async def delete_leftovers(store: Store, generation: str) -> None:
    """Delete the versions and topics of a generation. An error is only logged: the connector
    is deleted already.
    """
    try:
        for prefix in (revision_prefix, topic_prefix):
            await delete_prefix(store, prefix(generation))
    except PenstockError as error:
        log.warning("entries of generation %s will be deleted later: %s", generation, error)


async def delete_topics(store: Store, generation: str) -> None:
    """Delete the topics of a deleted connector whose offsets are kept, as far as that succeeds: a
    later reset deletes the rest, and topics that are still used come back.
    """
    try:
        await delete_prefix(store, topic_prefix(generation))
    except PenstockError as error:
        log.warning("the topics of generation %s are still shown: %s", generation, error)


async def resume_deletions(store: Store) -> list[Connector]:
    """Continue the deletions of earlier processes; returns the connectors whose resources may still
    exist. An entry of the earlier form, without a connector, is deleted.
    """
    connectors: list[Connector] = []
    after, more = "", True
    while more:
        page = await store.range(DELETED_PREFIX, after)
        more = page.more
        for entry in page.entries:
            after = entry.key
            generation = after.removeprefix(DELETED_PREFIX)
            await delete_leftovers(store, generation)
            if entry.value:
                connectors.append(decode_connector(entry).connector)
            else:
                await store.write([], [(deleted_key(generation), None)])
    return connectors


async def delete_prefix(store: Store, prefix: str) -> None:
    """Delete every key with a prefix."""
    more = True
    while more:
        page = await store.range(prefix, limit=DELETE_BATCH_SIZE)
        more = page.more
        if page.entries:
            await store.write([], [(entry.key, None) for entry in page.entries])


class AppliedChange(Protocol):
    """The result of an applied change."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The warnings of the plugins."""


class ChangeApplier(Protocol):
    """The part of the worker's client that is needed here."""

    async def apply(self, connector: Connector, action: ApplyAction) -> AppliedChange:
        """Let plugins change the resources of a connector in external systems."""


class ResourceRemover:
    """Lets plugins delete the resources of deleted connectors, in the background. After `close`,
    the next start continues.
    """

    def __init__(self, store: Store, worker: ChangeApplier | None) -> None:
        self._store, self._worker = store, worker
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REMOVALS)

    async def start(self, connector: Connector) -> None:
        """Start the removal for a deleted connector. Without a worker, only delete its entry."""
        if self._worker is None:
            await self._delete_entry(connector)
            return
        task = asyncio.create_task(self._run(connector), name=f"removal of {connector.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End the removals that are under way."""
        await cancel_and_wait(*self._tasks)

    async def _run(self, connector: Connector) -> None:
        for number, delay_s in enumerate(RETRY_DELAYS_S, start=1):
            await asyncio.sleep(delay_s)
            try:
                async with self._slots:
                    await self._remove(connector)
                break
            except PenstockError as error:
                log.warning("connector %s: %s", connector.name, _not_removed(connector, error))
                if number == len(RETRY_DELAYS_S):
                    log.error(  # noqa: TRY400 - the diagnostic was logged above
                        "connector %s: the removal is abandoned after %d attempts",
                        connector.name,
                        number,
                    )
        await self._delete_entry(connector)

    async def _delete_entry(self, connector: Connector) -> None:
        try:
            await self._store.write([], [(deleted_key(connector.generation), None)])
        except PenstockError as error:
            log.warning(
                "the entry of deleted connector %s will be deleted later: %s",
                connector.name,
                error,
            )

    async def _remove(self, connector: Connector) -> None:
        keys = connector_key(connector.name), kept_key(connector.name)
        if self._worker is None or await self._store.get(*keys):
            # a connector of the same name exists, or may be created and go on from the offsets of a
            # deleted one: most likely it owns the same resources
            return
        applied = await self._worker.apply(connector, ApplyAction.DELETE)
        for diagnostic in applied.diagnostics:
            log.warning("connector %s: %s", connector.name, error_from_diagnostic(diagnostic))


def _not_removed(connector: Connector, error: PenstockError) -> PenstockError:
    return PenstockError(
        "config.left_outside",
        f"the external resources of {connector.name} could not be removed: {error}",
        fix="It is retried for some minutes. After that, remove them by hand: the slot, topic or "
        "files that its configuration names.",
    )
