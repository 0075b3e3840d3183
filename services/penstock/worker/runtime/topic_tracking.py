"""Tells the config service which topics connectors have rows of, for people who ask.

It is told when rows move, again once a minute while they do, and never in their way: what cannot be
told now is told with later rows.
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


AGAIN: Final = 60.0
"""Seconds until a topic is told once more. What a person has reset is back after that, if rows go
on to move; less costs a call that changes nothing."""

MOST: Final = 100_000
"""Topics that are remembered (invariant 12); with more of them all are told again now and then."""

AT_ONCE: Final = 1000
"""Topics of one call; the service refuses more."""


class TopicNotes(Protocol):
    """What is needed of the config service; its client has it."""

    async def note_topics(self, generation: str, topics: Sequence[str]) -> None:
        """Keep topics that a connector has rows of."""


class Noting:
    """The topics of all tasks of a worker. `run` it beside them."""

    def __init__(self, notes: TopicNotes, clock: Callable[[], float] = time.monotonic) -> None:
        self._notes, self._clock = notes, clock
        self._told: dict[tuple[str, str], float] = {}
        self._new: defaultdict[str, set[str]] = defaultdict(set)
        self._news = asyncio.Event()

    def moved(self, generation: str, topic: str) -> None:
        """Take note that rows of a topic moved. Cheap: it is called for every micro-batch."""
        now, key = self._clock(), (generation, topic)
        if now - self._told.get(key, -AGAIN) < AGAIN:
            return
        if len(self._told) >= MOST:
            self._told.clear()
        self._told[key] = now
        self._new[generation].add(topic)
        self._news.set()

    def telling(self, connector: Connector) -> Callable[[str, str], None]:
        """Return what notes the topics of a connector's rows, by their datasets before and behind
        its chain: a source's are behind it, a sink's before it; a pipeline has none.
        """
        note = partial(self.moved, connector.generation)

        def tell(before: str, after: str) -> None:
            if connector.kind in {ConnectorKind.SINK, ConnectorKind.MIRROR}:
                note(before)
            if connector.kind in {ConnectorKind.SOURCE, ConnectorKind.MIRROR}:
                note(after)

        return tell

    async def run(self) -> None:
        """Tell what is new, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            new, self._new = self._new, defaultdict(set)
            for generation, topics in new.items():
                await self._tell(generation, sorted(topics))

    async def _tell(self, generation: str, topics: Sequence[str]) -> None:
        try:
            for first in range(0, len(topics), AT_ONCE):
                await self._notes.note_topics(generation, topics[first : first + AT_ONCE])
        except PenstockError as error:
            log.debug("topics of generation %s are told with later rows: %s", generation, error)
            for topic in topics:
                self._told.pop((generation, topic), None)
