"""Rows of a slot that do not count yet: in memory, within a bound."""

from __future__ import annotations

import threading

import pyarrow as pa

from penstock_connector import Refused, RetriableError
from penstock_net.http_sink.bodies import Bodies


class Budget:
    """Bytes of rows that may wait together (invariant 12)."""

    def __init__(self, most: int) -> None:
        self._most, self._used = most, 0
        self._lock = threading.Lock()

    def change(self, size: int) -> None:
        """Take bytes, or give them back."""
        with self._lock:
            if size > 0 and self._used and self._used + size > self._most:
                raise RetriableError(
                    "http.staging_full",
                    f"more than {self._most} bytes of rows wait for their transaction",
                    fix="Lower `batch.max.bytes` of the connector, or raise `staging.bytes`.",
                )
            self._used += size


class HttpStaging:
    """Rows of one attempt at a slot."""

    def __init__(self, dataset: str, bodies: Bodies, budget: Budget) -> None:
        self.dataset = dataset
        self.batches: list[pa.RecordBatch] = []
        self._bodies, self._budget, self._size = bodies, budget, 0

    def put(self, rows: pa.RecordBatch) -> Refused:
        """Keep rows, but for those of which no request can be made."""
        refused = self._bodies.refused(rows, self.dataset)
        bad = {row for row, _ in refused}
        if bad:
            rows = rows.filter(pa.array([row not in bad for row in range(rows.num_rows)]))
        self._budget.change(rows.nbytes)
        self._size += rows.nbytes
        self.batches.append(rows)
        return refused

    def close(self) -> None:
        """Nothing is open."""

    def discard(self) -> None:
        """Let the rows go."""
        self.batches.clear()
        self._budget.change(-self._size)
        self._size = 0
