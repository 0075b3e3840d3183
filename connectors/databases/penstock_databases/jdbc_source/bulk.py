"""Mode `bulk`: all rows, each time.

By its primary key a table is read in pieces, each with an offset: a crash goes on inside the pass.
What has none is one statement, and its rows commit as one at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from penstock_connector import Batch
from penstock_connector.tables.columns import Column
from penstock_databases.dialect import Connection
from penstock_databases.jdbc_source.chunk import Chunk
from penstock_databases.jdbc_source.modes import Where, after, order
from penstock_databases.jdbc_source.places import plain
from penstock_databases.jdbc_source.reader import Source
from penstock_databases.jdbc_source.relation import Relation, ordering
from penstock_databases.jdbc_source.session import Session


class BulkReader:
    """See `reader.Reader`."""

    def __init__(self, source: Source, offset: Mapping[str, Any] | None) -> None:
        self._source = source
        self._pass = int((offset or {}).get("pass", 0))
        key = (offset or {}).get("key")
        self._key: tuple[Any, ...] | None = None if key is None else tuple(key)
        self._chunk = Chunk(source.config.batch_max_rows)
        self._stream: Iterator[pa.RecordBatch] | None = None
        self._held: pa.RecordBatch | None = None
        self.more = self.midway = self.caught_up = False

    def renew(self) -> None:
        """Look the relation up again before the next statement."""
        self._source.renew()

    def close(self) -> None:
        """Forget what was being read."""
        self._stream = self._held = None

    def poll(self, session: Session) -> Batch | None:
        """Return the next rows of the pass."""
        connection = session.connection()
        relation = self._source.relation(connection)
        keys = ordering(relation, relation.key)
        if self._stream is None and keys and not relation.limits_itself:
            return self._poll_piece(session, relation, keys)
        return self._poll_stream(connection, relation)

    def _poll_piece(self, session: Session, relation: Relation, keys: tuple[Column, ...]) -> Batch:
        names = [relation.dialect.ordered(column) for column in keys]
        where = Where() if self._key is None else after(names, self._key)
        limit = self._chunk.rows
        sql = relation.select(where.clause + order(names), limit=limit)
        rows = self._source.read(session, sql, where.values)
        self._chunk.learn(rows)
        self.more = rows.num_rows >= limit
        self.caught_up = not self.more
        if self.more:
            self._key = tuple(plain(rows.column(c.name)[-1].as_py()) for c in keys)
            offset: dict[str, Any] = {"pass": self._pass, "key": list(self._key)}
        else:
            offset = self._ended()
        return self._source.batch(rows, offset, session.connection())

    def _poll_stream(self, connection: Connection, relation: Relation) -> Batch:
        """Return the next rows of one long statement; the offset comes with the last of them."""
        if self._stream is None:
            self._source.check(connection)
            self._stream = relation.rows(connection, relation.select(""), ())
            self._held = next(self._stream, None)
        rows, self._held = self._held, next(self._stream, None)
        self.more = self.midway = self._held is not None
        self.caught_up = not self.more
        offset = None if self.more else self._ended()
        if not self.more:
            self._stream = None
        empty = pa.RecordBatch.from_pylist([], pa.schema([]))
        return self._source.batch(empty if rows is None else rows, offset, connection)

    def _ended(self) -> dict[str, Any]:
        self._pass, self._key = self._pass + 1, None
        return {"pass": self._pass}
