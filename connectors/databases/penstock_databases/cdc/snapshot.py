"""Chunks in order: which are read now, and which rows come next."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Generic

from penstock_connector import RetriableError
from penstock_connector.connection import Retry
from penstock_databases.cdc.chunks import Chunk, Piece, StalledError
from penstock_databases.cdc.progress import Key, P, Progress, T, Work

_JOIN_S: Final = 10.0
"""Seconds that threads have to end. They look every 0.2 s, but for a statement that runs."""


def is_retriable(error: BaseException) -> bool:
    """Whether a chunk that failed so is read again."""
    return isinstance(error, RetriableError)


class Snapshot(Generic[T, P]):
    """Reads the tables that `progress` says are left, a few chunks at a time.

    Chunks of a table are given in their order. The next one begins as soon as the end of the one
    before is known, whether its rows were read or not. What comes in the log after a chunk's place
    is to be given after the chunk's rows: while a chunk is read the log must not be read past it.
    """

    def __init__(
        self,
        progress: Progress[T, P],
        connect: Callable[[], Any],
        *,
        parallelism: int,
        windows_most: int,
        retry: Retry,
        retriable: Callable[[BaseException], bool] = is_retriable,
    ) -> None:
        """Take what is left to read.

        Args:
            progress: The tables. A chunk whose table is taken out of it is given up.
            connect: Opens a session for chunks.
            parallelism: Chunks that are read at once.
            windows_most: Windows that may be open; then the snapshot waits for the log.
            retry: When chunks are read again that fail one after the other.
            retriable: Whether a failure may pass.
        """
        self._progress = progress
        self._connect = connect
        self._parallelism, self._windows_most = parallelism, windows_most
        self._retry, self._retriable = retry, retriable
        self._chunks: list[Chunk[T, P]] = []
        self._idle: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._failures = 0
        self._not_before = 0.0
        self._lock = threading.Lock()

    @property
    def active(self) -> bool:
        """Whether anything is left to read."""
        return bool(self._progress.work)

    @property
    def exhausted(self) -> bool:
        """Whether the last failure was one too many."""
        return self._failures >= self._retry.attempts

    @property
    def chunks(self) -> list[Chunk[T, P]]:
        """The chunks that are read now."""
        for chunk in self._chunks:
            if self._progress.work.get(chunk.table) is not chunk.work:
                chunk.cancelled.set()
        self._chunks = [chunk for chunk in self._chunks if not chunk.cancelled.is_set()]
        return list(self._chunks)

    @property
    def waits(self) -> bool:
        """Whether a chunk could be begun."""
        return self._startable() is not None

    def limit(self, number: int) -> int | None:
        """Return how far the log may be read; `number` is where it was read up to."""
        limits = [chunk.place.number if chunk.place else number for chunk in self.chunks]
        return min(limits, default=None)

    def start(self, make: Callable[[Work[T], Key | None], Chunk[T, P]]) -> None:
        """Begin to read chunks, as many as may be read at once.

        Args:
            make: Returns the chunk of a table that begins after a key.
        """
        while (found := self._startable()) is not None:
            chunk = make(*found)
            self._chunks.append(chunk)
            name = f"snapshot-{chunk.table}"[:40]
            thread = threading.Thread(target=self._run, args=(chunk,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if self._idle and not self.active:
            self._close_idle()

    def next(self) -> tuple[Chunk[T, P], Piece[T, P] | None] | None:
        """Return the next rows that are here; without rows when their table is gone.

        Raises:
            ConnectorError: A chunk failed, for the last time.
        """
        seen: set[T] = set()
        for chunk in self.chunks:
            if chunk.table in seen:
                continue
            seen.add(chunk.table)
            ended = chunk.ended  # before looking: what comes between is seen next time
            with contextlib.suppress(queue.Empty):
                piece = chunk.pieces.get_nowait()
                self._failures = 0
                upto = piece.window.upto
                if piece.done or (upto is not None and upto == chunk.upto):
                    self._chunks.remove(chunk)  # the log may go on
                return chunk, piece
            if not ended:
                continue
            self._chunks.remove(chunk)
            if chunk.gone:
                return chunk, None
            if chunk.error is not None:
                self._failed(chunk.table, chunk.error)
        return None

    def cancel(self) -> None:
        """Give up all chunks. What was not given of them is read again."""
        for chunk in self._chunks:
            chunk.cancelled.set()
        self._chunks.clear()
        self._close_idle()

    def close(self) -> None:
        """End all threads and sessions."""
        self.cancel()
        for thread in self._threads:
            thread.join(_JOIN_S)
        self._close_idle()

    def _startable(self) -> tuple[Work[T], Key | None] | None:
        """Return the table of the next chunk, and the key after which it begins."""
        chunks = self.chunks
        if (
            self._progress.paused
            or len(chunks) >= self._parallelism
            or len(self._progress.windows) >= self._windows_most
            or time.monotonic() < self._not_before
        ):
            return None
        for work in self._progress.work.values():
            mine = [chunk for chunk in chunks if chunk.work is work]
            if not mine:
                return work, work.last
            if mine[-1].bounded and mine[-1].upto is not None:
                return work, mine[-1].upto
        return None

    def _run(self, chunk: Chunk[T, P]) -> None:
        """Read a chunk over a session that is kept for the next one (in its thread)."""
        try:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            connection = connection or self._connect()
        except BaseException as error:  # noqa: BLE001 - raised again by `next`
            chunk.fail(error)
            return
        chunk.run(connection)
        why = chunk.error
        clean = why is None or (isinstance(why, StalledError) and why.keeps_session)
        if clean and not chunk.cancelled.is_set():
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()

    def _failed(self, table: T, error: BaseException) -> None:
        """Read a table again from the last rows that were given, unless that failed too often."""
        for chunk in self._chunks:
            if chunk.table == table:
                chunk.cancelled.set()
        if isinstance(error, StalledError):
            self._not_before = time.monotonic() + error.pause_s
            return
        self._failures += 1
        if not self._retriable(error) or self.exhausted:
            raise error
        self._not_before = time.monotonic() + self._retry.pause_s(self._failures)

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
