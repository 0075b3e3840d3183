"""Who runs next, when the engine is busy: the micro-batch that has waited longest. Pure asyncio, no
Spark.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(order=True, slots=True)
class _Waiting:
    """A place in the queue: the largest lag first, then the first to come."""

    rank: tuple[float, int]
    owner: str = field(compare=False)
    turn: asyncio.Future[None] = field(compare=False)


class Gate:
    """Lets a bounded number in, those with the largest lag first.

    Spark's own fair pools were uneven with 50 busy threads; a queue before them is fair and costs
    nothing. Lag grows while one waits, for all alike, so their order never changes.
    """

    def __init__(self, width: int) -> None:
        """Let `width` in at once."""
        self._free = width
        self._waiting: list[_Waiting] = []
        self._order = 0

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(1 for entry in self._waiting if not entry.turn.done())

    @asynccontextmanager
    async def enter(self, lag: float, owner: str = "") -> AsyncIterator[None]:
        """Wait for a place; `lag` is how long, in seconds, the rows have waited already."""
        await self._acquire(lag, owner)
        try:
            yield
        finally:
            self._release()

    def widen(self, by: int) -> None:
        """Let so many more in at once, or fewer when it is negative: those who are in stay."""
        self._free += by
        while self._free > 0 and self._waiting:
            self._free -= 1
            self._hand_over()

    def expel(self, owner: str, error: Exception) -> None:
        """Let an owner's waits fail. Those who are in are not touched."""
        for entry in self._waiting:
            if entry.owner == owner and not entry.turn.done():
                entry.turn.set_exception(error)

    async def _acquire(self, lag: float, owner: str) -> None:
        if self._free > 0:
            self._free -= 1
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._order += 1
        # who comes later with the same lag has waited less by the time between
        heapq.heappush(self._waiting, _Waiting((loop.time() - lag, self._order), owner, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._release()  # the place had been given already
            raise

    def _release(self) -> None:
        if self._free < 0:  # there are fewer places than were given away
            self._free += 1
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        while self._waiting:
            entry = heapq.heappop(self._waiting)
            if not entry.turn.done():
                entry.turn.set_result(None)
                return
        self._free += 1
