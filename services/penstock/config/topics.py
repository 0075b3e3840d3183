"""The topics of which connectors have rows. Workers record them; they are kept until reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.config.connectors import Connectors, retry_on_conflict
from penstock.config.deletions import delete_prefix
from penstock.config.records import generation_key, topic_key, topic_prefix
from penstock.model.errors import ConfigError
from penstock.store.port import Check, Store

MAX_TOPICS_PER_CALL: Final = 1000
MAX_TOPICS: Final = 10_000
"""Topics of one call, and of one connector (invariant 12). A source whose rows name topics may name
any number; a longer list has no reader."""

KEYS_PER_WRITE: Final = 100
"""Keys of one write. A transaction of etcd takes 128 operations."""


class Topics:
    """The recorded topics of a store. Has no state of its own."""

    def __init__(self, store: Store, connectors: Connectors) -> None:
        """`connectors` reads the current generation."""
        self._store, self._connectors = store, connectors

    async def record(self, generation: str, topics: Sequence[str]) -> None:
        """Store topics that are not known yet, while their connector exists (invariant 10).

        Raises:
            ConfigError: `config.too_many_topics`.
        """
        if len(topics) > MAX_TOPICS_PER_CALL:
            raise ConfigError(
                "config.too_many_topics",
                f"the call has {len(topics)} topics, the limit is {MAX_TOPICS_PER_CALL}",
                fix=f"Send at most {MAX_TOPICS_PER_CALL} topics in a call.",
            )
        known = set(await self._read(generation))
        new = sorted(set(topics) - known)[: max(0, MAX_TOPICS - len(known))]
        for start in range(0, len(new), KEYS_PER_WRITE):
            batch = new[start : start + KEYS_PER_WRITE]

            async def _attempt(batch: Sequence[str] = batch) -> None:
                await self._write(generation, batch)

            await retry_on_conflict(_attempt)

    async def get(self, name: str) -> list[str]:
        """Return the topics of a connector, ordered by name."""
        return await self._read((await self._connectors.get(name)).connector.generation)

    async def reset(self, name: str) -> None:
        """Delete the topics of a connector."""
        generation = (await self._connectors.get(name)).connector.generation
        await delete_prefix(self._store, topic_prefix(generation))

    async def _write(self, generation: str, topics: Sequence[str]) -> None:
        key = generation_key(generation)
        existing = (await self._store.get(key)).get(key)
        if existing is None:
            return
        puts = [(topic_key(generation, topic), b"") for topic in topics]
        await self._store.write([Check(key, existing.revision)], puts)

    async def _read(self, generation: str) -> list[str]:
        prefix, after, more = topic_prefix(generation), "", True
        topics: list[str] = []
        while more and len(topics) < MAX_TOPICS:
            page = await self._store.range(prefix, after)
            more = page.more
            for entry in page.entries:
                after = entry.key
                topics.append(after.removeprefix(prefix))
        return topics
