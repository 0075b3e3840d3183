"""The order of a commit: sink durable → offset durable (fenced) → source told.

Rows become visible after the offset is durable, where prepared state is stored with it; before,
where the sink itself keeps the offsets.

One commit is under way at a time, in order of transaction, while the next micro-batch is already in
Spark. This is where invariants 1 and 2 are upheld; each step has a fault point before and after it,
and `break` at a fault point skips the invariant on purpose, so that a test can see the checker turn
red.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.trace import INVALID_SPAN, Span

from penstock.model import faults
from penstock.model.connector import CommitMode
from penstock.model.identity import canonical_json
from penstock.model.stream import Offsets, PreparedTxn
from penstock.rpc.tracing import failed, span, within
from penstock.worker.ports import WriteStream
from penstock.worker.task.batching import MicroBatch
from penstock.worker.task.execution import Moved
from penstock.worker.task.source_acks import Telling

APPLIED_BY_HOST = frozenset({CommitMode.TWO_PHASE})
"""Modes in which the prepared state is stored with the offsets, to be applied again after a crash.
In SINK mode its number is, so that a token of the sink that is known already can be told."""


class OffsetWriter(Protocol):
    """The offset service, as one task at one epoch sees it."""

    async def commit(
        self, offsets: Offsets, prepared: PreparedTxn | None, applied_txn_id: int
    ) -> None:
        """Store offsets and prepared state in one fenced write."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A micro-batch whose rows have reached the write end. `moved` None: it had no rows. `trace`
    began with it, and ends with its commit.
    """

    txn_id: int
    batch: MicroBatch
    moved: Moved | None
    trace: Span = INVALID_SPAN


class Commits:
    """The commits of one run of a task."""

    def __init__(
        self,
        telling: Telling,
        writer: WriteStream,
        offsets: OffsetWriter,
        mode: CommitMode,
        applied: int,
        on_commit: Callable[[Finished, float], None],
    ) -> None:
        """Take the ends. `applied` is the last transaction known to be visible; `on_commit` is told
        of each commit, and the seconds that it took.
        """
        self._telling, self._writer, self._offsets = telling, writer, offsets
        self._mode = mode
        self._applied = applied
        self._on_commit = on_commit
        self._queue: asyncio.Queue[Finished] = asyncio.Queue(maxsize=1)  # invariant 12

    async def submit(self, finished: Finished) -> None:
        """Hand a micro-batch over; waits while an earlier one is waiting."""
        await self._queue.put(finished)

    async def settle(self) -> None:
        """Wait until all that was submitted is committed."""
        await self._queue.join()

    async def run(self) -> None:
        """Commit what is submitted, until cancelled. An error ends the run of the task."""
        while True:
            finished = await self._queue.get()
            began = time.monotonic()
            try:
                with within(finished.trace):
                    await self._commit(finished)
            except Exception as error:
                finished.trace.set_status(failed(error))
                raise
            finally:
                finished.trace.end()
            self._on_commit(finished, time.monotonic() - began)
            self._queue.task_done()

    async def _commit(self, finished: Finished) -> None:
        checkpoint, offsets = finished.batch.checkpoint_id, finished.batch.offsets
        if faults.hit("worker.ack_order"):  # broken on purpose: the source is told first
            await self._telling.tell(checkpoint)
        if faults.hit("worker.commit_order"):  # broken on purpose: offsets before rows
            await self._offsets.commit(offsets, None, self._applied)
            faults.hit("worker.offset_committed")
        prepared = await self._write(finished)
        by_host = self._mode in APPLIED_BY_HOST
        if prepared is not None and not by_host:
            await self._show(finished)  # nobody would apply it again after a crash (invariant 1)
        await self._store(finished, prepared)
        if prepared is not None and by_host:
            await self._show(finished)
        faults.hit("worker.acking")
        with span("worker.tell_source"):
            await self._telling.tell(checkpoint)  # invariant 2: after the offset is durable
        faults.hit("worker.acked")

    async def _write(self, finished: Finished) -> PreparedTxn | None:
        """Make the rows durable at the write end (invariant 1: before any offset is)."""
        if finished.moved is None and self._mode is not CommitMode.SINK:
            return None
        slots = finished.moved.slots if finished.moved else ()
        offsets = finished.batch.offsets
        token = canonical_json(offsets).encode()
        faults.hit("worker.sink_writing")
        with span("worker.prepare", slots=len(slots)):
            prepared = await self._writer.prepare(finished.txn_id, slots, token, offsets)
        faults.hit("worker.sink_written")
        return prepared

    async def _show(self, finished: Finished) -> None:
        with span("worker.commit"):
            await self._writer.commit(finished.txn_id)
        self._applied = finished.txn_id
        faults.hit("worker.txn_committed")

    async def _store(self, finished: Finished, prepared: PreparedTxn | None) -> None:
        stored = prepared if self._mode in APPLIED_BY_HOST else None
        if self._mode is CommitMode.SINK and prepared is not None:
            stored = PreparedTxn(prepared.txn_id, prepared.epoch)
        await faults.reach("worker.offset_committing")
        with span("worker.store_offsets", partitions=len(finished.batch.offsets)):
            await self._offsets.commit(finished.batch.offsets, stored, self._applied)
        faults.hit("worker.offset_committed")
