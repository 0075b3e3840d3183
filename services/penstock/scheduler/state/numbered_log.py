"""A list of the latest items that a leader stores: events, log lines. Pure."""

from __future__ import annotations

from collections import Counter
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
    """The latest items, oldest first, and which of them are not stored yet. An item that is too
    many is one of the owner that has most of them, so none pushes out those of all others.
    """

    def __init__(self, max_items: int, owner: Callable[[N], str] = lambda _: "") -> None:
        """`owner` returns whose an item is; by default all are of one."""
        self._max_items, self._owner = max_items, owner
        self._items: list[N] = []
        self._unstored: list[N] = []
        self._next = 1
        self._is_loaded = False

    def load(self, stored: Sequence[N]) -> None:
        """Put the stored items in front of those that were added since this leader began."""
        if self._is_loaded or not stored:
            self._is_loaded = True
            return
        # an entry has items of one owner, so entries overlap
        ordered = sorted(stored, key=lambda one: one.number)
        self._is_loaded, first = True, ordered[-1].number + _TERM_GAP
        added = [replace(one, number=first + at) for at, one in enumerate(self._unstored)]
        self._items = self._without_surplus([*ordered, *added])
        self._unstored = added
        self._next = first + len(added)

    def append(self, items: Iterable[N]) -> None:
        """Add items, which get their numbers."""
        for item in items:
            numbered = replace(item, number=self._next)
            self._next += 1
            self._items.append(numbered)
            self._unstored.append(numbered)
        self._items = self._without_surplus(self._items)
        self._unstored = self._without_surplus(self._unstored)

    def select(self, matches: Callable[[N], bool], limit: int) -> list[N]:
        """Return the latest items that match."""
        found = [item for item in self._items if matches(item)]
        return found[-limit:] if limit else []

    def take_unstored(self) -> list[list[N]]:
        """Return the items to store, in entries of one owner each. `record_stored` comes after the
        write.
        """
        by_owner: dict[str, list[N]] = {}
        for item in self._unstored:
            by_owner.setdefault(self._owner(item), []).append(item)
        size = MAX_STORED_ITEMS
        return [
            items[at : at + size]
            for items in by_owner.values()
            for at in range(0, len(items), size)
        ]

    def record_stored(self, items: Sequence[N]) -> None:
        """Record that items are stored."""
        stored = {item.number for item in items}
        self._unstored = [item for item in self._unstored if item.number not in stored]

    def _without_surplus(self, items: list[N]) -> list[N]:
        """Return items without the oldest ones of the owners that have most."""
        surplus = len(items) - self._max_items
        if surplus <= 0:
            return items
        counts = Counter(map(self._owner, items))
        dropped = Counter[str]()
        for _ in range(surplus):
            owner = max(counts, key=counts.__getitem__)
            counts[owner] -= 1
            dropped[owner] += 1
        kept: list[N] = []
        for item in items:
            owner = self._owner(item)
            if dropped[owner]:
                dropped[owner] -= 1
            else:
                kept.append(item)
        return kept
