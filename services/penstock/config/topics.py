"""Which topics connectors have rows of, for people: noted by workers, kept until they are reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.config.connectors import Connectors, decided
from penstock.config.stored import generation_key, topic_key, topics_prefix
from penstock.config.sweeping import remove_all
from penstock.model.errors import ConfigError
from penstock.store import Check, Store

MOST_AT_ONCE: Final = 1000
MOST_KEPT: Final = 10_000
"""Topics of one call, and of one connector (invariant 12). A source whose rows name topics may name
any number of them; of more than this nobody reads a list."""

WRITTEN_AT_ONCE: Final = 100
"""Keys of one write: a transaction of etcd takes 128 operations."""


class Topics:
    """The noted topics of a store. Keeps no state of its own."""

    def __init__(self, store: Store, connectors: Connectors) -> None:
        """`connectors` tells which generation is alive."""
        self._store, self._connectors = store, connectors

    async def note(self, generation: str, topics: Sequence[str]) -> None:
        """Keep topics that are not known yet, while their connector lives (invariant 10).

        Raises:
            ConfigError: `config.too_many_topics`.
        """
        if len(topics) > MOST_AT_ONCE:
            raise ConfigError(
                "config.too_many_topics",
                f"{len(topics)} topics were noted at once",
                fix=f"Note at most {MOST_AT_ONCE} in a call.",
            )
        known = set(await self._of(generation))
        new = sorted(set(topics) - known)[: max(0, MOST_KEPT - len(known))]
        for first in range(0, len(new), WRITTEN_AT_ONCE):
            part = new[first : first + WRITTEN_AT_ONCE]

            async def _attempt(part: Sequence[str] = part) -> None:
                await self._write(generation, part)

            await decided(_attempt)

    async def of(self, name: str) -> list[str]:
        """Return the topics of a connector, ordered by name."""
        return await self._of((await self._connectors.get(name)).connector.generation)

    async def reset(self, name: str) -> None:
        """Forget the topics of a connector."""
        generation = (await self._connectors.get(name)).connector.generation
        await remove_all(self._store, topics_prefix(generation))

    async def _write(self, generation: str, topics: Sequence[str]) -> None:
        key = generation_key(generation)
        alive = (await self._store.get(key)).get(key)
        if alive is None:
            return
        puts = [(topic_key(generation, topic), b"") for topic in topics]
        await self._store.write([Check(key, alive.revision)], puts)

    async def _of(self, generation: str) -> list[str]:
        prefix, after, more = topics_prefix(generation), "", True
        found: list[str] = []
        while more and len(found) < MOST_KEPT:
            page = await self._store.range(prefix, after)
            more = page.more
            for entry in page.entries:
                after = entry.key
                found.append(after.removeprefix(prefix))
        return found
