"""A clock that moves only when told, and a sleep that wakes when it has moved far enough."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class FakeClock:
    """Stands in for `time.monotonic` (call it) and for `asyncio.sleep` (`clock.sleep`)."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self._now

    @property
    def sleepers(self) -> int:
        """How many coroutines sleep, so that a test can wait until they do."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move on; whoever slept for no longer wakes, the earliest first.

        Raises:
            ValueError: the time would go back.
        """
        if seconds < 0:
            raise ValueError("a monotonic clock does not go back")
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():  # a cancelled sleep is over already
                future.set_result(None)

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has moved on by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future
