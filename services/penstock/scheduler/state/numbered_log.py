"""A list of the latest items that a leader stores: events, log lines. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

from penstock.model.events import Event
from penstock.model.logs import StoredLogLine

MAX_STORED_ITEMS: Final = 200
"""Items of one stored entry: at most some hundred kilobytes, of the 1.5 MB that etcd takes."""

_TERM_GAP: Final = 10_000
"""Numbers that a new leader leaves out. The last items of its predecessor may not be stored, and
somebody may have read them.
"""

N = TypeVar("N", bound=Event | StoredLogLine)


class NumberedLog(Generic[N]):
    """The latest items, oldest first, and which of them are not stored yet."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._items: deque[N] = deque(maxlen=max_items)
        self._unstored: list[N] = []
        self._next = 1
        self._is_loaded = False

    def load(self, stored: Sequence[N]) -> None:
        """Put the stored items in front of those that were added since this leader began."""
        if self._is_loaded or not stored:
            self._is_loaded = True
            return
        self._is_loaded, first = True, stored[-1].number + _TERM_GAP
        added = [replace(one, number=first + at) for at, one in enumerate(self._unstored)]
        self._items.clear()
        self._items.extend([*stored, *added])
        self._unstored = added
        self._next = first + len(added)

    def append(self, items: Iterable[N]) -> None:
        """Add items, which get their numbers."""
        for item in items:
            numbered = replace(item, number=self._next)
            self._next += 1
            self._items.append(numbered)
            self._unstored.append(numbered)
        del self._unstored[: -self._max_items]

    def select(self, matches: Callable[[N], bool], limit: int) -> list[N]:
        """Return the latest items that match."""
        found = [item for item in self._items if matches(item)]
        return found[-limit:] if limit else []

    def take_unstored(self) -> list[list[N]]:
        """Return the items to store, in entries. `record_stored` comes after the write."""
        items, size = self._unstored, MAX_STORED_ITEMS
        return [items[at : at + size] for at in range(0, len(items), size)]

    def record_stored(self, items: Sequence[N]) -> None:
        """Record that items are stored."""
        last = items[-1].number
        self._unstored = [item for item in self._unstored if item.number > last]
