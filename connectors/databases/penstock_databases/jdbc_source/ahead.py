"""A large first load: ranges of a whole number, read over several connections, given in order.

The ranges lie side by side, so nothing between them is missed; they are read one after the other
as connections are free, and never more than a few of them ahead of what was taken. No statement
asks for more rows than a batch has: the rest of a range that had more is asked for next.
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
from penstock_connector.tables.columns import Column
from penstock_databases.dialect import Connection
from penstock_databases.jdbc_source.chunk import Chunk
from penstock_databases.jdbc_source.config import JdbcSourceConfig
from penstock_databases.jdbc_source.modes import compared, order
from penstock_databases.jdbc_source.relation import Relation

_SPARSE: Final = 8
"""A range with fewer than one row in so many numbers makes the next one wider."""


@dataclass(slots=True)
class Span:
    """The numbers that are left to ask for."""

    next: int
    last: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """A range that is being read."""

    low: int
    high: int
    most: int
    rows: Future[pa.RecordBatch]


@dataclass(slots=True)
class Ahead:
    """Reads ahead. Used by one thread; its own threads each have a connection."""

    config: JdbcSourceConfig
    relation: Relation
    column: Column
    span: Span
    _width: int = field(init=False)
    _chunk: Chunk = field(init=False)
    _pool: ThreadPoolExecutor = field(init=False)
    _asked: deque[_Asked] = field(init=False)
    _free: list[Connection] = field(init=False)
    _lock: threading.Lock = field(init=False)
    _closed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Start."""
        self._chunk = Chunk(self.config.batch_max_rows)
        self._width = self._chunk.rows
        self._pool = ThreadPoolExecutor(self.config.read_parallelism, "jdbc-ahead")
        self._asked = deque()
        self._free = []
        self._lock = threading.Lock()

    def next(self) -> pa.RecordBatch | None:
        """Return the rows of the next range, which may be none; None at the end."""
        while len(self._asked) <= self.config.read_parallelism and self.span.next <= self.span.last:
            high = min(self.span.next + self._width - 1, self.span.last)
            self._asked.append(self._ask(self.span.next, high))
            self.span.next = high + 1
        if not self._asked:
            return None
        asked = self._asked.popleft()
        try:
            rows = asked.rows.result(self.config.target.read_timeout)
        except TimeoutError as error:
            raise RetriableError(
                "sql.lost", f"{self.config.target}: a range of rows did not come in time"
            ) from error
        self._chunk.learn(rows)
        self._learn(rows.num_rows, asked.high - asked.low + 1)
        if rows.num_rows >= asked.most:
            last = int(rows.column(self.column.name)[-1].as_py())
            if last < asked.high:
                self._asked.appendleft(self._ask(last + 1, asked.high))
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
        """Keep ranges about as large as a batch; where numbers are rare, they grow fast."""
        if rows * _SPARSE < width and self._width <= width:
            self._width = width * 2
        elif rows * 2 > width:
            self._width = self._chunk.rows

    def _ask(self, low: int, high: int) -> _Asked:
        most = self._chunk.rows
        return _Asked(low, high, most, self._pool.submit(self._read, low, high, most))

    def _read(self, low: int, high: int, most: int) -> pa.RecordBatch:
        name = self.relation.dialect.ordered(self.column)
        where = compared(name, ">=", low) & compared(name, "<=", high)
        sql = self.relation.select(where.clause + order([name]), limit=most)
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
