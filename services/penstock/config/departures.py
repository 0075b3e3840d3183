"""Has the plugins of deleted connectors remove what they own outside: a slot, staged files.

The write that deletes a connector keeps it under `gone/<generation>` until that is done, so that a
restart of the service goes on. Its tasks may still be ending, so a removal that fails is tried
again, and given up after some minutes: a deletion never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from penstock.config.stored import connector_key, gone_key
from penstock.model.connector import ApplyAction, Connector
from penstock.model.errors import Diagnostic, PenstockError, error_of
from penstock.store import Store

log = logging.getLogger(__name__)

DELAYS: Final = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0)
"""Seconds before each try. A task ends within seconds, and a worker with the plugin may come back
within minutes. What fails for longer has another cause, and is logged."""

MOST_AT_ONCE: Final = 4
"""Removals that run at once: each may start a plugin."""


class Applied(Protocol):
    """What plugins warn of."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The warnings."""


class Applier(Protocol):
    """What is needed of a worker; its client has it."""

    async def apply(self, connector: Connector, action: ApplyAction) -> Applied:
        """Have plugins change what a connector owns outside."""


class Departures:
    """The removals that are under way. `close` ends them; the next start goes on."""

    def __init__(self, store: Store, worker: Applier | None) -> None:
        self._store, self._worker = store, worker
        self._running: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(MOST_AT_ONCE)

    async def begin(self, connector: Connector) -> None:
        """Begin to remove what a deleted connector owns outside. Without a worker only its note
        goes.
        """
        if self._worker is None:
            await self._forget(connector)
            return
        task = asyncio.create_task(self._leave(connector), name=f"removal of {connector.name}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """End what is under way."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _leave(self, connector: Connector) -> None:
        for number, delay in enumerate(DELAYS, start=1):
            await asyncio.sleep(delay)
            try:
                async with self._places:
                    await self._remove(connector)
                break
            except PenstockError as error:
                log.warning("connector %s: %s", connector.name, _not_removed(connector, error))
                if number == len(DELAYS):
                    log.error(  # noqa: TRY400 - the diagnostic says all that there is
                        "connector %s: given up after %d tries", connector.name, number
                    )
        await self._forget(connector)

    async def _forget(self, connector: Connector) -> None:
        try:
            await self._store.write([], [(gone_key(connector.generation), None)])
        except PenstockError as error:
            log.warning("the note of connector %s is removed later: %s", connector.name, error)

    async def _remove(self, connector: Connector) -> None:
        key = connector_key(connector.name)
        if self._worker is None or (await self._store.get(key)).get(key) is not None:
            return  # a namesake was made meanwhile, and most likely owns the same
        applied = await self._worker.apply(connector, ApplyAction.DELETE)
        for found in applied.diagnostics:
            log.warning("connector %s: %s", connector.name, error_of(found))


def _not_removed(connector: Connector, error: PenstockError) -> PenstockError:
    return PenstockError(
        "config.left_outside",
        f"what {connector.name} owns outside is not removed: {error}",
        fix="It is tried again for some minutes; after that remove it by hand: the slot, topic or "
        "files that its configuration names.",
    )
