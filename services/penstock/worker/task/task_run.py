"""One micro-batch on its way through the engine: with a trace of its own, cut short by a stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from penstock.model import faults
from penstock.model.connector import CommitMode, Partition, TaskState
from penstock.model.stream import (
    BadRow,
    BatchReady,
    Checkpoint,
    Drained,
    PartitionDone,
    Progress,
    ReadEvent,
    SchemaSeen,
    Warned,
    WriteOpened,
)
from penstock.rpc.tracing import begun, span, within
from penstock.worker.ports import ReadStream
from penstock.worker.task.batching import Batcher, MicroBatch, Pace
from penstock.worker.task.commit import Commits, Finished
from penstock.worker.task.execution import Execution, Moved
from penstock.worker.task.live_rows import Looks
from penstock.worker.task.metrics import Numbers
from penstock.worker.task.run_spec import Claim, RunSpec, positioned, refuse_weaker
from penstock.worker.task.source_acks import Telling

log = logging.getLogger(__name__)


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


STOP_LIMIT = 1.8
"""Seconds after a stop in which a task ends by itself. Then it is cut off where it stands, which is
safe as a crash is: a plugin that blocks in its opening or in a commit may not hold a stop up."""

STOP_CLOSE_GRACE = 0.5
"""Seconds that an end gets to close after a stop: a person, or another worker, waits for it."""

CLOSE_GRACE = 2.0
"""Seconds that an end gets to close. Longer keeps a hanging plugin's task from being restarted;
shorter cuts a slow sink off that has nothing left to lose."""


class TaskRun:
    """One life of a task. `run()` returns when it is completed or stopped, and raises when it
    failed.
    """

    def __init__(
        self, spec: RunSpec, numbers: Numbers, looks: Looks, on_state: Callable[[TaskState], None]
    ) -> None:
        """`numbers` and `looks` go on over the runs of a task; `on_state` is told when both ends
        are open, when it rests because it is paused, and when it moves again.

        Attributes: `began_at` are the partitions with the offsets where it began to read, None
        before that; `committed` and `announced` count its commits, and the batches of the source.
        """
        self._spec, self._looks = spec, looks
        self._on_state = on_state
        self._numbers = numbers
        self._batcher = Batcher(spec.rules)
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()
        self._ended = self._paused = False
        self._unfinished = {partition.id for partition in spec.plan.partitions}
        self._txn = 0
        self._mode = CommitMode.UNSPECIFIED
        self.completed = False
        self.began_at: Sequence[Partition] | None = None
        self.committed = self.announced = 0

    async def run(self) -> None:
        """Open the ends, move rows until the end of a bounded read, a stop or an error, close the
        ends.
        """
        spec = self._spec
        claim = await spec.offsets.claim()
        try:
            with spec.held:
                await self._until_stopped(self._live(claim))
        finally:
            await spec.writer.close(STOP_CLOSE_GRACE if self._stopped.is_set() else CLOSE_GRACE)

    async def _live(self, claim: Claim) -> None:
        spec = self._spec
        recover = claim.recover and not faults.hit("worker.skip_recover")
        opened = await spec.writer.open(spec.epoch, spec.commit_mode, claim.last_prepared, recover)
        refuse_weaker(spec.commit_mode, opened)
        self._mode = opened.commit_mode
        plan = await positioned(spec.plan, opened, claim, spec.offsets, spec.epoch)
        self.began_at = plan.partitions
        reader = spec.open_reader(plan)
        try:
            await reader.open()
            self._on_state(TaskState.RUNNING)
            await self._flow(reader, opened, claim)
        finally:
            await reader.close()

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; once the task is stopped it has `STOP_LIMIT` left, whoever blocks it."""
        working = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({working}, timeout=STOP_LIMIT)
            if working.done():
                working.result()
            else:
                log.warning("task %s is cut off: it did not stop", self._spec.plan.task_id)
        finally:
            stopped.cancel()
            working.cancel()
            await asyncio.wait({working})

    def stop(self) -> None:
        """Ask for the end: the micro-batch under way is finished if that is quick. Safe to call
        again.
        """
        self._stopped.set()
        self._wake.set()

    def pause(self, *, paused: bool) -> None:
        """Begin no micro-batch from now on, or go on. What is under way is finished; what the
        source holds ready stays within its credit.
        """
        self._paused = paused
        self._wake.set()

    async def _flow(self, reader: ReadStream, opened: WriteOpened, claim: Claim) -> None:
        spec = self._spec
        # whoever knows the later transaction: a sink may be asked in a mode it was not used in
        self._txn = max((t.txn_id for t in (opened.committed, claim.last_prepared) if t), default=0)
        if spec.rules.interval is None:
            self._batcher.rules = replace(spec.rules, interval=opened.commit_every)
        telling = Telling(reader)
        commits = Commits(
            telling,
            spec.writer,
            spec.offsets,
            opened.commit_mode,
            self._txn,
            lambda finished, seconds: self._count(mover, finished, seconds),
        )
        self._numbers.begin(len(spec.plan.partitions), spec.plugin_numbers)
        mover = Mover(
            spec, reader, self._looks, self._numbers, self._stopped, self._wake, commits.settle
        )
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(self._pump(reader, mover, telling)),
                group.create_task(self._committing(commits)),
                group.create_task(telling.run()),
            ]
            await self._drive(reader, mover, commits)
            await commits.settle()
            for one in beside:
                one.cancel()

    async def _pump(self, reader: ReadStream, mover: Mover, telling: Telling) -> None:
        async for event in reader:
            self._take(event, mover)
            if isinstance(event, Checkpoint) and event.await_commit:
                telling.awaits(event.checkpoint_id)
            elif isinstance(event, Progress):
                telling.confirmed(event.committed)
            self._wake.set()
        self._ended = True
        self._wake.set()

    def _take(self, event: ReadEvent, mover: Mover) -> None:
        now = time.monotonic()
        match event:
            case BatchReady():
                faults.hit("worker.source_read")
                self.announced += 1
                self._batcher.ready(event, now)
                self._numbers.announced(event.rows, event.bytes)
            case Checkpoint():
                self._batcher.checkpoint(event, now)
            case SchemaSeen():
                mover.execution.schema_seen(event.schema)
            case PartitionDone():
                self._unfinished.discard(event.partition_id)
                self._ended = self._ended or not self._unfinished
            case Progress():
                self._numbers.bytes_left = event.bytes_left
                self._numbers.rows_left = event.rows_left
            case BadRow():
                mover.execution.unread(event)
                self._batcher.bad(event)
            case Drained():
                self._ended = True
            case Warned():
                log.warning("%s", event.diagnostic)

    async def _drive(self, reader: ReadStream, mover: Mover, commits: Commits) -> None:
        while not self._stopped.is_set():
            if self._paused:
                await self._rest(commits)
                continue
            due = self._batcher.due_in(time.monotonic())
            if due is None and self._ended:
                self.completed = True
                return
            if due == 0 or (due is not None and self._ended):
                await self._move(self._batcher.take(mover.pace.rows), reader, mover, commits)
                continue
            await self._sleep(due)

    async def _rest(self, commits: Commits) -> None:
        """Wait until it is not paused any more. It is only when all that was on its way is done."""
        await commits.settle()
        self._on_state(TaskState.PAUSED)
        while self._paused and not self._stopped.is_set():
            await self._sleep(None)
        self._on_state(TaskState.RUNNING)

    async def _sleep(self, due: float | None) -> None:
        """Wait for an event of the read end, at most `due` seconds."""
        self._wake.clear()
        with suppress(TimeoutError):  # wait_for would lose a cancellation that comes with an event
            async with asyncio.timeout(due):
                await self._wake.wait()

    async def _move(
        self, batch: MicroBatch, reader: ReadStream, mover: Mover, commits: Commits
    ) -> None:
        if not batch.rows and not batch.bad:
            self._txn += self._mode is CommitMode.SINK  # the sink stores the token in its own way
            await commits.submit(Finished(self._txn, batch, None))
            await reader.release(batch.last_seq)
            return
        self._txn += 1
        finished = await mover.move(self._txn, batch)
        if finished is None:
            return
        faults.hit("worker.batch_moved")
        # the rows are staged at the write end; the batches will not be asked for again
        await reader.release(batch.last_seq)
        await commits.submit(finished)

    async def _committing(self, commits: Commits) -> None:
        try:
            await commits.run()
        except Exception:
            self._numbers.commits_failed += 1
            raise

    def _count(self, mover: Mover, finished: Finished, seconds: float) -> None:
        self.committed += 1
        if finished.moved is not None:
            # a sink is slow while it is put to, or when it is asked to prepare
            mover.pace.took(finished.moved.rows_read, max(finished.moved.seconds, seconds))
        self._numbers.committed(finished, seconds)
