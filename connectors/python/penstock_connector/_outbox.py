"""From a task's thread to the event loop: a bounded queue of frames."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Final, Generic, TypeVar

F = TypeVar("F")

_MOST: Final = 1024
"""Frames that may wait. Batches are bounded by credit already; this bounds the small frames beside
them (checkpoints, bad rows) when the host reads slowly."""


class Outbox(Generic[F]):
    """One thread puts, the loop gets. A burst of frames wakes the loop once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._frames: deque[F] = deque()
        self._arrived = asyncio.Event()
        self._room = threading.Condition()
        self._signalled = False
        self._closed = False
        self.error: BaseException | None = None

    def put(self, *frames: F) -> None:
        """Queue frames, in order; block while the host reads slower than the source."""
        with self._room:
            while len(self._frames) >= _MOST and not self._closed:
                self._room.wait()
            self._frames.extend(frames)
        self._signal()

    def finish(self, error: BaseException | None = None) -> None:
        """End it: nothing is put after this."""
        self.error = self.error or error
        self._closed = True
        self._signalled = False
        self._signal()

    def cancel(self) -> None:
        """Let a blocked `put` go on: nobody gets any more."""
        with self._room:
            self._closed = True
            self._room.notify_all()
        self._signal()

    async def get(self) -> list[F] | None:
        """Wait for frames; None when it is finished and empty."""
        await self._arrived.wait()
        self._arrived.clear()
        self._signalled = False
        with self._room:
            frames = list(self._frames)
            self._frames.clear()
            self._room.notify_all()
        if self._closed:
            self._arrived.set()  # the next get finds the end without another signal
            return frames or None
        return frames

    def _signal(self) -> None:
        if self._signalled:
            return
        self._signalled = True
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:
            self._closed = True  # the loop is closed: the process is ending
