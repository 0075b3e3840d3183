"""Reads and writes connectors, and the versions of their configurations.

Every change reads, decides by a rule, and writes if no other write came between; else it is decided
again (`retry_on_conflict`). A change of the configuration writes the connector and a new version
together.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from penstock.config import rules
from penstock.config.deletions import delete_leftovers, delete_topics
from penstock.config.kept_offsets import (
    KeptEntry,
    keep_puts,
    purge_kept_offsets,
    read_kept,
    take_up_puts,
)
from penstock.config.records import (
    CONNECTOR_PREFIX,
    KEPT_PREFIX,
    StoredConnector,
    connector_key,
    connector_name,
    decode_connector,
    decode_revision,
    deleted_key,
    encode_connector,
    encode_revision,
    generation_key,
    kept_key,
    revision_key,
    revision_prefix,
)
from penstock.model import faults
from penstock.model.config_redaction import ConfigDifference, compare_configs
from penstock.model.connector import (
    Connector,
    RestartRequest,
    Revision,
    RevisionCause,
    TargetState,
    new_generation,
)
from penstock.model.errors import ConfigError, RetriableError
from penstock.store.port import Check, Conflict, Put, Store

_T = TypeVar("_T")

MAX_ATTEMPTS: Final = 16
"""Attempts of a change. Each conflict means that another write succeeded, so more than a few in a
row are a storm, which the caller should wait out."""

MAX_PAGE_SIZE: Final = 1000
MAX_PAGE_BYTES: Final = 4 << 20
"""Bounds of one page of a list (invariant 12)."""

FIRST_READ_SIZE: Final = 50
"""Connectors in the first read of a page: 25 MiB if all have the maximum size."""

MAX_READ_SIZE: Final = 250
"""Connectors in each later read, if the earlier ones were small."""

MAX_REVISIONS: Final = 50
"""Versions of a connector's configuration that are kept, the newest included."""

REVISION_READ_SIZE: Final = 10
"""Versions in one read of the store: 5 MiB if all have the maximum size."""

MAX_SUGGESTED_NAMES: Final = 1000
"""Names that are compared with one that does not exist."""


@dataclass(frozen=True, slots=True)
class ConnectorPage:
    """Connectors ordered by name.

    A write after `revision` may be missing in the page. `more`: there are names after the last one.
    """

    connectors: tuple[StoredConnector, ...]
    revision: int
    more: bool = False


