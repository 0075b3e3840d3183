"""The change feed: a bounded list of recent changes that feeds the watches of a driver."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from penstock.store.port import Change

MAX_CHANGES = 4096
"""Writes that are kept. A watcher that is further behind lists again. With fewer writes that is
common under load; more writes cost memory (about 300 bytes each) for a hint."""

MAX_CHANGE_KEYS = 1024
"""Keys of one change. A change of more keys has none, which means `list again` and is cheaper."""


class Feed:
    """Recent writes in order of revision. Belongs to one event loop."""

    def __init__(self, revision: int, max_changes: int = MAX_CHANGES) -> None:
        """`revision`: that of the store; earlier writes are unknown."""
        self._changes: deque[Change] = deque(maxlen=max_changes)
        self._revision = self._dropped_revision = revision
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def revision(self) -> int:
        """The revision of the newest known write."""
        return self._revision

    def reset(self, revision: int) -> None:
        """Continue after a gap: earlier writes are unknown, and watchers list again."""
        self._changes.clear()
        self._revision = self._dropped_revision = revision
        self._wake()

    def publish(self, revision: int, keys: Sequence[str]) -> None:
        """Add a write. Revisions must grow."""
        if len(self._changes) == self._changes.maxlen:
            self._dropped_revision = self._changes[0].revision
        self._changes.append(Change(revision, tuple(keys)))
        self._revision = revision
        self._wake()

    def close(self) -> None:
        """End every watch."""
        self._closed = True
        self._wake()

    def watch(self, prefix: str, after_revision: int) -> AsyncIterator[Change]:
        """Yield merged changes under `prefix` after a revision; 0: from this call on."""
        seen = after_revision or self._revision
        if seen > self._revision:  # the store was restored, or the write is not published yet
            seen = -1
        return self._watch(prefix, seen)

    async def _watch(self, prefix: str, seen: int) -> AsyncIterator[Change]:
        while not self._closed:
            changed = self._changed
            change = self._merge_since(prefix, seen)
            seen = self._revision
            if change is not None:
                yield change
            elif not self._closed:
                await changed.wait()

    def _merge_since(self, prefix: str, seen: int) -> Change | None:
        if seen >= self._revision:
            return None
        if seen < self._dropped_revision:
            return Change(self._revision)
        keys: dict[str, None] = {}
        for change in reversed(self._changes):
            if change.revision <= seen:
                break
            keys.update((key, None) for key in change.keys if key.startswith(prefix))
            if len(keys) > MAX_CHANGE_KEYS:
                return Change(self._revision)
        return Change(self._revision, tuple(sorted(keys))) if keys else None

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
