"""Reads and writes connectors in a store.

Every change reads, decides by a rule, and writes if nothing came between; else it decides again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from penstock.config import rules
from penstock.config.plans import chunk_keys
from penstock.config.stored import (
    CONNECTORS,
    Stored,
    connector_key,
    decode,
    encode,
    index_key,
    name_of,
)
from penstock.model import faults
from penstock.model.connector import Connector, TargetState
from penstock.model.errors import RetriableError
from penstock.model.identity import new_generation
from penstock.store import Check, Conflict, Store

_T = TypeVar("_T")

ATTEMPTS: Final = 16
"""Times that a change is decided anew when others come between. Each loss means that somebody else
made progress, so more than a few in a row is a storm, which the caller should wait out."""

MOST_LISTED: Final = 100_000
"""Connectors in one list (invariant 12)."""


class Connectors:
    """The connectors of a store. Keeps no state of its own."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives the time of a write, in seconds since the epoch."""
        self._store, self._clock = store, clock

    async def get(self, name: str) -> Stored:
        """Read one; refuses with `config.not_found`."""
        found = await self._find(name)
        if found is None:
            page = await self._store.range(CONNECTORS, limit=MOST_LISTED)
            raise rules.not_found(name, [name_of(entry.key) for entry in page.entries])
        return found

    async def list(self) -> tuple[tuple[Stored, ...], int]:
        """Read all, ordered by name, at one revision."""
        page = await self._store.range(CONNECTORS, limit=MOST_LISTED)
        return tuple(decode(entry) for entry in page.entries), page.revision

    async def create(self, wanted: Connector) -> Stored:
        """Store a new one, under a generation of its own (invariant 10)."""
        rules.check_name(wanted.name)
        rules.check_config(wanted.name, wanted.config)

        async def _attempt() -> Stored:
            existing = await self._find(wanted.name)
            new = rules.created(existing, wanted, new_generation(), self._clock())
            return await self._write(new)

        return await decided(_attempt)

    async def put(self, wanted: Connector, expected_revision: int) -> tuple[Stored, bool]:
        """Store a configuration, if it is new; tells whether it was."""
        rules.check_name(wanted.name)
        rules.check_config(wanted.name, wanted.config)

        async def _attempt() -> tuple[Stored, bool]:
            existing = await self._find(wanted.name)
            if existing is None and expected_revision == 0:
                first = replace(wanted, target_state=TargetState.RUNNING)
                return await self._write(
                    rules.created(None, first, new_generation(), self._clock())
                ), True
            existing = existing or await self.get(wanted.name)
            rules.check_revision(existing, expected_revision)
            new = rules.changed(existing, wanted, self._clock())
            return (existing, False) if new is existing else (await self._write(new), True)

        return await decided(_attempt)

    async def set_target_state(self, name: str, state: TargetState) -> Stored:
        """Say whether it should run."""

        async def _attempt() -> Stored:
            existing = await self.get(name)
            new = rules.targeted(existing, state, self._clock())
            return existing if new is existing else await self._write(new)

        return await decided(_attempt)

    async def delete(self, name: str, expected_revision: int) -> None:
        """Remove one and its plans in one write. Its offsets stay, under its generation."""

        async def _attempt() -> None:
            existing = await self.get(name)
            rules.check_revision(existing, expected_revision)
            index = index_key(existing.connector.generation)
            entry = (await self._store.get(index)).get(index)
            gone = [connector_key(name)]
            if entry is not None:
                gone += [index, *chunk_keys(existing.connector.generation, entry.value)]
            checks = [
                Check(connector_key(name), existing.connector.revision),
                Check(index, entry.revision if entry else 0),
            ]
            await faults.reach("config.storing")
            await self._store.write(checks, [(key, None) for key in gone])
            await faults.reach("config.stored")

        await decided(_attempt)

    async def _find(self, name: str) -> Stored | None:
        key = connector_key(name)
        entry = (await self._store.get(key)).get(key)
        return None if entry is None else decode(entry)

    async def _write(self, new: Stored) -> Stored:
        """Put it over the revision that it was made from."""
        key = connector_key(new.connector.name)
        await faults.reach("config.storing")
        check = Check(key, new.connector.revision)
        revision = await self._store.write([check], [(key, encode(new))])
        await faults.reach("config.stored")
        return new.at(revision)


async def decided(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Run an attempt until no other write comes between."""
    for _ in range(ATTEMPTS):
        try:
            return await attempt()
        except Conflict:
            continue
    raise RetriableError(
        "config.contended",
        f"other writes came first {ATTEMPTS} times in a row",
        fix="Repeat the change later.",
        retry_after=0.5,
    )
