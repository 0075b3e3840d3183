"""A simple `Sink` as a transactional one: the SDK keeps its rows in memory until Prepare."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock_connector._errors import DataError, RetriableError
from penstock_connector._sink import Refused, Sink, Staging, TransactionalSink


class Budget:
    """Bytes that stagings may hold together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Take bytes; refused when there are not enough (invariant 12)."""
        with self._lock:
            if self._used and self._used + size > self._most:
                raise RetriableError(
                    "sink.staging.full",
                    f"more than {self._most} bytes of rows wait to be prepared",
                    fix="Lower the connector's batch size, raise staging_bytes, "
                    "or write a TransactionalSink that stages on disk.",
                )
            self._used += size

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._lock:
            self._used -= size


class MemoryStaging:
    """Rows of one slot and attempt, in memory."""

    def __init__(self, sink: Sink[Any], dataset: str, budget: Budget) -> None:
        self.dataset = dataset
        self.batches: list[pa.RecordBatch] = []
        self._sink = sink
        self._budget = budget
        self._size = 0

    def put(self, rows: pa.RecordBatch) -> Refused:
        """Keep rows, but for those that the sink refuses."""
        refused = self._sink.check_batch(self.dataset, rows)
        kept = without(rows, refused)
        self._budget.take(kept.nbytes)
        self._size += kept.nbytes
        self.batches.append(kept)
        return refused

    def close(self) -> None:
        """Nothing to do: rows are kept until they are written or discarded."""

    def discard(self) -> None:
        """Let the rows go."""
        self.batches.clear()
        self._budget.give(self._size)
        self._size = 0


class SimpleSink(TransactionalSink[Any]):
    """Writes staged rows through a `Sink` when the transaction is prepared.

    The rows are then durable before the offset is (invariant 1), so Commit has nothing left to do;
    a crash in between writes them again: at least once.
    """

    def __init__(self, sink: Sink[Any]) -> None:
        super().__init__()
        self.stopping, self.metrics = sink.stopping, sink.metrics
        self._sink = sink
        self._budget = Budget(sink.staging_bytes)

    def init(self, config: Any) -> None:
        """Take the configuration."""
        self._sink.init(config)

    def connect(self, task_id: str, epoch: int) -> None:
        """Open what is needed to write."""
        del task_id, epoch
        self._sink.connect()

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a place."""
        return self._sink.columns(dataset)

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Get ready for rows of a schema."""
        return self._sink.apply_schema(dataset, schema, key_columns)

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place in memory."""
        del txn_id, slot, attempt, schema
        return MemoryStaging(self._sink, dataset, self._budget)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Write and flush, in order."""
        del epoch, token
        for staging in staged:
            assert isinstance(staging, MemoryStaging)  # noqa: S101 - for the type checker
            for rows in staging.batches:
                self._write(txn_id, staging.dataset, rows)
        self._sink.flush()
        for staging in staged:
            staging.discard()
        return b""

    def _write(self, txn_id: int, dataset: str, rows: pa.RecordBatch) -> None:
        refused = self._sink.write_batch(dataset, rows)
        if refused:
            (row, error), *_ = refused
            # The rows were taken when they were put, so they can reach no dead letters any more:
            # failing is what keeps them from being in neither (invariant 5).
            raise DataError(
                "sink.rows.refused",
                f"{len(refused)} rows of transaction {txn_id} were refused while writing; "
                f"the first is row {row}: {error}",
                fix="Name rows that can be skipped in check_batch.",
                dataset=dataset,
            ) from error

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Nothing to do: prepare made the rows visible."""
        del txn_id, epoch, state

    def close(self) -> None:
        """Let go of everything."""
        self._sink.close()


def without(rows: pa.RecordBatch, refused: Refused) -> pa.RecordBatch:
    """Return rows but for the refused ones."""
    if not refused:
        return rows
    bad = {row for row, _ in refused}
    return rows.filter(pa.array([row not in bad for row in range(rows.num_rows)]))
