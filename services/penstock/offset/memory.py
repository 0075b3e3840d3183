"""What was read or written last, by key, so that a commit reads nothing.

It may be stale: every write checks the revisions that it was decided from, and a write that fails
makes its keys be forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Known(Generic[_V]):
    """A value at a revision; revision 0 when the key does not exist."""

    revision: int
    value: _V


class Memory(Generic[_V]):
    """The values of the keys that were used last, at most a number of them (invariant 12)."""

    def __init__(self, most: int) -> None:
        """Remember `most` keys."""
        self._most = most
        self._known: OrderedDict[str, Known[_V]] = OrderedDict()

    def get(self, key: str) -> Known[_V] | None:
        """Return what is known of a key."""
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        return known

    def put(self, key: str, known: Known[_V]) -> None:
        """Remember a key; the one that was used longest ago goes."""
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, keys: Iterable[str]) -> None:
        """Let keys be read anew."""
        for key in keys:
            self._known.pop(key, None)

    def __len__(self) -> int:
        return len(self._known)
