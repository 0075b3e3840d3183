"""Reads and writes connectors in a store.

Every change reads, decides by a rule, and writes if nothing came between; else it decides again.
A change of the configuration writes the connector and a version of its history at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from penstock.config import rules
from penstock.config.stored import (
    CONNECTORS,
    Stored,
    connector_key,
    decode,
    encode,
    encode_revision,
    generation_key,
    gone_key,
    index_key,
    name_of,
    revision_key,
)
from penstock.config.sweeping import sweep
from penstock.model import faults
from penstock.model.connector import Connector, Restart, Revision, RevisionCause, TargetState
from penstock.model.errors import RetriableError
from penstock.model.identity import new_generation
from penstock.store import Check, Conflict, Put, Store

_T = TypeVar("_T")

ATTEMPTS: Final = 16
"""Times that a change is decided anew when others come between. Each loss means that somebody else
made progress, so more than a few in a row is a storm, which the caller should wait out."""

MOST_PAGE: Final = 1000
MOST_PAGE_BYTES: Final = 4 << 20
"""Bounds of one page of a list (invariant 12)."""

READ_FIRST: Final = 50
"""Connectors in the first read of a page: of the largest, these are 25 MiB."""

READ_AT_ONCE: Final = 250
"""Connectors in each read after it, if those that were read were small."""

KEPT_REVISIONS: Final = 50
"""Versions of a connector's configuration that are kept, the newest included."""

MOST_NAMES: Final = 1000
"""Names that are looked through for one that a person may have meant."""


@dataclass(frozen=True, slots=True)
class ConnectorPage:
    """Connectors ordered by name. `revision`: nothing that was written after it is sure to be here;
    `more`: names follow the last one.
    """

    connectors: tuple[Stored, ...]
    revision: int
    more: bool = False


