"""When a process is of no use any more: no call and no stream for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Idleness:
    """Counts who uses something, and tells once nobody has for some seconds."""

    def __init__(self) -> None:
        self._users = 0
        self._seconds = 0.0
        self._then: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` when nobody has used it for so long, from now on."""
        self._seconds, self._then = seconds, then
        self.touch()

    def touch(self) -> None:
        """Note that somebody is about to use it: the time begins anew."""
        self._cancel()
        if self._then and not self._users:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._then)

    def begin(self) -> None:
        """Note a user; `end` is called for it."""
        self._users += 1
        self._cancel()

    def end(self, *_: Any) -> None:
        """Note that a user is done."""
        self._users -= 1
        self.touch()

    def close(self) -> None:
        """Tell nobody any more."""
        self._then = None
        self._cancel()

    def _cancel(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None
