"""What was read or written last, by key, so that a commit reads nothing.

It may be stale: every write checks the revisions that it was decided from, and a write that fails
makes its keys be forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Known(Generic[_V]):
    """A value at a revision; revision 0 when the key does not exist."""

    revision: int
    value: _V


def _one(_: Any) -> int:
    return 1


class Memory(Generic[_V]):
    """The values of the keys that were used last, up to a weight (invariant 12)."""

    def __init__(self, most: int, weigh: Callable[[_V], int] = _one) -> None:
        """Remember keys whose values weigh `most` together; unweighed, a value weighs 1."""
        self._most, self._weigh = most, weigh
        self._known: OrderedDict[str, Known[_V]] = OrderedDict()
        self._weight = 0

    def get(self, key: str) -> Known[_V] | None:
        """Return what is known of a key."""
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        return known

    def put(self, key: str, known: Known[_V]) -> None:
        """Remember a key; those that were used longest ago go."""
        self.forget((key,))
        self._known[key] = known
        self._weight += self._weigh(known.value)
        while self._weight > self._most:
            _, gone = self._known.popitem(last=False)
            self._weight -= self._weigh(gone.value)

    def forget(self, keys: Iterable[str]) -> None:
        """Let keys be read anew."""
        for key in keys:
            gone = self._known.pop(key, None)
            if gone is not None:
                self._weight -= self._weigh(gone.value)

    def __len__(self) -> int:
        return len(self._known)
