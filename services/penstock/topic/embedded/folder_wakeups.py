"""Readers of folders sleep until something was committed: told by a writer of this process, by
inotify, or by a slow look.

A watch is only a hint (invariant 7): nobody hears what another machine does to a shared file
system, so every topic that is read is looked at once in `SAFETY_NET` seconds. That look is one
`stat` of a folder, and only a change of it wakes the readers: 200 idle readers of a topic cost as
much as one. One inotify instance serves all topics.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from inotify_simple import INotify, flags

from penstock.topic.embedded.table import TopicTable

log = logging.getLogger(__name__)


SAFETY_NET: Final = 1.0
"""Seconds between two looks without a hint: the latency on a file system without inotify."""

COARSE: Final = 2.0
"""Seconds in which two changes of a folder may carry the same time. One that was seen so shortly
ago may hide another, so every look counts as a change until then. By our own clock: that of a file
server may be wrong."""


@dataclass(slots=True)
class _Topic:
    """A topic that is read: who sleeps, what was seen last, and when that hides nothing more."""

    log: Path

    sleepers: set[asyncio.Event] = field(default_factory=set)
    changed: int | None = None
    settled: float = 0.0
    watch: int | None = None
    watched: Path | None = None


class Watching:
    """Events by topic folder. Belongs to the event loop that started it."""

    def __init__(self) -> None:
        self._topics: dict[Path, _Topic] = {}
        self._roots: dict[int, set[Path]] = {}
        self._inotify: INotify | None = None
        self._ticker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        try:
            self._inotify = INotify(nonblocking=True)
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._happened)
        except OSError as error:
            log.warning("no inotify (%s): topics are looked at once a second", error)
        self._ticker = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Let go."""
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def add(self, table: TopicTable, event: asyncio.Event) -> None:
        """Set `event` when a topic may have grown, which need not exist yet."""
        root = Path(table.folder.url)
        topic = self._topics.setdefault(root, _Topic(Path(table.log.url)))
        topic.sleepers.add(event)
        self._watch(root, topic)

    def remove(self, table: TopicTable, event: asyncio.Event) -> None:
        """Forget an event."""
        root = Path(table.folder.url)
        topic = self._topics.get(root)
        if topic is None:
            return
        topic.sleepers.discard(event)
        if not topic.sleepers:
            del self._topics[root]
            self._unwatch(root, topic)

    def tell(self, table: TopicTable) -> None:
        """Wake the readers of a topic."""
        self._tell(Path(table.folder.url))

    def _tell(self, root: Path) -> None:
        topic = self._topics.get(root)
        for event in topic.sleepers if topic else ():
            event.set()

    def _watch(self, root: Path, topic: _Topic) -> None:
        """Watch the log of a topic, or the nearest folder above it that is there."""
        if self._inotify is None:
            return
        there = next((p for p in (topic.log, root, root.parent) if p.is_dir()), None)
        if there is None or there == topic.watched:
            return
        self._unwatch(root, topic)
        with suppress(OSError):  # too many watches: the safety net is left
            watch = self._inotify.add_watch(
                str(there), flags.CREATE | flags.MOVED_TO | flags.ONLYDIR
            )
            self._roots.setdefault(watch, set()).add(root)
            topic.watch, topic.watched = watch, there

    def _unwatch(self, root: Path, topic: _Topic) -> None:
        if topic.watch is None:
            return
        others = self._roots.get(topic.watch, set())
        others.discard(root)
        if not others:
            self._roots.pop(topic.watch, None)
            with suppress(OSError):  # the folder went, and the watch with it
                if self._inotify is not None:
                    self._inotify.rm_watch(topic.watch)
        topic.watch = topic.watched = None

    def _happened(self) -> None:
        if self._inotify is None:
            return
        roots: set[Path] = set()
        for event in self._inotify.read(timeout=0):
            found = self._roots.get(event.wd, set())
            if event.mask & flags.IGNORED:
                for root in found:
                    self._topics[root].watch = self._topics[root].watched = None
                self._roots.pop(event.wd, None)
            elif event.mask & (flags.ISDIR | flags.Q_OVERFLOW) or event.name.endswith(".json"):
                roots |= found if event.wd >= 0 else set(self._topics)
        for root in roots:
            self._watch(root, self._topics[root])
            self._tell(root)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(SAFETY_NET)
            for root, topic in list(self._topics.items()):
                self._look(root, topic, time.monotonic())

    def _look(self, root: Path, topic: _Topic, now: float) -> None:
        try:
            changed = topic.log.stat().st_mtime_ns
        except OSError:
            return
        if changed != topic.changed:
            topic.changed, topic.settled = changed, now + COARSE + SAFETY_NET
        if now < topic.settled:
            self._watch(root, topic)
            self._tell(root)
