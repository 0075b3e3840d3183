"""Objects of authors that change rows: made when they are needed, kept for the next call.

A call is a batch, and making an object may take long (it may load a model), so one that is free is
given to the next call with the same configuration.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from penstock_connector._connector import Connector

_IDLE_MOST: Final = 32
"""Free objects that are kept, the latest used; each may hold connections and memory (invariant
12)."""

T = TypeVar("T", bound=Connector[Any])


class Seats:
    """Free objects by what they were made for."""

    def __init__(self) -> None:
        self._free: OrderedDict[int, tuple[bytes, Connector[Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: bytes, make: Callable[[], T]) -> T:
        """Return a free object that was made for this, or a new one. It is the caller's alone."""
        with self._lock:
            for seat, (made_for, free) in reversed(self._free.items()):
                if made_for == key:
                    del self._free[seat]
                    return free  # type: ignore[return-value] # the key says what it is
        return make()

    def give(self, key: bytes, used: Connector[Any]) -> None:
        """Take an object back that did well."""
        with self._lock:
            self._free[id(used)] = key, used
            over = len(self._free) > _IDLE_MOST
            evicted = self._free.popitem(last=False)[1][1] if over else None
        if evicted is not None:
            drop(evicted)

    def close(self) -> None:
        """Let all free objects go."""
        with self._lock:
            free, self._free = self._free, OrderedDict()
        for _, idle in free.values():
            drop(idle)


def drop(used: Connector[Any]) -> None:
    """Let an object go; what its `close` raises has nobody to go to."""
    with contextlib.suppress(Exception):
        used.close()
