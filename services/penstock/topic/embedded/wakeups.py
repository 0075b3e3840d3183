"""Wakes the readers of a topic when something may have been committed to it.

Writers of this process call `wake`. Commits of other processes are found by `FolderWakeups`
(inotify, and a periodic check) or by `StoreWakeups` (polling). A wake-up is only a hint (invariant
7): readers read the topic's log themselves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from inotify_simple import INotify, flags

from penstock.aio import cancel_and_wait
from penstock.topic.embedded.topic_table import TopicTable, TopicThreads
from penstock.topic_files.folder import Folder
from penstock.topic_files.local_folder import LocalFolder

log = logging.getLogger(__name__)


class Wakeups(Protocol):
    """Wakes readers. Belongs to the event loop that started it."""

    def start(self) -> None:
        """Start, in the running event loop."""
        ...

    async def stop(self) -> None:
        """Stop and release everything."""
        ...

    def add(self, table: TopicTable, event: asyncio.Event) -> None:
        """Set `event` whenever a topic may have new rows. The topic need not exist yet."""
        ...

    def remove(self, table: TopicTable, event: asyncio.Event) -> None:
        """Remove an event."""
        ...

    def wake(self, table: TopicTable) -> None:
        """Wake the readers of a topic."""
        ...


def wakeups_for(topics: Folder) -> Wakeups:
    """Return the wake-ups for topics in a folder."""
    return FolderWakeups() if isinstance(topics, LocalFolder) else StoreWakeups()


CHECK_INTERVAL_S: Final = 1.0
"""Interval between two checks of a folder: the latency on a file system without inotify."""

TIMESTAMP_RESOLUTION_S: Final = 2.0
"""Time in which two changes of a folder may have the same timestamp. A change that was seen may
hide a later one for so long, so until then every check counts as a change. Measured by this
machine's clock: that of a file server may be wrong."""


@dataclass(slots=True)
class _WatchedFolder:
    """A topic's folder with readers: its last known change, and when it can hide no later one."""

    log: Path

    events: set[asyncio.Event] = field(default_factory=set)
    changed_ns: int | None = None
    settled_at: float = 0.0
    watch: int | None = None
    watched: Path | None = None