class Connectors:
    """The connectors of a store. Keeps no state of its own."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives the time of a write, in seconds since the epoch."""
        self._store, self._clock = store, clock

    async def get(self, name: str) -> Stored:
        """Read one; refuses with `config.not_found`."""
        return (await self.get_at(name))[0]

    async def get_at(self, name: str) -> tuple[Stored, int]:
        """Read one, and the revision that it was read at."""
        found, revision = await self._find_at(name)
        if found is None:
            page = await self._store.range(CONNECTORS, limit=MOST_NAMES)
            raise rules.not_found(name, [name_of(entry.key) for entry in page.entries])
        return found, revision

    async def find_generation(self, generation: str) -> tuple[Stored | None, int]:
        """Read the living connector of a generation, and the revision that it was read at."""
        key = generation_key(generation)
        entry = (await self._store.get(key)).get(key)
        if entry is not None:
            found, revision = await self._find_at(entry.value.decode())
            alive = found is not None and found.connector.generation == generation
            return found if alive else None, revision
        return await self._search(generation)

    async def page(self, prefix: str = "", after: str = "", size: int = MOST_PAGE) -> ConnectorPage:
        """Read a page, ordered by name."""
        found: list[Stored] = []
        revision, bytes_, more = 0, 0, True
        place = connector_key(after) if after else ""
        while more and len(found) < size and bytes_ < MOST_PAGE_BYTES:
            limit = min(_next_read(len(found), bytes_), size - len(found))
            page = await self._store.range(connector_key(prefix), place, limit)
            revision = revision or page.revision
            more = page.more
            for number, entry in enumerate(page.entries, 1):
                found.append(decode(entry))
                bytes_ += len(entry.value)
                place = entry.key
                if bytes_ >= MOST_PAGE_BYTES:
                    more = more or number < len(page.entries)
                    break
        return ConnectorPage(tuple(found), revision, more)

    async def create(self, wanted: Connector) -> Stored:
        """Store a new one, under a generation of its own (invariant 10)."""
        rules.check_name(wanted.name)
        rules.check_config(wanted.name, wanted.config)

        async def _attempt() -> Stored:
            existing = await self._find(wanted.name)
            new = rules.created(existing, wanted, new_generation(), self._clock())
            return await self._write_version(new, RevisionCause.CREATED)

        return await decided(_attempt)

    async def put(self, wanted: Connector, expected_revision: int) -> tuple[Stored, bool]:
        """Store a configuration, if it is new; tells whether it was."""
        rules.check_name(wanted.name)
        rules.check_config(wanted.name, wanted.config)

        async def _attempt() -> tuple[Stored, bool]:
            existing = await self._find(wanted.name)
            if existing is None and expected_revision == 0:
                first = replace(wanted, target_state=TargetState.RUNNING)
                new = rules.created(None, first, new_generation(), self._clock())
                return await self._write_version(new, RevisionCause.CREATED), True
            existing = existing or await self.get(wanted.name)
            rules.check_revision(existing, expected_revision)
            return await self._changed(existing, wanted, RevisionCause.PUT)

        return await decided(_attempt)

    async def patch(
        self,
        name: str,
        settings: Mapping[str, str],
        removed: Collection[str],
        expected_revision: int,
    ) -> tuple[Stored, bool]:
        """Set and remove single keys; tells whether anything became different."""

        async def _attempt() -> tuple[Stored, bool]:
            existing = await self.get(name)
            rules.check_revision(existing, expected_revision)
            wanted = rules.patched(existing, settings, removed)
            rules.check_config(name, wanted.config)
            return await self._changed(existing, wanted, RevisionCause.PATCHED)

        return await decided(_attempt)

    async def restore(
        self,
        name: str,
        version: Callable[[Stored], Awaitable[Revision]],
        expected_revision: int,
    ) -> tuple[Stored, bool]:
        """Take an earlier version's configuration again; tells whether it was another."""

        async def _attempt() -> tuple[Stored, bool]:
            existing = await self.get(name)
            rules.check_revision(existing, expected_revision)
            earlier = await version(existing)
            wanted = replace(existing.connector, config=earlier.config)
            cause = RevisionCause.ROLLED_BACK
            return await self._changed(existing, wanted, cause, earlier.version)

        return await decided(_attempt)

    async def set_target_state(self, name: str, state: TargetState) -> Stored:
        """Say whether it should run."""

        async def _attempt() -> Stored:
            existing = await self.get(name)
            new = rules.targeted(existing, state, self._clock())
            return existing if new is existing else await self._write(new)

        return await decided(_attempt)

    async def restart(self, name: str, request: Restart) -> Stored:
        """Note a request to restart. The connector's own revision stays: who changes what he has
        read is not disturbed by it.
        """

        async def _attempt() -> Stored:
            new = rules.restarted(await self.get(name), request, self._clock())
            key = connector_key(name)
            await faults.reach("config.storing")
            puts: list[Put] = [(key, encode(new, pinned=True))]
            entry = await self._store.write([Check(key, new.entry)], puts)
            await faults.reach("config.stored")
            return replace(new, entry=entry)

        return await decided(_attempt)

    async def delete(self, name: str, expected_revision: int) -> Connector:
        """Remove one with its plans and its history; returns it. Its offsets stay, under its
        generation, and so does a note of it, for what it owns outside.
        """

        async def _attempt() -> Connector:
            existing = await self.get(name)
            rules.check_revision(existing, expected_revision)
            generation = existing.connector.generation
            index = index_key(generation)
            entry = (await self._store.get(index)).get(index)
            checks = [
                Check(connector_key(name), existing.entry),
                Check(index, entry.revision if entry else 0),
            ]
            gone = [connector_key(name), generation_key(generation), index]
            await faults.reach("config.storing")
            await self._store.write(
                checks, [*((key, None) for key in gone), (gone_key(generation), encode(existing))]
            )
            await faults.reach("config.stored")
            return existing.connector

        deleted = await decided(_attempt)
        await sweep(self._store, deleted.generation)
        return deleted

    async def _search(self, generation: str) -> tuple[Stored | None, int]:
        """Look through all: a connector of before generations had keys."""
        after, more, revision = "", True, 0
        while more:
            page = await self.page(after=after)
            for stored in page.connectors:
                after = stored.connector.name
                if stored.connector.generation == generation:
                    return stored, page.revision
            more, revision = page.more, page.revision
        return None, revision

    async def _find(self, name: str) -> Stored | None:
        key = connector_key(name)
        entry = (await self._store.get(key)).get(key)
        return None if entry is None else decode(entry)

    async def _find_at(self, name: str) -> tuple[Stored | None, int]:
        key = connector_key(name)
        page = await self._store.range(key, limit=1)  # of the keys with this prefix, it is first
        entry = next((entry for entry in page.entries if entry.key == key), None)
        return None if entry is None else decode(entry), page.revision

    async def _changed(
        self, existing: Stored, wanted: Connector, cause: RevisionCause, restored: int = 0
    ) -> tuple[Stored, bool]:
        new = rules.changed(existing, wanted, self._clock())
        if new is existing:
            return existing, False
        if new.connector.version == existing.connector.version:
            return await self._write(new), False
        return await self._write_version(new, cause, restored), True

    async def _write_version(self, new: Stored, cause: RevisionCause, restored: int = 0) -> Stored:
        """Put a configuration and the version that it is; the oldest version goes."""
        made = new.connector
        version = Revision(made.version, 0, new.updated_at, cause, restored, made.kind, made.config)
        generation = made.generation
        more: list[Put] = [(revision_key(generation, made.version), encode_revision(version))]
        if made.version == 1:
            more.append((generation_key(generation), made.name.encode()))
        if made.version > KEPT_REVISIONS:
            more.append((revision_key(generation, made.version - KEPT_REVISIONS), None))
        return await self._write(new, more)

    async def _write(self, new: Stored, more: Collection[Put] = ()) -> Stored:
        """Put it over the entry that it was made from."""
        key = connector_key(new.connector.name)
        await faults.reach("config.storing")
        revision = await self._store.write([Check(key, new.entry)], [(key, encode(new)), *more])
        await faults.reach("config.stored")
        return new.at(revision)


def _next_read(count: int, bytes_: int) -> int:
    """Return how many connectors to read next, after `count` of `bytes_`: if those that come are
    like them, what is read fills the page and no more.
    """
    if not count:
        return READ_FIRST
    return max(1, min(READ_AT_ONCE, (MOST_PAGE_BYTES - bytes_) * count // bytes_))


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
