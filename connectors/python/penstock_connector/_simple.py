"""A simple `Sink` as a transactional one: the SDK keeps its rows in memory until Prepare."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from penstock_connector._errors import ConnectorError, DataError
from penstock_connector._sink import FailedRowsError, Refused, Sink, Staging, TransactionalSink
from penstock_connector.staging import Budget, MemoryStaging

_MAX_FAILED: Final = 1_000
"""Failed rows after which the host is asked what it wants: the other rows may fail, too."""

_REPORT_AFTER_S: Final = 30.0
"""Seconds after which failed rows are reported before all others are written: the host waits 120 s
for an answer.
"""


class SimpleSink(TransactionalSink[Any]):
    """Writes staged rows through a `Sink` when the transaction is prepared.

    The rows are then durable before the offset is (invariant 1), so Commit has nothing left to do;
    a crash in between writes them again: at least once. Rows that are written leave their staging:
    when failed rows make the host prepare the transaction again, only the others are left.
    """

    reports_failed_rows = True

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
        return MemoryStaging(dataset, check, self._budget, numbered=self.tolerates_failed_rows)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Write and flush, in order."""
        stagings = [staging for staging in staged if isinstance(staging, MemoryStaging)]
        failed = list[tuple[Staging, int, DataError]]()
        until = time.monotonic() + _REPORT_AFTER_S
        for staging in stagings:
            while staging.batches:
                failed += self._write_first(staging)
                if len(failed) >= _MAX_FAILED or (failed and time.monotonic() > until):
                    raise FailedRowsError(failed)
        if failed:
            raise FailedRowsError(failed)
        self._sink.flush()
        for staging in stagings:
            staging.discard()
        return b""

    def _write_first(self, staging: MemoryStaging) -> list[tuple[Staging, int, DataError]]:
        """Write the first batch of a staging, or put its halves in its place. Returns the rows that
        can never be written.
        """
        rows = staging.batches[0]
        try:
            refused = self._sink.write_batch(staging.dataset, rows)
        except DataError as error:
            if not self.tolerates_failed_rows:
                raise
            if rows.num_rows > 1:
                _halve_first(staging)
                return []
            refused = [(0, error)]
        staging.batches.popleft()
        if not self.tolerates_failed_rows:
            _require_all(staging.dataset, refused)
            return []
        numbers = staging.numbers.popleft()
        return [(staging, _number_of(numbers, row), _data_error(why)) for row, why in refused or ()]

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Nothing to do: prepare made the rows visible."""

    def close(self) -> None:
        """Let go of everything."""
        self._sink.close()


def _halve_first(staging: MemoryStaging) -> None:
    """Divide the first batch, so that a row that fails is found."""
    rows, numbers = staging.batches.popleft(), staging.numbers.popleft()
    middle = rows.num_rows // 2
    staging.batches.extendleft((rows.slice(middle), rows.slice(0, middle)))
    staging.numbers.extendleft((numbers.slice(middle), numbers.slice(0, middle)))


def _number_of(numbers: pa.UInt64Array, row: int) -> int:
    if not 0 <= row < len(numbers):
        raise ConnectorError(
            "connector.defect",
            f"`write_batch` names failed row {row} of a batch of {len(numbers)}",
            fix="Return indexes of the batch.",
        )
    number: int = numbers[row].as_py()
    return number


def _data_error(why: Exception) -> DataError:
    """Return why a row can never be written. Another reason ends the transaction."""
    if isinstance(why, DataError):
        return why
    raise why


def _require_all(dataset: str, refused: Refused) -> None:
    if refused:
        (row, error), *_ = refused
        raise DataError(
            "sink.rows.refused",
            f"{len(refused)} rows were refused while writing; the first is row {row}: {error}",
            fix="Correct the rows, or tolerate them with `errors.tolerance=all`: they become dead "
            "letters.",
            dataset=dataset,
        ) from error
