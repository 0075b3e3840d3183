"""Reports to the config service which topics have rows of a connector, for users who list them.

A topic is reported when rows move, and again once a minute while they do. Reporting never delays
rows: what fails is reported with later rows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import PenstockError

log = logging.getLogger(__name__)


REFRESH_AFTER_S: Final = 60.0
"""Time until a topic is reported again. A list that a user resets is complete again after this
time, if rows move; shorter costs calls that change nothing.
"""

MAX_TOPICS: Final = 100_000
"""Topics that are remembered (invariant 12). With more of them, all are reported again now and
then.
"""

MAX_TOPICS_PER_CALL: Final = 1000
"""Topics of one call. The service refuses more."""


class TopicStore(Protocol):
    """The part of the config service that the tracker needs."""

    async def record_topics(self, generation: str, topics: Sequence[str]) -> None:
        """Store topics with rows of a connector."""


class TopicTracker:
    """Tracks the topics of all tasks of a worker. `run` it beside them."""

    def __init__(self, store: TopicStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._recorded_at: dict[tuple[str, str], float] = {}
        self._new: defaultdict[str, set[str]] = defaultdict(set)
        self._news = asyncio.Event()

    def record(self, generation: str, topic: str) -> None:
        """Record that rows of a topic moved. Cheap: called for every micro-batch."""
        now, key = self._clock(), (generation, topic)
        if now - self._recorded_at.get(key, -REFRESH_AFTER_S) < REFRESH_AFTER_S:
            return
        if len(self._recorded_at) >= MAX_TOPICS:
            self._recorded_at.clear()
        self._recorded_at[key] = now
        self._new[generation].add(topic)
        self._news.set()

    def recorder_for(self, connector: Connector) -> Callable[[str, str], None]:
        """Return a callback that records the topics of a connector, given the dataset of moved rows
        before and after its chain. A source writes the topic after the chain, a sink reads the one
        before it; a pipeline has no topics.
        """
        note = partial(self.record, connector.generation)

        def record(before: str, after: str) -> None:
            if connector.kind in {ConnectorKind.SINK, ConnectorKind.MIRROR}:
                note(before)
            if connector.kind in {ConnectorKind.SOURCE, ConnectorKind.MIRROR}:
                note(after)

        return record

    async def run(self) -> None:
        """Report new topics, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            new, self._new = self._new, defaultdict(set)
            for generation, topics in new.items():
                await self._send(generation, sorted(topics))

    async def _send(self, generation: str, topics: Sequence[str]) -> None:
        try:
            for first in range(0, len(topics), MAX_TOPICS_PER_CALL):
                await self._store.record_topics(
                    generation, topics[first : first + MAX_TOPICS_PER_CALL]
                )
        except PenstockError as error:
            log.debug("topics of generation %s are reported later: %s", generation, error)
            for topic in topics:
                self._recorded_at.pop((generation, topic), None)
