"""Bounded memory of recent changes, which the watches of an in-process driver are fed from."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from penstock.store.port import Change

KEPT = 4096
"""Writes that are remembered. A watcher further behind lists again: fewer make that common under
load, more cost memory (about 300 bytes a write) for a hint."""

MOST_KEYS = 1024
"""Keys named in one change. More are told as `list again`, which is cheaper than naming them."""


class Feed:
    """Recent writes in order of revision. Lives in one event loop."""

    def __init__(self, revision: int, kept: int = KEPT) -> None:
        """Start at the revision of the store; earlier writes are not known (too old)."""
        self._changes: deque[Change] = deque(maxlen=kept)
        self._revision = self._forgotten = revision
        self._news = asyncio.Event()
        self._closed = False

    @property
    def revision(self) -> int:
        """The newest write that is known."""
        return self._revision

    def lose(self, revision: int) -> None:
        """Go on after a gap: what came before is not known, watchers list again."""
        self._changes.clear()
        self._revision = self._forgotten = revision
        self._wake()

    def publish(self, revision: int, keys: Sequence[str]) -> None:
        """Add a write. Revisions must grow."""
        if len(self._changes) == self._changes.maxlen:
            self._forgotten = self._changes[0].revision
        self._changes.append(Change(revision, tuple(keys)))
        self._revision = revision
        self._wake()

    def close(self) -> None:
        """End every watch."""
        self._closed = True
        self._wake()

    def watch(self, prefix: str, after_revision: int) -> AsyncIterator[Change]:
        """Yield merged changes under `prefix` after a revision; 0 for from now, this call."""
        seen = after_revision or self._revision
        if seen > self._revision:  # of another life of the store, or not published yet
            seen = -1
        return self._watch(prefix, seen)

    async def _watch(self, prefix: str, seen: int) -> AsyncIterator[Change]:
        while not self._closed:
            news = self._news
            change = self._since(prefix, seen)
            seen = self._revision
            if change is not None:
                yield change
            elif not self._closed:
                await news.wait()

    def _since(self, prefix: str, seen: int) -> Change | None:
        if seen >= self._revision:
            return None
        if seen < self._forgotten:
            return Change(self._revision)
        keys: dict[str, None] = {}
        for change in reversed(self._changes):
            if change.revision <= seen:
                break
            keys.update((key, None) for key in change.keys if key.startswith(prefix))
            if len(keys) > MOST_KEYS:
                return Change(self._revision)
        return Change(self._revision, tuple(sorted(keys))) if keys else None

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
