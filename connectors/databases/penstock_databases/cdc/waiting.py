"""Waits for sockets, for a word from another thread, and for a time that comes again."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import Protocol


class Readable(Protocol):
    """What has a socket."""

    def fileno(self) -> int:
        """Return its number."""


class Bell:
    """Ends waits. Any thread may ring; what rang before a wait ends it at once."""

    def __init__(self) -> None:
        self._heard, self._rung = socket.socketpair()
        self._heard.setblocking(False)
        self._rung.setblocking(False)

    def ring(self) -> None:
        """End the wait that runs, or the next one."""
        with contextlib.suppress(OSError):  # full of rings, or closed: both end waits
            self._rung.send(b"!")

    def wait(self, seconds: float, *others: Readable) -> None:
        """Block until it rings, until there is something to read, or for some time."""
        watched = select.poll()  # select() knows no descriptors above 1023: tasks share a process
        for one in (self._heard, *others):
            watched.register(one, select.POLLIN)
        watched.poll(max(seconds, 0) * 1000)
        with contextlib.suppress(BlockingIOError):
            self._heard.recv(4096)

    def close(self) -> None:
        """Let go of the sockets."""
        self._heard.close()
        self._rung.close()


class Every:
    """Comes due every so many seconds; never with 0."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.again()

    def again(self) -> None:
        """Begin to count anew."""
        self._at = time.monotonic() + self._seconds if self._seconds else float("inf")

    def left(self, now: float) -> float:
        """Return the seconds until then."""
        return self._at - now

    def is_due(self, now: float) -> bool:
        """Return whether it is time; it then counts anew."""
        if now < self._at:
            return False
        self.again()
        return True
