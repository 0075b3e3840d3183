"""A clock that moves only when a test advances it, and a sleep that waits for that clock."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class FakeClock:
    """Replaces `time.monotonic` (call the clock) and `asyncio.sleep` (`clock.sleep`)."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self._now

    @property
    def sleepers(self) -> int:
        """Number of sleeping coroutines; a test waits until they sleep before it advances."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Advance the time; wake the coroutines whose sleep has ended, the earliest first.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError("a monotonic clock cannot go back")
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():  # a cancelled sleep is done
                future.set_result(None)

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future
