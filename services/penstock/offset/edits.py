"""What people do with offsets: get, list, alter, reset.

To alter offsets, or to reset them, is to become their owner: the generation's floor is raised to
the newest epoch that was ever given out, so that a task which still believes in itself can neither
commit nor claim any more (invariant 4). The next start gets a newer epoch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, Protocol

from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError, RetriableError
from penstock.model.identity import partition_id, partition_key
from penstock.offset import rules, stored
from penstock.store import Check, Conflict, Store

PAGE: Final = 500
"""Offsets in one page of a list, or removed in one write of a reset."""

ATTEMPTS: Final = 8


class ConnectorList(Protocol):
    """All connectors at a revision."""

    @property
    def connectors(self) -> Sequence[Connector]:
        """The connectors."""

    @property
    def revision(self) -> int:
        """Revision of the list: no epoch that was given out is newer."""


class ConnectorReader(Protocol):
    """What is needed of the config service; its client has it."""

    async def list(self) -> ConnectorList:
        """Read all connectors at one revision."""


class Edits:
    """The offsets of a store, as people see and change them."""

    def __init__(self, store: Store, connectors: ConnectorReader) -> None:
        """`connectors` tells whether a connector is stopped."""
        self._store, self._connectors = store, connectors

    async def get(self, generation: str, partition_ids: Sequence[str]) -> dict[str, bytes]:
        """Read the offsets of partitions; those never committed are absent."""
        rules.check_generation(generation)
        keys = [stored.offset_key(generation, id_) for id_ in partition_ids]
        found = await self._store.get(*keys)
        return {
            id_: stored.body_of(found[key].value)
            for id_, key in zip(partition_ids, keys, strict=True)
            if key in found
        }

    async def list(self, generation: str, prefix: str) -> AsyncIterator[dict[str, bytes]]:
        """Iterate over pages of offsets, ordered by partition id."""
        rules.check_generation(generation)
        start = stored.offsets_prefix(generation)
        after, more = "", True
        while more:
            page = await self._store.range(start + prefix, after, PAGE)
            more = page.more
            if page.entries:
                after = page.entries[-1].key
                yield {e.key.removeprefix(start): stored.body_of(e.value) for e in page.entries}

    async def alter(
        self, connector: str, generation: str, offsets: Mapping[str, bytes | None]
    ) -> int:
        """Set offsets, or remove those that are None, in one write; returns its revision.

        Raises:
            ConfigError: `offset.not_stopped`, `offset.connector_not_found`, `offset.partition_id`.
        """
        rules.check_generation(generation)
        rules.check_sizes(offsets)
        for id_ in offsets:
            _check_canonical(id_)
        newest = await self._stopped(connector, generation, must_exist=True)
        return await self._raise_floor(generation, newest, offsets)

    async def reset(self, connector: str, generation: str) -> int:
        """Remove all offsets of a generation, page by page; returns the last write's revision.

        Its tasks are fenced first. When it fails midway, some are left: repeat it. Allowed for a
        generation that is deleted, which nobody can start again.

        Raises:
            ConfigError: `offset.not_stopped`, `offset.generation_mismatch`.
        """
        rules.check_generation(generation)
        newest = await self._stopped(connector, generation, must_exist=False)
        revision = await self._raise_floor(generation, newest, {})
        more = True
        while more:
            page = await self._store.range(stored.offsets_prefix(generation), limit=PAGE)
            more = page.more
            if page.entries:
                revision = await self._store.write([], [(e.key, None) for e in page.entries])
        return revision

    async def _stopped(self, name: str, generation: str, *, must_exist: bool) -> int:
        """Return an epoch that is as new as any that was given out, if nothing is to run."""
        listed = await self._connectors.list()
        owner = next((c for c in listed.connectors if c.generation == generation), None)
        if owner is None and must_exist:
            raise ConfigError(
                "offset.connector_not_found",
                f"there is no connector {name[:200]!r} of generation {generation}",
                fix="Read the connector again: it may have been deleted and made anew.",
            )
        if owner is not None and owner.name != name:
            raise ConfigError(
                "offset.generation_mismatch",
                f"generation {generation} is of connector {owner.name}, not of {name[:200]!r}",
                fix="Take name and generation from the same connector.",
            )
        if owner is not None and owner.target_state is not TargetState.STOPPED:
            raise ConfigError(
                "offset.not_stopped",
                f"{name} is {owner.target_state.name}: its tasks would overwrite the change",
                fix=f"Stop it first: set the target state of {name} to STOPPED.",
            )
        return listed.revision

    async def _raise_floor(
        self, generation: str, newest: int, offsets: Mapping[str, bytes | None]
    ) -> int:
        """Fence every epoch up to `newest`, and put offsets as its owner, in one write."""
        key = stored.floor_key(generation)
        for _ in range(ATTEMPTS):
            entry = (await self._store.get(key)).get(key)
            floor = max(newest, stored.decode_floor(entry.value) if entry else 0)
            puts: list[tuple[str, bytes | None]] = [(key, stored.encode_floor(floor))]
            puts += [
                (
                    stored.offset_key(generation, id_),
                    None if body is None else stored.encode_offset(floor, body),
                )
                for id_, body in offsets.items()
            ]
            try:
                return await self._store.write([Check(key, entry.revision if entry else 0)], puts)
            except Conflict:
                continue
        raise RetriableError("offset.contended", f"offsets of {generation} are altered by others")


def _check_canonical(id_: str) -> None:
    """Refuse an id that no task would ever look for."""
    try:
        wanted = partition_id(partition_key(id_))
    except (ValueError, TypeError, ArithmeticError):
        wanted = ""
    if wanted != id_:
        raise ConfigError(
            "offset.partition_id",
            f"{id_[:200]!r} is not the canonical JSON of a partition's key",
            fix="Write the key as JSON with sorted names and no spaces, as a list of offsets does.",
            suggestion=wanted,
        )
