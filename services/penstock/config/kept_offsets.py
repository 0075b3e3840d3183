"""Offsets of deleted connectors that are kept for a connector of the same name.

Everything that belongs to a connector is stored by its generation, its offsets, too. So nothing is
copied: the write that deletes the connector moves it to `kept/<name>`, and the write that creates
its namesake takes up its generation and deletes that entry. Both check the entry, so of several
creates at once one has the generation. Tasks of the deleted connector that still run are fenced as
those of a connector that was changed: the tasks of the namesake have newer epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.config import rules
from penstock.config.records import (
    KEPT_PREFIX,
    StoredConnector,
    connector_key,
    decode_connector,
    decode_kept,
    deleted_key,
    encode_connector,
    encode_kept,
    generation_key,
    kept_connector_key,
    kept_key,
)
from penstock.model.connector import Connector, KeptOffsets
from penstock.store.port import Check, Conflict, Entry, Put, Store


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """What is kept under a name: the deleted connector. `revision` is that of its key, 0: none."""

    stored: StoredConnector | None = None
    revision: int = 0

    @property
    def connector(self) -> Connector | None:
        """The deleted connector."""
        return None if self.stored is None else self.stored.connector


NOTHING: Final = KeptEntry()


async def read_kept(store: Store, entry: Entry | None) -> KeptEntry:
    """Return what is kept, by the entry of a name.

    Raises:
        Conflict: it was taken up or purged meanwhile.
    """
    if entry is None:
        return NOTHING
    key = kept_connector_key(decode_kept(entry).generation)
    kept = (await store.get(key)).get(key)
    if kept is None:
        raise Conflict(entry.key, 0)
    return KeptEntry(decode_connector(kept), entry.revision)


async def list_kept_offsets(store: Store) -> list[KeptOffsets]:
    """Return all kept offsets, ordered by name."""
    found: list[KeptOffsets] = []
    after, more = "", True
    while more and len(found) < 2 * rules.MAX_KEPT_OFFSETS:
        page = await store.range(KEPT_PREFIX, after)
        more = page.more
        for entry in page.entries:
            after = entry.key
            found.append(decode_kept(entry))
    return found


async def purge_kept_offsets(store: Store, name: str) -> Connector:
    """Make a connector whose offsets are kept one that is deleted for good; returns it.

    Raises:
        ConfigError: `config.nothing_kept`.
        Conflict: a namesake takes it up at this moment.
    """
    key = kept_key(name)
    kept = await read_kept(store, (await store.get(key)).get(key))
    if kept.connector is None:
        raise rules.nothing_kept(name, [one.name for one in await list_kept_offsets(store)])
    await store.write([Check(key, kept.revision)], _purge_puts(kept))
    return kept.connector


def keep_puts(existing: StoredConnector, before: KeptEntry, now: float) -> list[Put]:
    """Return the write that deletes a connector and keeps its offsets, at a time. What an earlier
    namesake left is purged: a version that kept no offsets has not taken it up.
    """
    connector = existing.connector
    connector_class = connector.config.get("connector.class", "")
    kept = KeptOffsets(
        connector.name, connector.kind, connector.generation, connector_class, kept_at=now
    )
    return [
        *_purge_puts(before),
        (connector_key(connector.name), None),
        (generation_key(connector.generation), connector.name.encode()),
        (kept_connector_key(connector.generation), encode_connector(existing)),
        (kept_key(connector.name), encode_kept(kept)),
    ]


def take_up_puts(kept: KeptEntry) -> list[Put]:
    """Return the part of the write of a namesake that deletes the entries of what it takes up."""
    if kept.connector is None:
        return []
    return [
        (kept_key(kept.connector.name), None),
        (kept_connector_key(kept.connector.generation), None),
    ]


def _purge_puts(kept: KeptEntry) -> list[Put]:
    if kept.stored is None:
        return []
    connector = kept.stored.connector
    return [
        *take_up_puts(kept),
        (generation_key(connector.generation), None),
        (deleted_key(connector.generation), encode_connector(kept.stored)),
    ]
