"""A run of rows with one time, in a table without a key, that is larger than a batch.

Its rows have no order, so there is no place inside it to go on from: they go out in batches that
commit as one, with the offset of the last.
"""

from __future__ import annotations

import pyarrow as pa

from penstock_databases.dialect import Connection
from penstock_databases.jdbc_source.modes import compared
from penstock_databases.jdbc_source.places import time_value
from penstock_databases.jdbc_source.reader import Source
from penstock_databases.jdbc_source.settling import Look
from penstock_databases.jdbc_source.window import Window, digests


class Run:
    """The rows of one time, streamed.

    Attributes:
        at: The time, in microseconds.
        ended: The last rows were given.
    """

    def __init__(self, source: Source, look: Look, at: int, connection: Connection) -> None:
        source.check(connection)
        relation = source.relation(connection)
        where = compared(look.stamp.sql, "=", time_value(at, look.stamp.form))
        self.at = at
        self.ended = False
        self._stream = relation.rows(connection, relation.select(where.clause), where.values)
        self._held = next(self._stream, None)

    def next(self, window: Window) -> pa.RecordBatch | None:
        """Return the next rows, without those that went out when they were young."""
        rows, self._held = self._held, next(self._stream, None)
        self.ended = self._held is None
        if rows is None or not len(window):
            return rows
        marks = digests(rows, [self.at] * rows.num_rows, ())
        new = window.new(marks)
        window.take_back([mark for mark, is_new in zip(marks, new, strict=True) if not is_new])
        return rows.filter(pa.array(new))
