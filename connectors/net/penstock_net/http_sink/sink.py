"""`http-sink`: the task."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar

import pyarrow as pa

from penstock_connector import (
    CommitMode,
    FailedRowsError,
    SchemaError,
    Staging,
    TransactionalSink,
)
from penstock_connector.staging import Budget, MemoryStaging
from penstock_net.http_sink.bodies import Bodies, Part
from penstock_net.http_sink.config import HttpSinkConfig
from penstock_net.http_sink.sending import Sender
from penstock_net.http_sink.template import ROW, TOPIC
from penstock_net.web.login import Caller


class HttpSink(TransactionalSink[HttpSinkConfig]):
    """Rows as requests.

    Sends one request for each row or for several, in their order. At least once: after a crash
    rows that were sent come again, unless the other side knows them by their key.
    """

    name = "http-sink"
    title = "Rows as requests to web APIs"
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.HOST,)
    reports_failed_rows = True

    @classmethod
    def check(cls, config: HttpSinkConfig) -> None:
        """Log in and connect. No request: there is none that changes nothing everywhere."""
        caller = Caller(config)
        try:
            caller.reach(config.url)
        finally:
            caller.close()

    def connect(self, task_id: str, epoch: int) -> None:
        """Get ready to send."""
        self._bodies = Bodies(self.config)
        self._budget = Budget(
            self.config.staging_bytes,
            "http.staging_full",
            "Lower `batch.max.bytes` of the connector, or raise `staging.bytes`.",
        )
        # a number names a request within one life only: another life divides rows in another way
        name = f"{task_id}-{epoch}"
        self._sender = Sender(self.config, self._bodies, name, self.stopping)

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Refuse rows without the columns that addresses, bodies and the order need."""
        missing = self._bodies.columns - {*schema.names, TOPIC, ROW}
        if missing:
            raise SchemaError(
                "http.no_column",
                f"rows of {dataset!r} have no column {', '.join(sorted(missing))}",
                fix="Correct `url`, `body`, `idempotency.key` or `order.columns`.",
                dataset=dataset,
            )
        return None

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place in memory."""
        refused = functools.partial(self._bodies.refused, dataset=dataset)
        numbered = self.tolerates_failed_rows
        return MemoryStaging(dataset, refused, self._budget, numbered=numbered)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Send: rows are at the other side before their offset is stored (invariant 1)."""
        stagings = [staging for staging in staged if isinstance(staging, MemoryStaging)]
        parts = [
            Part(staging, rows, numbers)
            for staging in stagings
            for rows, numbers in zip_longest(staging.batches, staging.numbers)
        ]
        refused, unsent = self._sender.send(txn_id, parts)
        for staging in stagings:
            if unsent:  # they are left for the next call
                put = {number for part in staging.numbers for number in part.to_pylist()}
                staging.leave_out({number for number in put if (staging, number) not in unsent})
            else:
                staging.discard()
        if refused:
            raise FailedRowsError(refused)
        return b""

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Let go of all connections."""
        if hasattr(self, "_sender"):
            self._sender.close()
            self._bodies.close()
