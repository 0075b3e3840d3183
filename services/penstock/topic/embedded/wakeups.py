"""Readers sleep until something was committed: what they need for it, and who does it where."""

from __future__ import annotations

import asyncio
from typing import Protocol

from penstock.topic.embedded.folder_wakeups import Watching
from penstock.topic.embedded.store_wakeups import Polling
from penstock.topic.embedded.table import TopicTable
from penstock.topic_files import Folder, LocalFolder


class Wakeups(Protocol):
    """Wakes readers. A wake-up is only a hint (invariant 7): they look for themselves."""

    def start(self) -> None:
        """Begin, in the running event loop."""
        ...

    async def stop(self) -> None:
        """Let go."""
        ...

    def add(self, table: TopicTable, event: asyncio.Event) -> None:
        """Set `event` when a topic may have grown, which need not exist yet."""
        ...

    def remove(self, table: TopicTable, event: asyncio.Event) -> None:
        """Forget an event."""
        ...

    def tell(self, table: TopicTable) -> None:
        """Wake the readers of a topic."""
        ...


def wakeups_for(topics: Folder) -> Wakeups:
    """Return what wakes readers of topics in a folder."""
    return Watching() if isinstance(topics, LocalFolder) else Polling()
