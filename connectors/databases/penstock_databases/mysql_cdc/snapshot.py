"""Chunks in order: which are read now, and which rows come next."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from penstock_connector import ConnectorError, RetriableError
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.mysql_cdc.chunks import Chunk, Piece, StalledError
from penstock_databases.mysql_cdc.config import MysqlCdcConfig
from penstock_databases.mysql_cdc.progress import WINDOWS_MOST, Key, Progress
from penstock_databases.mysql_cdc.statements import TableName

_JOIN: Final = 10.0
"""Seconds that threads have to end. They look every 0.2 s, but for a statement that runs."""


class Snapshot:
    """Reads the tables that `progress` says are left, a few chunks at a time.

    While a chunk is being read, the log must not be read past its place: whatever comes behind is
    to be given after the chunk's rows (`limit`).
    """

    def __init__(
        self,
        config: MysqlCdcConfig,
        progress: Progress,
        connect: Callable[[], MysqlConnection],
        wake: Callable[[], None],
        *,
        exact: bool,
    ) -> None:
        self._config = config
        self._progress = progress
        self._connect = connect
        self._wake = wake
        self._exact = exact
        self._chunks: list[Chunk] = []
        self._idle: list[MysqlConnection] = []
        self._threads: list[threading.Thread] = []
        self._failures = 0
        self._not_before = 0.0
        self._lock = threading.Lock()

    @property
    def active(self) -> bool:
        """Whether anything is left to read."""
        return bool(self._progress.work)

    def limit(self, number: int) -> int | None:
        """Return how far the log may be read; `number` is where it was read up to."""
        limits = [chunk.place.number if chunk.place else number for chunk in self._chunks]
        return min(limits, default=None)

    def start(self, floor: int) -> None:
        """Begin to read chunks, as many as may be read at once."""
        while (found := self._startable()) is not None:
            self._begin(*found, floor)
        self._threads = [thread for thread in self._threads if thread.is_alive()]

    @property
    def waits(self) -> bool:
        """Whether a chunk could be begun."""
        return self._startable() is not None

    def _startable(self) -> tuple[TableName, Key | None] | None:
        """Return the table of the next chunk, and the key after which it begins."""
        if (
            len(self._chunks) >= self._config.snapshot_parallelism
            or len(self._progress.windows) >= WINDOWS_MOST
            or time.monotonic() < self._not_before
        ):
            return None
        for work in self._progress.work.values():
            mine = [chunk for chunk in self._chunks if chunk.table == work.table]
            if not mine:
                return work.table, work.last
            if mine[-1].bounded and mine[-1].upto is not None:
                return work.table, mine[-1].upto
        return None

    def next(self) -> tuple[TableName, Piece | None] | None:
        """Return the next rows that are here; without rows when a table is gone.

        Raises:
            ConnectorError: A chunk failed, for the last time.
        """
        seen: set[TableName] = set()
        for chunk in list(self._chunks):
            if chunk.table in seen:
                continue  # chunks of a table are given in their order
            seen.add(chunk.table)
            ended = chunk.ended  # before looking: what comes between is seen next time
            with contextlib.suppress(queue.Empty):
                piece = chunk.pieces.get_nowait()
                self._failures = 0
                if piece.done or (piece.upto is not None and piece.upto == chunk.upto):
                    self._chunks.remove(chunk)  # the log may go on
                return chunk.table, piece
            if not ended:
                continue
            self._chunks.remove(chunk)
            if chunk.gone:
                return chunk.table, None
            if chunk.error is not None:
                self._failed(chunk.table, chunk.error)
        return None

    def drop(self, table: TableName) -> None:
        """Forget chunks of a table."""
        for chunk in [one for one in self._chunks if one.table == table]:
            chunk.cancelled.set()
            self._chunks.remove(chunk)

    def close(self) -> None:
        """End all threads and sessions."""
        for chunk in self._chunks:
            chunk.cancelled.set()
        for thread in self._threads:
            thread.join(_JOIN)
        self._chunks.clear()
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def _begin(self, table: TableName, after: Key | None, floor: int) -> None:
        size = self._config.snapshot_fetch_size
        chunk = Chunk(table, after, size, floor, self._exact, self._wake)
        self._chunks.append(chunk)
        thread = threading.Thread(
            target=self._run, args=(chunk,), name=f"snapshot-{table[1][:20]}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _run(self, chunk: Chunk) -> None:
        """Read a chunk over a session that is kept for the next one (in its thread)."""
        connection = None
        try:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            connection = connection or self._connect()
        except BaseException as error:  # noqa: BLE001 - raised again by `next`
            chunk.error, chunk.ended = error, True
            self._wake()
            return
        chunk.run(connection)
        if chunk.error is None:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()

    def _failed(self, table: TableName, error: BaseException) -> None:
        """Read a table again from the last rows that were given, unless that failed too often."""
        self.drop(table)
        if isinstance(error, StalledError):
            return
        self._failures += 1
        again = isinstance(error, RetriableError) or _changed(error)
        if not again or self._failures >= self._config.connection_attempts:
            raise error
        self._not_before = time.monotonic() + self._config.connection_backoff_ms


def _changed(error: BaseException) -> bool:
    """Tell whether a table was altered between the snapshot and its rows."""
    return isinstance(error, ConnectorError) and (
        "(1412)" in error.message or error.code == "sql.no_column"
    )
