"""Readers sleep until something was committed: told by a writer of this process, by inotify, or by
a slow look.

A watch is only a hint (invariant 7): events are lost on network file systems, so every sleeper
looks for itself once in
`SAFETY_NET` seconds. One inotify instance serves all topics; 200 idle readers cost one look a
second, together.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from inotify_simple import INotify, flags

log = logging.getLogger(__name__)

SAFETY_NET: Final = 1.0
"""Seconds between two looks without a hint: the latency on a file system without inotify."""


class Wakeups:
    """Events by topic folder."""

    def __init__(self) -> None:
        self._events: dict[Path, set[asyncio.Event]] = {}
        self._handles: dict[int, Path] = {}
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

    def add(self, root: Path, event: asyncio.Event) -> None:
        """Set `event` when the topic at `root` may have grown."""
        self._events.setdefault(root, set()).add(event)
        self._watch(root)

    def remove(self, root: Path, event: asyncio.Event) -> None:
        """Forget an event."""
        waiting = self._events.get(root, set())
        waiting.discard(event)
        if not waiting:
            self._events.pop(root, None)

    def tell(self, root: Path) -> None:
        """Wake the readers of a topic."""
        for event in self._events.get(root, ()):
            event.set()

    def _watch(self, root: Path) -> None:
        folder = root / "_delta_log"
        if self._inotify is None or not folder.is_dir():
            return
        with suppress(OSError):
            handle = self._inotify.add_watch(str(folder), flags.CREATE | flags.MOVED_TO)
            self._handles[handle] = root

    def _happened(self) -> None:
        if self._inotify is None:
            return
        for event in self._inotify.read(timeout=0):
            root = self._handles.get(event.wd)
            if root is not None:
                self.tell(root)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(SAFETY_NET)
            for root in list(self._events):
                if root not in self._handles.values():
                    self._watch(root)
                self.tell(root)