class FolderWakeups:
    """Wakes readers of topics in a file system.

    Inotify reports nothing that another machine does to a shared file system. So every topic with
    readers is also checked periodically. A check is one `stat` of a folder, and only a change of it
    wakes the readers: 200 idle readers of a topic cost as much as one. One inotify instance serves
    all topics.
    """

    def __init__(self) -> None:
        self._folders: dict[Path, _WatchedFolder] = {}
        self._roots: dict[int, set[Path]] = {}
        self._inotify: INotify | None = None
        self._ticker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start inotify and the periodic checks."""
        try:
            self._inotify = INotify(nonblocking=True)
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._on_events)
        except OSError as error:
            log.warning("no inotify (%s): topics are checked once a second", error)
        self._ticker = asyncio.create_task(self._check_all())

    async def stop(self) -> None:
        """Stop and release inotify."""
        if self._ticker is not None:
            await cancel_and_wait(self._ticker)
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def add(self, table: TopicTable, event: asyncio.Event) -> None:
        """Set `event` whenever a topic may have new rows."""
        root = Path(table.folder.url)
        folder = self._folders.setdefault(root, _WatchedFolder(Path(table.log.url)))
        folder.events.add(event)
        self._watch(root, folder)

    def remove(self, table: TopicTable, event: asyncio.Event) -> None:
        """Remove an event, and the watch of a topic without events."""
        root = Path(table.folder.url)
        folder = self._folders.get(root)
        if folder is None:
            return
        folder.events.discard(event)
        if not folder.events:
            del self._folders[root]
            self._unwatch(root, folder)

    def wake(self, table: TopicTable) -> None:
        """Wake the readers of a topic."""
        self._wake(Path(table.folder.url))

    def _wake(self, root: Path) -> None:
        folder = self._folders.get(root)
        for event in folder.events if folder else ():
            event.set()

    def _watch(self, root: Path, folder: _WatchedFolder) -> None:
        """Watch the log of a topic, or the nearest folder above it that exists."""
        if self._inotify is None:
            return
        nearest = next((p for p in (folder.log, root, root.parent) if p.is_dir()), None)
        if nearest is None or nearest == folder.watched:
            return
        self._unwatch(root, folder)
        with suppress(OSError):  # too many watches: the periodic check remains
            watch = self._inotify.add_watch(
                str(nearest), flags.CREATE | flags.MOVED_TO | flags.ONLYDIR
            )
            self._roots.setdefault(watch, set()).add(root)
            folder.watch, folder.watched = watch, nearest

    def _unwatch(self, root: Path, folder: _WatchedFolder) -> None:
        if folder.watch is None:
            return
        others = self._roots.get(folder.watch, set())
        others.discard(root)
        if not others:
            self._roots.pop(folder.watch, None)
            with suppress(OSError):  # the folder was deleted, and the watch with it
                if self._inotify is not None:
                    self._inotify.rm_watch(folder.watch)
        folder.watch = folder.watched = None

    def _on_events(self) -> None:
        if self._inotify is None:
            return
        changed: set[Path] = set()
        for event in self._inotify.read(timeout=0):
            roots = self._roots.get(event.wd, set())
            if event.mask & flags.IGNORED:
                for root in roots:
                    self._folders[root].watch = self._folders[root].watched = None
                self._roots.pop(event.wd, None)
            elif event.mask & (flags.ISDIR | flags.Q_OVERFLOW) or event.name.endswith(".json"):
                changed |= roots if event.wd >= 0 else set(self._folders)
        for root in changed:
            self._watch(root, self._folders[root])
            self._wake(root)

    async def _check_all(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            for root, folder in list(self._folders.items()):
                self._check(root, folder, time.monotonic())

    def _check(self, root: Path, folder: _WatchedFolder, now: float) -> None:
        try:
            changed_ns = folder.log.stat().st_mtime_ns
        except OSError:
            return
        if changed_ns != folder.changed_ns:
            folder.changed_ns = changed_ns
            folder.settled_at = now + TIMESTAMP_RESOLUTION_S + CHECK_INTERVAL_S
        if now < folder.settled_at:
            self._watch(root, folder)
            self._wake(root)


MIN_POLL_S: Final = 0.1
"""Interval between two requests for a topic with new rows: how long a row of another process waits.
A shorter one gains little over the time of a request."""

MAX_POLL_S: Final = 1.0
"""Interval for a quiet topic. At Amazon's prices this costs 2 dollars a month for each topic and
process that reads it. A longer one is cheaper, but the first row after a pause waits as long."""

POLL_GROWTH: Final = 1.5

MAX_CONCURRENT_POLLS: Final = 4


@dataclass(slots=True)
class _PolledTopic:
    """A topic with readers, and the task that polls it."""

    polling: asyncio.Task[None]
    events: set[asyncio.Event] = field(default_factory=set)


class StoreWakeups:
    """Wakes readers of topics on an object store, by polling for the next version.

    One poll serves all readers of a topic. It is frequent while there are new rows, and becomes
    rare when there are none, because each request costs money and a round trip.
    """

    def __init__(self) -> None:
        self._topics: dict[TopicTable, _PolledTopic] = {}
        self._threads = TopicThreads("topic-poll", MAX_CONCURRENT_POLLS)

    def start(self) -> None:
        """Do nothing: polling starts with the first reader."""

    async def stop(self) -> None:
        """Stop polling."""
        polling = [topic.polling for topic in self._topics.values()]
        self._topics.clear()
        await cancel_and_wait(*polling)
        self._threads.close()

    def add(self, table: TopicTable, event: asyncio.Event) -> None:
        """Set `event` whenever a topic may have new rows."""
        topic = self._topics.get(table)
        if topic is None:
            topic = _PolledTopic(asyncio.create_task(self._poll(table)))
            self._topics[table] = topic
        topic.events.add(event)

    def remove(self, table: TopicTable, event: asyncio.Event) -> None:
        """Remove an event, and stop polling a topic without events."""
        topic = self._topics.get(table)
        if topic is None:
            return
        topic.events.discard(event)
        if not topic.events:
            del self._topics[table]
            topic.polling.cancel()

    def wake(self, table: TopicTable) -> None:
        """Wake the readers of a topic."""
        topic = self._topics.get(table)
        for event in topic.events if topic else ():
            event.set()

    async def _poll(self, table: TopicTable) -> None:
        seen_version, interval_s = -1, MIN_POLL_S
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self._threads.run(table.refresh)
            except Exception as error:  # noqa: BLE001 - the readers get the same error, and report it
                log.debug("topic %s could not be polled: %s", table.topic, error)
                self.wake(table)
                interval_s = MAX_POLL_S
                continue
            if table.version == seen_version:
                interval_s = min(MAX_POLL_S, interval_s * POLL_GROWTH)
            else:
                # another user of the table may have read the new versions; its readers may not know
                seen_version, interval_s = table.version, MIN_POLL_S
                self.wake(table)
