"""One micro-batch on its way through the engine: with a trace of its own, cut short by a stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from penstock.rpc.tracing import begun, span, within
from penstock.worker.batching import MicroBatch
from penstock.worker.commit import Finished
from penstock.worker.execution import Execution, Moved
from penstock.worker.looking import Looks
from penstock.worker.numbers import Numbers
from penstock.worker.pace import Pace
from penstock.worker.ports import ReadStream
from penstock.worker.run_spec import RunSpec

STOP_GRACE = 1.2
"""Seconds that a micro-batch under way gets when the task is stopped; then its job is cancelled. A
stop must take effect within 2 s, and a cancelled job needs up to 0.5 s to end."""


class Mover:
    """Moves the micro-batches of one run of a task. Its `execution` is told what the read end says
    of schemas and of rows that cannot be read; `pace` says how many rows the next may have.
    """

    def __init__(
        self,
        spec: RunSpec,
        reader: ReadStream,
        looks: Looks,
        numbers: Numbers,
        stopped: asyncio.Event,
        wake: asyncio.Event,
        settle: Callable[[], Awaitable[None]],
    ) -> None:
        """`wake` is set with `stopped`, and at other news; `settle` waits until no commit is under
        way.
        """
        self._spec, self._stopped, self._wake = spec, stopped, wake
        self.pace = Pace(spec.rules.max_rows)
        self.execution = Execution(
            spec.engine,
            reader,
            spec.writer,
            spec.chain,
            task_id=spec.plan.task_id,
            epoch=spec.epoch,
            stall=spec.stall,
            settle=settle,
            looks=looks,
            drift=spec.drift,
            letters=spec.letters(reader),
            retries=replace(spec.retries, again=numbers.retried),
        )

    async def move(self, txn_id: int, batch: MicroBatch) -> Finished | None:
        """Run a micro-batch into a transaction; None when the task was stopped meanwhile."""
        task_id, lag = self._spec.plan.task_id, time.monotonic() - batch.since
        trace = begun("worker.micro_batch", task=task_id, txn=txn_id, rows=batch.rows)
        with within(trace):
            moving = asyncio.ensure_future(self._moved(txn_id, batch, lag))
        try:
            moved = await self._unless_stopped(moving)
        finally:
            if not moving.done():
                moving.cancel()
                self._spec.engine.cancel(task_id)
            if not moving.done() or moving.exception() is not None:
                trace.end()
        return None if moved is None else Finished(txn_id, batch, moved, trace)

    async def _moved(self, txn_id: int, batch: MicroBatch, lag: float) -> Moved:
        with span("worker.move", batches=len(batch.batches)):
            return await self.execution.move(txn_id, batch, lag)

    async def _unless_stopped(self, moving: asyncio.Future[Moved]) -> Moved | None:
        """Wait for a micro-batch; when the task is stopped meanwhile it has `STOP_GRACE` left."""
        while not moving.done() and not self._stopped.is_set():
            self._wake.clear()
            waker = asyncio.ensure_future(self._wake.wait())
            either: set[asyncio.Future[Any]] = {moving, waker}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            waker.cancel()
        if not moving.done():
            await asyncio.wait({moving}, timeout=STOP_GRACE)
        return moving.result() if moving.done() else None
