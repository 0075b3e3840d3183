"""Who runs next, when the engine is busy: the micro-batch that has waited longest. Pure asyncio, no
Spark.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Gate:
    """Lets a bounded number in, those with the largest lag first.

    Spark's own fair pools were uneven with 50 busy threads; a queue before them is fair and costs
    nothing.
    """

    def __init__(self, width: int) -> None:
        """Let `width` in at once."""
        self._free = width
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = 0

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(1 for _, _, turn in self._waiting if not turn.done())

    @asynccontextmanager
    async def enter(self, lag: float) -> AsyncIterator[None]:
        """Wait for a place; `lag` is how long, in seconds, the rows have waited already."""
        await self._acquire(lag)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, lag: float) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._waiting, (-lag, self._order, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # the place had been given already
            raise

    def _release(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
