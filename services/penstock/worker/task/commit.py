"""The order of a commit: rows durable at the sink → offset durable (fenced) → source acknowledged.

Rows become visible after the offset is durable where prepared state is stored with the offset, and
before it where the sink itself stores offsets.

One commit is in progress at a time, in order of transaction, while the next micro-batch is already
in Spark. Invariants 1 and 2 are upheld here. Each step has a fault point before and after it;
`break` at a fault point violates the invariant on purpose, so that a test can see its checker fail.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from penstock.connector_config.keys import DLQ_PREFIX
from penstock.model import faults
from penstock.model.connector import CommitMode
from penstock.model.errors import PenstockError
from penstock.model.stream import FailedRowsError, PreparedTxn
from penstock.rpc.traces import error_status, span, use_span
from penstock.worker.ports import SinkWriter
from penstock.worker.task.micro_batches import FinishedBatch
from penstock.worker.task.source_acks import SourceAcks
from penstock.worker.task.task_offsets import OffsetWriter
from penstock_values.identity import canonical_json

APPLIED_BY_HOST = frozenset({CommitMode.TWO_PHASE})
"""Modes in which prepared state is stored with the offsets, to be committed again after a crash. In
the others only the transaction id is stored: a token of the sink can be recognized by it, and the
next run numbers its transactions on from there. So a number never means two transactions, and a
sink can name a row by it (`penstock_id` of rocketmq-sink, `idempotency.key` of http-sink).
"""


class StagedRows(Protocol):
    """The rows of micro-batches that are staged at the sink."""

    async def reject(self, finished: FinishedBatch, error: FailedRowsError) -> FinishedBatch:
        """Make dead letters of rows that failed. Returns the micro-batch without them.

        Raises:
            PenstockError: they are not tolerated.
        """

    async def release(self, finished: FinishedBatch) -> None:
        """Let the source forget the rows of a micro-batch: the sink has prepared them."""


class Commits:
    """The commits of one run of a task. `unwritten` is the transaction that the sink could not
    prepare, and why.
    """

    def __init__(
        self,
        acks: SourceAcks,
        writer: SinkWriter,
        offsets: OffsetWriter,
        mode: CommitMode,
        applied_txn_id: int,
        on_commit: Callable[[FinishedBatch, float], None],
    ) -> None:
        """`applied_txn_id` is the last transaction that is known to be visible. `on_commit` is
        called after each commit, with the seconds that it took.
        """
        self._acks, self._writer, self._offsets = acks, writer, offsets
        self._mode = mode
        self.unwritten: tuple[int, PenstockError] | None = None
        self._offset_seconds = 0.0
        self._storing_since: float | None = None
        self._applied_txn_id = applied_txn_id
        self._on_commit = on_commit
        self._queue: asyncio.Queue[FinishedBatch] = asyncio.Queue(maxsize=1)  # invariant 12

    async def submit(self, finished: FinishedBatch) -> None:
        """Queue a micro-batch. Waits while another one is queued."""
        await self._queue.put(finished)

    def offset_seconds(self) -> float:
        """Return how long offsets took to be stored until now, of all commits."""
        since = self._storing_since
        return self._offset_seconds + (0.0 if since is None else time.monotonic() - since)

    async def settle(self) -> None:
        """Wait until every submitted micro-batch is committed."""
        await self._queue.join()

    async def run(self, staged: StagedRows) -> None:
        """Commit what is submitted, until cancelled. An error ends the run of the task."""
        while True:
            finished = await self._queue.get()
            began = time.monotonic()
            try:
                with use_span(finished.trace):
                    finished = await self._commit(finished, staged)
            except Exception as error:
                finished.trace.set_status(error_status(error))
                raise
            finally:
                finished.trace.end()
            self._on_commit(finished, time.monotonic() - began)
            self._queue.task_done()

    async def _commit(self, finished: FinishedBatch, staged: StagedRows) -> FinishedBatch:
        """Commit a micro-batch. Returns it as it was committed: rows may have failed."""
        checkpoint, offsets = finished.batch.checkpoint_id, finished.batch.offsets
        if faults.hit("worker.ack_order"):  # broken on purpose: the source is acknowledged first
            await self._acks.send(checkpoint)
        if faults.hit("worker.commit_order"):  # broken on purpose: offsets before rows
            await self._offsets.commit(offsets, None, self._applied_txn_id)
            faults.hit("worker.offset_committed")
        finished, prepared = await self._prepare_sink(finished, staged)
        await staged.release(finished)
        by_host = self._mode in APPLIED_BY_HOST
        if prepared is not None and not by_host:
            # nothing would commit it again after a crash (invariant 1)
            await self._commit_sink(finished)
        await self._store_offsets(finished, prepared)
        if prepared is not None and by_host:
            await self._commit_sink(finished)
        faults.hit("worker.acking")
        with span("worker.tell_source"):
            await self._acks.send(checkpoint)  # invariant 2: after the offset is durable
        faults.hit("worker.acked")
        return finished

    async def _prepare_sink(
        self, finished: FinishedBatch, staged: StagedRows
    ) -> tuple[FinishedBatch, PreparedTxn | None]:
        """Make the rows durable at the sink (invariant 1: before any offset is), but for those that
        it can never write, which become dead letters.
        """
        if finished.executed is None and self._mode is not CommitMode.SINK:
            return finished, None
        token = canonical_json(finished.batch.offsets).encode()
        faults.hit("worker.sink_writing")
        prepared = None
        while prepared is None:
            slots = finished.executed.slots if finished.executed else ()
            try:
                with span("worker.prepare", slots=len(slots)):
                    prepared = await self._writer.prepare(finished.txn_id, slots, token)
            except FailedRowsError as error:
                finished = await staged.reject(finished, error)
            except PenstockError as error:
                if not error.diagnostic.config_path.startswith(DLQ_PREFIX):
                    self.unwritten = finished.txn_id, error
                raise
        faults.hit("worker.sink_written")
        return finished, prepared

    async def _commit_sink(self, finished: FinishedBatch) -> None:
        with span("worker.commit"):
            await self._writer.commit(finished.txn_id)
        self._applied_txn_id = finished.txn_id
        faults.hit("worker.txn_committed")

    async def _store_offsets(self, finished: FinishedBatch, prepared: PreparedTxn | None) -> None:
        stored = prepared
        if prepared is not None and self._mode not in APPLIED_BY_HOST:
            stored = PreparedTxn(prepared.txn_id, prepared.epoch)
        await faults.reach("worker.offset_committing")
        self._storing_since = time.monotonic()
        try:
            with span("worker.store_offsets", partitions=len(finished.batch.offsets)):
                await self._offsets.commit(finished.batch.offsets, stored, self._applied_txn_id)
        finally:
            self._offset_seconds, self._storing_since = self.offset_seconds(), None
        faults.hit("worker.offset_committed")