class Connectors:
    """The connectors of a store. Has no state of its own."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns the time of a write, in seconds since the epoch."""
        self._store, self._clock = store, clock

    async def get(self, name: str) -> StoredConnector:
        """Return a connector.

        Raises:
            ConfigError: `config.not_found`.
        """
        return (await self.get_with_revision(name))[0]

    async def get_with_revision(self, name: str) -> tuple[StoredConnector, int]:
        """Return a connector, and the revision at which it was read.

        Raises:
            ConfigError: `config.not_found`.
        """
        found, revision = await self._find_with_revision(name)
        if found is None:
            page = await self._store.range(CONNECTOR_PREFIX, limit=MAX_SUGGESTED_NAMES)
            raise rules.not_found(name, [connector_name(entry.key) for entry in page.entries])
        return found, revision

    async def find_generation(self, generation: str) -> tuple[StoredConnector | None, int]:
        """Return the connector that has a generation, and the revision at which it was read."""
        key = generation_key(generation)
        entry = (await self._store.get(key)).get(key)
        if entry is not None:
            found, revision = await self._find_with_revision(entry.value.decode())
            exists = found is not None and found.connector.generation == generation
            return found if exists else None, revision
        return await self._search_generation(generation)

    async def is_kept(self, generation: str) -> bool:
        """Return whether a connector may have this generation again: it is deleted, and its offsets
        are kept; or a namesake has just taken them up.
        """
        key = generation_key(generation)
        entry = (await self._store.get(key)).get(key)
        return entry is not None  # a deletion that does not keep the offsets deletes the key

    async def read_page(
        self, prefix: str = "", after: str = "", size: int = MAX_PAGE_SIZE
    ) -> ConnectorPage:
        """Return a page of connectors, ordered by name, after the name `after`."""
        found: list[StoredConnector] = []
        revision, bytes_read, more = 0, 0, True
        after_key = connector_key(after) if after else ""
        while more and len(found) < size and bytes_read < MAX_PAGE_BYTES:
            limit = min(_next_read_size(len(found), bytes_read), size - len(found))
            page = await self._store.range(connector_key(prefix), after_key, limit)
            revision = revision or page.revision
            more = page.more
            for number, entry in enumerate(page.entries, 1):
                found.append(decode_connector(entry))
                bytes_read += len(entry.value)
                after_key = entry.key
                if bytes_read >= MAX_PAGE_BYTES:
                    more = more or number < len(page.entries)
                    break
        return ConnectorPage(tuple(found), revision, more)

    async def create(self, new: Connector) -> StoredConnector:
        """Store a new connector, under a new generation (invariant 10)."""
        rules.check_name(new.name)
        rules.check_config(new.name, new.config)

        async def _attempt() -> StoredConnector:
            return await self._create(new, *await self._find_with_kept(new.name))

        return await retry_on_conflict(_attempt)

    async def put(self, new: Connector, expected_revision: int) -> tuple[StoredConnector, bool]:
        """Create a connector, or change its configuration; returns whether it changed."""
        rules.check_name(new.name)
        rules.check_config(new.name, new.config)

        async def _attempt() -> tuple[StoredConnector, bool]:
            existing, kept = await self._find_with_kept(new.name)
            if existing is None and expected_revision == 0:
                first = replace(new, target_state=TargetState.RUNNING)
                return await self._create(first, None, kept), True
            existing = existing or await self.get(new.name)
            rules.check_revision(existing, expected_revision)
            return await self._change(existing, new, RevisionCause.PUT)

        return await retry_on_conflict(_attempt)

    async def patch(
        self,
        name: str,
        settings: Mapping[str, str],
        removed: Collection[str],
        expected_revision: int,
    ) -> tuple[StoredConnector, bool]:
        """Set and remove single keys; returns whether the configuration changed."""

        async def _attempt() -> tuple[StoredConnector, bool]:
            existing = await self.get(name)
            rules.check_revision(existing, expected_revision)
            new = rules.patch_config(existing, settings, removed)
            rules.check_config(name, new.config)
            return await self._change(existing, new, RevisionCause.PATCHED)

        return await retry_on_conflict(_attempt)

    async def restore_version(
        self,
        name: str,
        read_version: Callable[[StoredConnector], Awaitable[Revision]],
        expected_revision: int,
    ) -> tuple[StoredConnector, bool]:
        """Set the configuration of an earlier version; returns whether that is a change."""

        async def _attempt() -> tuple[StoredConnector, bool]:
            existing = await self.get(name)
            rules.check_revision(existing, expected_revision)
            earlier = await read_version(existing)
            new = replace(existing.connector, config=earlier.config)
            cause = RevisionCause.ROLLED_BACK
            return await self._change(existing, new, cause, earlier.version)

        return await retry_on_conflict(_attempt)

    async def set_target_state(self, name: str, state: TargetState) -> StoredConnector:
        """Set whether a connector should run."""

        async def _attempt() -> StoredConnector:
            existing = await self.get(name)
            new = rules.change_target_state(existing, state, self._clock())
            return existing if new is existing else await self._write(new)

        return await retry_on_conflict(_attempt)

    async def request_restart(self, name: str, request: RestartRequest) -> StoredConnector:
        """Store a restart request. The revision of the connector stays, so that a user who changes
        a configuration that he read before gets no conflict.
        """

        async def _attempt() -> StoredConnector:
            new = rules.add_restart_request(await self.get(name), request, self._clock())
            key = connector_key(name)
            await faults.reach("config.storing")
            puts: list[Put] = [(key, encode_connector(new, keep_revision=True))]
            revision = await self._store.write([Check(key, new.entry_revision)], puts)
            await faults.reach("config.stored")
            return replace(new, entry_revision=revision)

        return await retry_on_conflict(_attempt)

    async def keep(self, name: str, expected_revision: int) -> Connector:
        """Delete a connector, and keep its offsets for the next one of its name; returns it.

        That one takes up its generation, so whatever is stored under it stays, and so do its
        resources in external systems.

        Raises:
            ConfigError: `config.too_many_kept`.
        """

        async def _attempt() -> Connector:
            existing, before = await self._find_with_kept(name)
            existing = existing or await self.get(name)
            rules.check_revision(existing, expected_revision)
            count = await self._store.range(KEPT_PREFIX, limit=rules.MAX_KEPT_OFFSETS)
            rules.check_kept_count(name, len(count.entries))
            checks = [
                Check(connector_key(name), existing.entry_revision),
                Check(kept_key(name), before.revision),
            ]
            await faults.reach("config.storing")
            await self._store.write(checks, keep_puts(existing, before, self._clock()))
            await faults.reach("config.stored")
            return existing.connector

        kept = await retry_on_conflict(_attempt)
        await delete_topics(self._store, kept.generation)
        return kept

    async def purge(self, name: str) -> Connector:
        """Delete a connector whose offsets are kept for good; returns it.

        Raises:
            ConfigError: `config.nothing_kept`.
        """
        purged = await retry_on_conflict(lambda: purge_kept_offsets(self._store, name))
        await delete_leftovers(self._store, purged.generation)
        return purged

    async def delete(self, name: str, expected_revision: int) -> Connector:
        """Delete a connector with its versions; returns it.

        Its offsets stay, under its generation. The scheduler deletes its plans. It is stored as
        deleted until its resources in external systems are removed.
        """

        async def _attempt() -> Connector:
            existing = await self.get(name)
            rules.check_revision(existing, expected_revision)
            generation = existing.connector.generation
            checks = [Check(connector_key(name), existing.entry_revision)]
            removed: list[Put] = [(connector_key(name), None), (generation_key(generation), None)]
            deleted: Put = (deleted_key(generation), encode_connector(existing))
            await faults.reach("config.storing")
            await self._store.write(checks, [*removed, deleted])
            await faults.reach("config.stored")
            return existing.connector

        deleted = await retry_on_conflict(_attempt)
        await delete_leftovers(self._store, deleted.generation)
        return deleted

    async def _search_generation(self, generation: str) -> tuple[StoredConnector | None, int]:
        """Search all connectors: one from before generations had keys."""
        after, more, revision = "", True, 0
        while more:
            page = await self.read_page(after=after)
            for stored in page.connectors:
                after = stored.connector.name
                if stored.connector.generation == generation:
                    return stored, page.revision
            more, revision = page.more, page.revision
        return None, revision

    async def _find_with_kept(self, name: str) -> tuple[StoredConnector | None, KeptEntry]:
        """Return a connector, and what is kept of a deleted one of its name, of one revision."""
        found = await self._store.get(connector_key(name), kept_key(name))
        entry = found.get(connector_key(name))
        kept = await read_kept(self._store, found.get(kept_key(name)))
        return None if entry is None else decode_connector(entry), kept

    async def _create(
        self, new: Connector, existing: StoredConnector | None, kept: KeptEntry
    ) -> StoredConnector:
        """Write a new connector. It takes up what is kept, or no other writer kept anything."""
        created = rules.create_connector(
            existing, new, new_generation(), self._clock(), kept.connector
        )
        return await self._write_version(
            created,
            RevisionCause.CREATED,
            checks=[Check(kept_key(new.name), kept.revision)],
            more=take_up_puts(kept),
        )

    async def _find_with_revision(self, name: str) -> tuple[StoredConnector | None, int]:
        key = connector_key(name)
        page = await self._store.range(key, limit=1)  # of the keys with this prefix it is the first
        entry = next((entry for entry in page.entries if entry.key == key), None)
        return None if entry is None else decode_connector(entry), page.revision

    async def _change(
        self, existing: StoredConnector, new: Connector, cause: RevisionCause, restored: int = 0
    ) -> tuple[StoredConnector, bool]:
        changed = rules.change_config(existing, new, self._clock())
        if changed is existing:
            return existing, False
        if changed.connector.version == existing.connector.version:
            return await self._write(changed), False
        return await self._write_version(changed, cause, restored), True

    async def _write_version(
        self,
        new: StoredConnector,
        cause: RevisionCause,
        restored: int = 0,
        *,
        checks: Sequence[Check] = (),
        more: Sequence[Put] = (),
    ) -> StoredConnector:
        """Write a connector with its new version, and delete the oldest version."""
        connector = new.connector
        generation, number = connector.generation, connector.version
        version = Revision(
            number, 0, new.updated_at, cause, restored, connector.kind, connector.config
        )
        puts: list[Put] = [*more, (revision_key(generation, number), encode_revision(version))]
        if cause is RevisionCause.CREATED:
            puts.append((generation_key(generation), connector.name.encode()))
        if number > MAX_REVISIONS:
            puts.append((revision_key(generation, number - MAX_REVISIONS), None))
        return await self._write(new, puts, checks)

    async def _write(
        self, new: StoredConnector, more: Sequence[Put] = (), checks: Sequence[Check] = ()
    ) -> StoredConnector:
        """Write a connector over the entry that it was made from."""
        key = connector_key(new.connector.name)
        await faults.reach("config.storing")
        revision = await self._store.write(
            [Check(key, new.entry_revision), *checks], [(key, encode_connector(new)), *more]
        )
        await faults.reach("config.stored")
        return new.at_revision(revision)


