"""A call that makes no progress is cancelled, and the error names its stage (invariant 8)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from penstock.model.errors import RetriableError


class Stall:
    """Watches one call from a thread of its own: `progress()` resets the time.

    A deadline for the whole call would be wrong: a large batch into a slow sink takes long and is
    well.
    """

    def __init__(
        self,
        stage: str,
        seconds: float,
        cancel: Callable[[], object],
        owes: Callable[[], bool] = lambda: True,
    ) -> None:
        """`cancel` ends the call; it is called at most once, from the watching thread.

        `owes` tells whether the peer is the one to move: time in which it is not does not count.
        """
        self._owes = owes
        self.stage, self.seconds = stage, seconds
        self.stalled = False
        self._cancel = cancel
        self._last = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"stall {stage}", daemon=True)

    def progress(self) -> None:
        """Note that the call moved on."""
        self._last = time.monotonic()

    def error(self) -> RetriableError:
        """Return what to raise for a call that was cancelled for stalling."""
        return RetriableError(
            "deadline.exceeded",
            f"stage {self.stage} made no progress for {self.seconds:g} s",
            fix="See whether the plugin hangs, or what it talks to; `stall.timeout` sets the time.",
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()

    def _watch(self) -> None:
        left = self.seconds
        while not self._done.wait(left):
            if not self._owes():
                self.progress()
            left = self._last + self.seconds - time.monotonic()
            if left <= 0:
                self.stalled = True
                self._cancel()
                return
