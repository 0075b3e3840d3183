"""A simple `Sink` as a transactional one: the SDK keeps its rows in memory until Prepare."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock_connector._errors import DataError
from penstock_connector._sink import Sink, Staging, TransactionalSink
from penstock_connector.staging import Budget, MemoryStaging


class SimpleSink(TransactionalSink[Any]):
    """Writes staged rows through a `Sink` when the transaction is prepared.

    The rows are then durable before the offset is (invariant 1), so Commit has nothing left to do;
    a crash in between writes them again: at least once.
    """

    def __init__(self, sink: Sink[Any]) -> None:
        super().__init__()
        self.stopping, self.metrics = sink.stopping, sink.metrics
        self._sink = sink
        self._budget = Budget(
            sink.staging_bytes,
            "sink.staging.full",
            "Lower the connector's batch size, raise staging_bytes, or write a TransactionalSink "
            "that stages on disk.",
        )

    def init(self, config: Any) -> None:
        """Take the configuration."""
        self._sink.init(config)

    def connect(self, task_id: str, epoch: int) -> None:
        """Open what is needed to write."""
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
        check = functools.partial(self._sink.check_batch, dataset)
        return MemoryStaging(dataset, check, self._budget)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Write and flush, in order."""
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

    def close(self) -> None:
        """Let go of everything."""
        self._sink.close()