class Revisions:
    """The versions of configurations in a store. Has no state of its own."""

    def __init__(self, store: Store, connectors: Connectors) -> None:
        """`connectors` reads the current generation, and writes."""
        self._store, self._connectors = store, connectors

    async def list(self, name: str) -> list[Revision]:
        """Return the versions, newest first, without configurations."""
        generation = (await self._connectors.get(name)).connector.generation
        revisions: list[Revision] = []
        after, more = "", True
        while more and len(revisions) < 2 * MAX_REVISIONS:
            page = await self._store.range(revision_prefix(generation), after, REVISION_READ_SIZE)
            more = page.more
            for entry in page.entries:
                after = entry.key
                revisions.append(replace(decode_revision(entry), config={}))
        return revisions[::-1]

    async def get(self, name: str, version: int) -> Revision:
        """Return one version.

        Raises:
            ConfigError: `config.not_found`, `config.revision_not_found`.
        """
        return await self._read(await self._connectors.get(name), version)

    async def diff(
        self, name: str, from_version: int, to_version: int
    ) -> Sequence[ConfigDifference]:
        """Return the differences between two versions; `to_version` 0 is the newest."""
        existing = await self._connectors.get(name)
        before = await self._read(existing, from_version)
        after = await self._read(existing, to_version or existing.connector.version)
        return compare_configs(before.config, after.config, existing.connector.secret_keys)

    async def rollback(
        self, name: str, version: int, expected_revision: int
    ) -> tuple[StoredConnector, bool]:
        """Make a new version with the configuration of an earlier one; returns whether the
        configuration changed.
        """
        return await self._connectors.restore_version(
            name, lambda existing: self._read(existing, version), expected_revision
        )

    async def _read(self, existing: StoredConnector, version: int) -> Revision:
        connector = existing.connector
        if not 0 < version <= connector.version:
            raise _version_not_found(connector.name, version, connector.version)
        key = revision_key(connector.generation, version)
        entry = (await self._store.get(key)).get(key)
        if entry is None:
            raise _version_not_found(connector.name, version, connector.version)
        return decode_revision(entry)


def _version_not_found(name: str, version: int, newest: int) -> ConfigError:
    oldest = max(1, newest - MAX_REVISIONS + 1)
    return ConfigError(
        "config.revision_not_found",
        f"{name} has no version {version} of its configuration",
        fix=f"Versions from {oldest} to {newest} may exist; list them."
        if newest
        else "Its configuration has not changed since versions are counted.",
    )


def _next_read_size(count: int, bytes_read: int) -> int:
    """Return how many connectors to read next, after `count` of `bytes_read`: as many as fill the
    page, if they are like those before.
    """
    if not count:
        return FIRST_READ_SIZE
    return max(1, min(MAX_READ_SIZE, (MAX_PAGE_BYTES - bytes_read) * count // bytes_read))


async def retry_on_conflict(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Await an attempt until no other write comes between its read and its write.

    Raises:
        RetriableError: `config.contended`: after `MAX_ATTEMPTS`.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            return await attempt()
        except Conflict:
            continue
    raise RetriableError(
        "config.contended",
        f"other writes came first {MAX_ATTEMPTS} times in a row",
        fix="Repeat the change later.",
        retry_after_s=0.5,
    )
