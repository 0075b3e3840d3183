"""A large first load: ranges of a whole number, read over several connections, given in order.

The ranges lie side by side, so nothing between them is missed; they are read one after the other
as connections are free, and never more than a few of them ahead of what was taken.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from penstock_connector import RetriableError
from penstock_databases.dialect import Connection
from penstock_databases.jdbc_source.chunk import Chunk
from penstock_databases.jdbc_source.config import JdbcSourceConfig
from penstock_databases.jdbc_source.modes import compared, order
from penstock_databases.jdbc_source.relation import Relation

_SPARSE: Final = 8
"""A range with fewer than one row in so many numbers makes the next one wider."""

_WIDEST: Final = 1 << 40


@dataclass(slots=True)
class Span:
    """The numbers that are left to ask for."""

    next: int
    last: int


@dataclass(slots=True)
class Ahead:
    """Reads ahead. Used by one thread; its own threads each have a connection."""

    config: JdbcSourceConfig
    relation: Relation
    name: str
    span: Span
    _width: int = field(init=False)
    _chunk: Chunk = field(init=False)
    _pool: ThreadPoolExecutor = field(init=False)
    _futures: deque[tuple[Future[pa.RecordBatch], int]] = field(init=False)
    _free: list[Connection] = field(init=False)
    _lock: threading.Lock = field(init=False)
    _closed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Start."""
        self._chunk = Chunk(self.config.batch_max_rows)
        self._width = self._chunk.rows
        self._pool = ThreadPoolExecutor(self.config.read_parallelism, "jdbc-ahead")
        self._futures = deque()
        self._free = []
        self._lock = threading.Lock()

    def next(self) -> pa.RecordBatch | None:
        """Return the rows of the next range, which may be none; None at the end."""
        while (
            len(self._futures) <= self.config.read_parallelism and self.span.next <= self.span.last
        ):
            high = min(self.span.next + self._width - 1, self.span.last)
            future = self._pool.submit(self._read, self.span.next, high)
            self._futures.append((future, high - self.span.next + 1))
            self.span.next = high + 1
        if not self._futures:
            return None
        future, width = self._futures.popleft()
        try:
            rows = future.result(self.config.target.read_timeout)
        except TimeoutError as error:
            raise RetriableError(
                "sql.lost", f"{self.config.target}: a range of rows did not come in time"
            ) from error
        self._chunk.learn(rows)
        self._learn(rows.num_rows, width)
        return rows

    def close(self) -> None:
        """End it: connections close when their statement is done."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _learn(self, rows: int, width: int) -> None:
        """Keep ranges about as large as a batch: a range never has more rows than numbers."""
        if rows * _SPARSE < width and self._width <= width:
            self._width = min(width * 2, _WIDEST)
        elif rows * 2 > width:
            self._width = self._chunk.rows

    def _read(self, low: int, high: int) -> pa.RecordBatch:
        where = compared(self.name, ">=", low) & compared(self.name, "<=", high)
        sql = self.relation.select(where.clause + order([self.name]))
        connection = self._take()
        try:
            rows = self.relation.read(connection, sql, where.values)
        except BaseException:
            connection.close()
            raise
        self._give(connection)
        return rows

    def _take(self) -> Connection:
        with self._lock:
            if self._free:
                return self._free.pop()
        return self.config.dialect.connect(self.config.target, self.config.login)

    def _give(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed:
                self._free.append(connection)
                return
        with contextlib.suppress(Exception):
            connection.close()
