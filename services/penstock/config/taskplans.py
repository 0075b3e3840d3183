"""Reads and writes task plans in a store: all of a generation at once, in one write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.config import plans, rules
from penstock.config.connectors import Connectors, decided
from penstock.config.stored import connector_key, index_key
from penstock.model import faults
from penstock.model.errors import RetriableError
from penstock.store import Check, Store

READS: Final = 8
"""Times that plans are read again when they were replaced in between."""


@dataclass(frozen=True, slots=True)
class StoredPlans:
    """The plans of a generation, as the bytes that were put, and their epoch. 0: there are none."""

    body: bytes = b""
    epoch: int = 0


class TaskPlans:
    """The task plans of a store. Keeps no state of its own."""

    def __init__(self, store: Store, connectors: Connectors) -> None:
        """`connectors` tells which generation is alive."""
        self._store, self._connectors = store, connectors

    async def put(self, name: str, generation: str, task_ids: Sequence[str], body: bytes) -> int:
        """Replace the plans of a generation; returns their epoch, the revision of the write.

        The write holds only while the connector is the one that was checked: one that is deleted,
        or made again, in between makes it fail (invariant 10). Revisions grow and are never used
        twice, so the epoch fences every earlier owner (invariant 4).
        """

        async def _attempt() -> int:
            existing = await self._connectors.get(name)
            rules.check_generation(existing, generation)
            plans.check_task_ids(generation, task_ids)
            index = index_key(generation)
            old = (await self._store.get(index)).get(index)
            puts = plans.puts(generation, body)
            kept = {key for key, _ in puts}
            before = plans.chunk_keys(generation, old.value) if old else []
            await faults.reach("config.storing")
            epoch = await self._store.write(
                [
                    Check(connector_key(name), existing.connector.revision),
                    Check(index, old.revision if old else 0),
                ],
                [*puts, *((key, None) for key in before if key not in kept)],
            )
            await faults.reach("config.stored")
            return epoch

        return await decided(_attempt)

    async def list(self, name: str, generation: str) -> StoredPlans:
        """Read the plans of a generation; one that is not alive any more has none."""
        existing = await self._connectors.get(name)
        if existing.connector.generation != generation:
            return StoredPlans()
        index = index_key(generation)
        for _ in range(READS):
            found = await self._store.get(index)
            if index not in found:
                return StoredPlans()
            keys = plans.chunk_keys(generation, found[index].value)
            entries = await self._store.get(index, *keys)
            revision = found[index].revision
            if len(entries) > len(keys) and entries[index].revision == revision:
                return StoredPlans(b"".join(entries[key].value for key in keys), revision)
        raise RetriableError("config.contended", f"the plans of {name} change faster than read")
