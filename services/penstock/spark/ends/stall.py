"""A call that makes no progress is cancelled, and the error names its stage (invariant 8)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from penstock.model.errors import RetriableError


def stalled(stage: str, seconds: float) -> RetriableError:
    """Return the error of a stage that made no progress for so long."""
    return RetriableError(
        "deadline.exceeded",
        f"stage {stage} made no progress for {seconds:g} s",
        fix="See whether the plugin hangs, or what it talks to; `stall.timeout` sets the time.",
    )


class Stall:
    """Watches one call from a thread of its own, and cancels it when a wait for it takes too long.

    Only time inside `waiting()` counts. A deadline for the whole call would be wrong: a large batch
    into a slow sink takes long and is well, and so is a source whose rows a slow sink holds up.
    """

    def __init__(self, stage: str, seconds: float, cancel: Callable[[], object]) -> None:
        """`cancel` ends the call; it is called at most once, from the watching thread."""
        self.stage, self.seconds = stage, seconds
        self.expired = False
        self._cancel = cancel
        self._since: float | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"stall {stage}", daemon=True)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time until the body is left."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None

    def error(self) -> RetriableError:
        """Return what to raise for a call that was cancelled."""
        return stalled(self.stage, self.seconds)

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
            since = self._since
            left = self.seconds if since is None else since + self.seconds - time.monotonic()
            if left <= 0:
                self.expired = True
                self._cancel()
                return
