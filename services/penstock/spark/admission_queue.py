"""Decides which micro-batch runs next when the engine is busy: the one that has waited longest.

Pure asyncio, without Spark.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(order=True, slots=True)
class _Waiting:
    """An entry of the queue, ordered by largest lag, then by arrival."""

    rank: tuple[float, int]
    owner: str = field(compare=False)
    turn: asyncio.Future[None] = field(compare=False)


class AdmissionQueue:
    """Admits a bounded number of owners at a time, those with the largest lag first.

    Spark's own fair pools were uneven with 50 busy threads; a queue before them is fair and costs
    nothing. The lag of all waiting entries grows alike, so their order never changes.
    """

    def __init__(self, capacity: int) -> None:
        """Admit `capacity` owners at a time."""
        self._free = capacity
        self._entries: list[_Waiting] = []
        self._arrivals = 0

    @property
    def waiting(self) -> int:
        """Number of entries that wait."""
        return sum(1 for entry in self._entries if not entry.turn.done())

    @property
    def has_place(self) -> bool:
        """Whether the next owner need not wait."""
        return self._free > 0

    @asynccontextmanager
    async def admit(self, lag_s: float, owner: str = "") -> AsyncIterator[None]:
        """Wait for a place, and hold it in the body. `lag_s` is how long the rows have waited."""
        await self._acquire(lag_s, owner)
        try:
            yield
        finally:
            self._release()

    def change_capacity(self, by: int) -> None:
        """Admit more owners at a time, or fewer when `by` is negative. Admitted ones stay."""
        self._free += by
        while self._free > 0 and self._entries:
            self._free -= 1
            self._pass_on()

    def fail_waiting(self, owner: str, error: Exception) -> None:
        """Raise an error in all waits of an owner. Admitted ones stay."""
        for entry in self._entries:
            if entry.owner == owner and not entry.turn.done():
                entry.turn.set_exception(error)

    async def _acquire(self, lag_s: float, owner: str) -> None:
        if self._free > 0:
            self._free -= 1
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._arrivals += 1
        # of two entries with the same lag, the later one has waited less by the time between
        heapq.heappush(self._entries, _Waiting((loop.time() - lag_s, self._arrivals), owner, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._release()  # the place had been given already
            raise

    def _release(self) -> None:
        if self._free < 0:  # the capacity has shrunk below the number of admitted owners
            self._free += 1
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._entries:
            entry = heapq.heappop(self._entries)
            if not entry.turn.done():
                entry.turn.set_result(None)
                return
        self._free += 1
