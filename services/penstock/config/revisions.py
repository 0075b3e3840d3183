"""The history of a connector's configuration: versions, what differs, and the way back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock.config.connectors import KEPT_REVISIONS, Connectors
from penstock.config.stored import (
    Stored,
    decode_revision,
    revision_key,
    revisions_prefix,
)
from penstock.model.connector import Difference, Revision
from penstock.model.errors import ConfigError
from penstock.model.sensitive import differences
from penstock.store import Store

READ_AT_ONCE = 10
"""Versions in one read of the store: of the largest, these are 5 MiB."""


class Revisions:
    """The versions of a store. Keeps no state of its own."""

    def __init__(self, store: Store, connectors: Connectors) -> None:
        """`connectors` tells which generation is alive, and writes."""
        self._store, self._connectors = store, connectors

    async def list(self, name: str) -> tuple[list[Revision], str]:
        """Read the versions, newest first, without configurations; and the generation."""
        generation = (await self._connectors.get(name)).connector.generation
        found: list[Revision] = []
        after, more = "", True
        while more and len(found) < 2 * KEPT_REVISIONS:
            page = await self._store.range(revisions_prefix(generation), after, READ_AT_ONCE)
            more = page.more
            for entry in page.entries:
                after = entry.key
                found.append(replace(decode_revision(entry), config={}))
        return found[::-1], generation

    async def get(self, name: str, version: int) -> Revision:
        """Read one version.

        Raises:
            ConfigError: `config.not_found`, `config.revision_not_found`.
        """
        return await self._version(await self._connectors.get(name), version)

    async def diff(
        self, name: str, from_version: int, to_version: int, sensitive: Collection[str] = ()
    ) -> tuple[Sequence[Difference], int]:
        """Tell what differs between two versions, 0 for the newest; and the second's number."""
        existing = await self._connectors.get(name)
        to_version = to_version or existing.connector.version
        before = await self._version(existing, from_version)
        after = await self._version(existing, to_version)
        secret_keys = {*sensitive, *existing.connector.secret_keys}
        return differences(before.config, after.config, secret_keys), to_version

    async def rollback(
        self, name: str, version: int, expected_revision: int
    ) -> tuple[Stored, bool]:
        """Make a new version out of an earlier one; tells whether it was another."""
        return await self._connectors.restore(
            name, lambda existing: self._version(existing, version), expected_revision
        )

    async def _version(self, existing: Stored, version: int) -> Revision:
        connector = existing.connector
        if not 0 < version <= connector.version:
            raise _not_kept(connector.name, version, connector.version)
        key = revision_key(connector.generation, version)
        entry = (await self._store.get(key)).get(key)
        if entry is None:
            raise _not_kept(connector.name, version, connector.version)
        return decode_revision(entry)


def _not_kept(name: str, version: int, newest: int) -> ConfigError:
    oldest = max(1, newest - KEPT_REVISIONS + 1)
    return ConfigError(
        "config.revision_not_found",
        f"{name} has no version {version} of its configuration",
        fix=f"Versions from {oldest} to {newest} may be there; list them."
        if newest
        else "Its configuration has not changed since versions are counted.",
    )
