"""One run of a task: opens its source and sink, moves rows, commits, and closes both.

`RunSpec` is what a run is made of, `BatchRunner` runs one micro-batch, `TaskRun` is the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from penstock.aio import wait_for_first
from penstock.connector_config.dead_letters import RejectedRowRules
from penstock.connector_config.settings import DEFAULT_RETRIES, FlushRules, RetryPolicy
from penstock.model import faults
from penstock.model.connector import CommitMode, Partition, TaskPlan, TaskState
from penstock.model.errors import Diagnostic
from penstock.model.metrics import PluginMetric
from penstock.model.stream import (
    BadRow,
    BatchReady,
    Checkpoint,
    EndOfStream,
    FailedRowsError,
    PartitionDone,
    Progress,
    ReadEvent,
    SchemaVersion,
    SourceWarning,
    WriteOpened,
)
from penstock.rpc.traces import span, start_trace, use_span
from penstock.worker.dead_letters.rejected_rows import RejectedRowHandler
from penstock.worker.ports import Chain, Engine, SchemaAnnouncer, SinkWriter, SourceReader
from penstock.worker.task.commit import Commits
from penstock.worker.task.commit_log import CommitLog
from penstock.worker.task.execution import BatchExecutor
from penstock.worker.task.live_rows import Inspections
from penstock.worker.task.metrics import TaskCounters
from penstock.worker.task.micro_batches import (
    FIRST_BATCH_ROWS,
    Batcher,
    BatchSizer,
    ExecutedBatch,
    FinishedBatch,
    MicroBatch,
)
from penstock.worker.task.source_acks import SourceAcks
from penstock.worker.task.task_offsets import (
    Claim,
    TaskOffsets,
    check_commit_mode,
    resolve_start_offsets,
)
from penstock.worker.task.write_retries import StartOffsets, UnwrittenRows, WriteRetry

log = logging.getLogger(__name__)


async def _never() -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a run is made of.

    `open_reader` gets the plan with its offsets. `keep_alive` holds the processes of plugin
    transforms. `wait_for_change` returns when the secrets of this run are outdated, so that another
    run must start. `make_rejected_row_handler` gets the opened source reader. `plugin_version` is
    that of the source, or of the sink where the source is a topic. `plugin_metrics` returns what
    its plugins measured. `is_isolated`: its plugin processes serve no other task, until `release`
    is called. `watch_attempts` passes failed attempts of its plugins to connect, while its block
    runs.
    """

    plan: TaskPlan
    epoch: int
    commit_mode: CommitMode
    flush_rules: FlushRules
    stall_timeout_s: float
    schema_announcer: SchemaAnnouncer
    chain: Chain
    engine: Engine
    offsets: TaskOffsets
    writer: SinkWriter
    open_reader: Callable[[TaskPlan], SourceReader]
    keep_alive: AbstractContextManager[None] = field(default_factory=nullcontext)
    wait_for_change: Callable[[], Coroutine[Any, Any, None]] = _never
    make_rejected_row_handler: Callable[[SourceReader], RejectedRowHandler] = lambda _: (
        RejectedRowHandler(RejectedRowRules())
    )
    retries: RetryPolicy = DEFAULT_RETRIES
    plugin_version: str = ""
    plugin_metrics: Callable[[], tuple[PluginMetric, ...]] = tuple
    is_isolated: bool = False
    release: Callable[[], None] = lambda: None
    watch_attempts: Callable[[Callable[[Diagnostic], None]], AbstractContextManager[None]] = (
        lambda _: nullcontext()
    )


STOP_GRACE_S = 1.2
"""Time for the running micro-batch after a stop; then its job is cancelled. A stop must take effect
within 2 s, and a cancelled job needs up to 0.5 s to end.
"""


class BatchRunner:
    """Runs the micro-batches of one run of a task, each in a trace of its own. `executor` gets the
    schemas and unreadable rows of the source; `sizer` chooses the size of the next micro-batch.
    """

    def __init__(
        self,
        spec: RunSpec,
        reader: SourceReader,
        inspections: Inspections,
        counters: TaskCounters,
        stopped: asyncio.Event,
        wait_for_commits: Callable[[], Awaitable[None]],
        *,
        reports_failed_rows: bool,
        first_rows: int,
    ) -> None:
        """`wait_for_commits` returns when no commit is in progress. `reports_failed_rows`: the sink
        may name rows that it cannot write when a transaction is prepared. The first micro-batch has
        about `first_rows`.
        """
        self._spec, self._stopped, self._reader = spec, stopped, reader
        self.sizer = BatchSizer(spec.flush_rules.max_rows, first_rows)
        rejected_rows = spec.make_rejected_row_handler(reader)
        self._keeps_rows = reports_failed_rows and rejected_rows.is_tolerant
        self.executor = BatchExecutor(
            spec.engine,
            reader,
            spec.writer,
            spec.chain,
            task_id=spec.plan.task_id,
            epoch=spec.epoch,
            stall_timeout_s=spec.stall_timeout_s,
            wait_for_commits=wait_for_commits,
            inspections=inspections,
            schema_announcer=spec.schema_announcer,
            rejected_rows=rejected_rows,
            retries=replace(spec.retries, on_retry=counters.record_retry),
        )

    async def run(
        self, txn_id: int, batch: MicroBatch, reject: Diagnostic | None = None
    ) -> FinishedBatch | None:
        """Run a micro-batch into a transaction. Returns None when the task was stopped
        meanwhile. With `reject`, its rows are rejected for this reason.
        """
        task_id, lag = self._spec.plan.task_id, time.monotonic() - batch.announced_at
        trace = start_trace("worker.micro_batch", task=task_id, txn=txn_id, rows=batch.rows)
        with use_span(trace):
            executing = asyncio.ensure_future(self._execute(txn_id, batch, lag, reject))
        try:
            executed = await self._unless_stopped(executing)
        finally:
            if not executing.done():
                executing.cancel()
                self._spec.engine.cancel(task_id)
            if not executing.done() or executing.exception() is not None:
                trace.end()
        return None if executed is None else FinishedBatch(txn_id, batch, executed, trace)

    async def staged(self, txn_id: int, batch: MicroBatch) -> None:
        """Note that all rows of a micro-batch are staged at the sink. The source may forget them,
        unless some may still become dead letters.
        """
        if not self._keeps_rows:
            self.executor.forget(txn_id)
            await self._reader.release(batch.last_seq)

    async def reject(self, finished: FinishedBatch, error: FailedRowsError) -> FinishedBatch:
        """Make dead letters of rows that failed when they were prepared."""
        if finished.executed is None or not self._keeps_rows:
            raise error
        with span("worker.reject", rows=len(error.rows)):
            executed = await self.executor.reject_failed(
                finished.txn_id, finished.executed, error.rows
            )
        return replace(finished, executed=executed)

    async def release(self, finished: FinishedBatch) -> None:
        """Let the source forget the rows of a prepared micro-batch, if it was not told before."""
        if self._keeps_rows:
            self.executor.forget(finished.txn_id)
            await self._reader.release(finished.batch.last_seq)

    async def _execute(
        self, txn_id: int, batch: MicroBatch, lag: float, reject: Diagnostic | None
    ) -> ExecutedBatch:
        with span("worker.move", batches=len(batch.batches)):
            return await self.executor.execute(txn_id, batch, lag, reject)

    async def _unless_stopped(
        self, executing: asyncio.Future[ExecutedBatch]
    ) -> ExecutedBatch | None:
        """Wait for a micro-batch. After a stop, wait `STOP_GRACE_S` at most."""
        stopping = asyncio.ensure_future(self._stopped.wait())
        try:
            await wait_for_first(executing, stopping)
        finally:
            stopping.cancel()
        if not executing.done():
            await asyncio.wait({executing}, timeout=STOP_GRACE_S)
        return executing.result() if executing.done() else None


STOP_LIMIT_S = 1.8
"""Time in which a task ends by itself after a stop. Then it is cancelled, which is as safe as a
crash: a plugin that blocks while it opens or commits must not delay the stop.
"""

STOP_CLOSE_GRACE_S = 0.5
"""Time for a source or sink to close after a stop: a user, or another worker, waits for it."""

CLOSE_GRACE_S = 2.0
"""Time for a source or sink to close. Longer delays the restart of a task whose plugin hangs;
shorter interrupts a slow sink that has nothing left to lose.
"""


COMMIT_GRACE_S = 5.0
"""Time for running commits after an error of something else. Longer delays the restart of a task
whose sink hangs; shorter makes a sink without transactions write their rows again.
"""


async def _commit_first(work: Callable[[], Awaitable[None]], commits: Commits) -> None:
    """Do the work. If it fails, what the sink has been told to write is committed before the run
    ends.
    """
    try:
        await work()
    except Exception:
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMIT_GRACE_S):
                await commits.settle()
        raise


class TaskRun:
    """One run of a task. `run()` returns when it is completed or stopped, and raises when it
    failed.

    `began_at` are the partitions with the offsets where it started to read, None before that.
    `unwritten` are rows that the sink could not write. `commit_count` and `batch_count` count its
    commits, and the batches that the source announced.
    """

    def __init__(
        self,
        spec: RunSpec,
        counters: TaskCounters,
        inspections: Inspections,
        on_state: Callable[[TaskState], None],
        retry: WriteRetry | None = None,
    ) -> None:
        """`counters` and `inspections` outlive the run. `on_state` is called with RUNNING when
        source and sink are open, and at each pause and resume. `retry`: rows that the sink could
        not write before.
        """
        self._retry, self._left_to_retry = retry, set(retry.start if retry else ())
        self._position: dict[str, Mapping[str, Any] | None] = {}
        self._starts: dict[int, StartOffsets] = {}
        self.unwritten: UnwrittenRows | None = None
        self._spec, self._inspections = spec, inspections
        self._on_state = on_state
        self._counters = counters
        rules = spec.flush_rules
        # rows that are tried again one by one need not be paced
        self._batcher = Batcher(rules if retry is None else replace(rules, busy_interval_s=0.0))
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()
        self._source_ended = self._paused = False
        self._unfinished = {partition.id for partition in spec.plan.partitions}
        self._txn = 0
        self._mode = CommitMode.UNSPECIFIED
        self.completed = False
        self.began_at: Sequence[Partition] | None = None
        self.commit_count = self.batch_count = 0
        self._commit_log = CommitLog(spec.plan.task_id)

    async def run(self) -> None:
        """Open source and sink, move rows until a bounded source ends, a stop or an error, and
        close both.
        """
        spec = self._spec
        claim = await spec.offsets.claim()
        try:
            with spec.keep_alive:
                await self._until_stopped(self._run_streams(claim))
        finally:
            await spec.writer.close(STOP_CLOSE_GRACE_S if self._stopped.is_set() else CLOSE_GRACE_S)

    async def _run_streams(self, claim: Claim) -> None:
        spec = self._spec
        recover = claim.recover and not faults.hit("worker.skip_recover")
        opened = await spec.writer.open(spec.epoch, spec.commit_mode, claim.last_prepared, recover)
        check_commit_mode(spec.commit_mode, opened)
        self._mode = opened.commit_mode
        plan = await resolve_start_offsets(spec.plan, opened, claim, spec.offsets, spec.epoch)
        self.began_at = plan.partitions
        self._position = {one.id: one.offset for one in plan.partitions}
        reader = spec.open_reader(plan)
        try:
            await reader.open()
            self._on_state(TaskState.RUNNING)
            await self._run_loops(reader, opened, claim)
        finally:
            await reader.close()

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work. After a stop, wait `STOP_LIMIT_S` at most, whatever blocks it."""
        working = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await wait_for_first(working, stopped)
            await asyncio.wait({working}, timeout=STOP_LIMIT_S)
            if working.done():
                working.result()
            else:
                log.warning(
                    "task %s did not stop in time and is cancelled", self._spec.plan.task_id
                )
        finally:
            stopped.cancel()
            working.cancel()
            await asyncio.wait({working})

    def stop(self) -> None:
        """Stop the run. The running micro-batch is finished if that is quick. Safe to call
        again.
        """
        self._stopped.set()
        self._wake.set()

    def pause(self, *, paused: bool) -> None:
        """Pause or resume. A paused run finishes its micro-batch and starts no other; what the
        source holds ready stays within its credit.
        """
        self._paused = paused
        self._wake.set()

    async def _run_loops(self, reader: SourceReader, opened: WriteOpened, claim: Claim) -> None:
        spec = self._spec
        # the later of both: the sink may have been used in another commit mode before
        self._txn = max((t.txn_id for t in (opened.committed, claim.last_prepared) if t), default=0)
        if spec.flush_rules.interval_s is None:
            self._batcher.rules = replace(self._batcher.rules, interval_s=opened.commit_every)
        acks = SourceAcks(reader)
        commits = Commits(
            acks,
            spec.writer,
            spec.offsets,
            opened.commit_mode,
            self._txn,
            lambda finished, seconds: self._record_commit(runner, finished, seconds),
        )
        self._counters.start_run(len(spec.plan.partitions), spec.plugin_metrics)
        runner = BatchRunner(
            spec,
            reader,
            self._inspections,
            self._counters,
            self._stopped,
            commits.settle,
            reports_failed_rows=opened.reports_failed_rows,
            first_rows=1 if self._retry is not None else FIRST_BATCH_ROWS,
        )
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(
                    _commit_first(partial(self._read_events, reader, runner, acks), commits)
                ),
                group.create_task(self._run_commits(commits, runner)),
                group.create_task(acks.run()),
            ]
            await _commit_first(partial(self._run_batches, runner, commits), commits)
            await commits.settle()
            for one in beside:
                one.cancel()

    async def _read_events(
        self, reader: SourceReader, runner: BatchRunner, acks: SourceAcks
    ) -> None:
        async for event in reader:
            self._handle_event(event, runner)
            if isinstance(event, Checkpoint) and event.await_commit:
                acks.expect(event.checkpoint_id)
            elif isinstance(event, Progress):
                acks.confirm(event.committed)
            self._wake.set()
        self._source_ended = True
        self._wake.set()

    def _handle_event(self, event: ReadEvent, runner: BatchRunner) -> None:
        now = time.monotonic()
        match event:
            case BatchReady():
                faults.hit("worker.source_read")
                self.batch_count += 1
                self._batcher.add_batch(event, now)
                self._counters.record_announced(event.rows, event.bytes)
            case Checkpoint():
                self._batcher.add_checkpoint(event, now)
            case SchemaVersion():
                runner.executor.add_schema(event.schema)
            case PartitionDone():
                self._unfinished.discard(event.partition_id)
                self._source_ended = self._source_ended or not self._unfinished
            case Progress():
                self._counters.bytes_left = event.bytes_left
                self._counters.rows_left = event.rows_left
            case BadRow():
                runner.executor.check_unreadable_row(event)
                self._batcher.add_unreadable_row(event)
            case EndOfStream():
                self._source_ended = True
            case SourceWarning():
                log.warning("%s", event.diagnostic)

    async def _run_batches(self, runner: BatchRunner, commits: Commits) -> None:
        while not self._stopped.is_set():
            if self._paused:
                await self._wait_while_paused(commits)
                continue
            due = self._batcher.due_in_s(time.monotonic(), ended=self._source_ended)
            if due is None and self._source_ended:
                self.completed = True
                return
            if due == 0:
                max_rows = 1 if self._left_to_retry else runner.sizer.rows
                batch = self._batcher.take(max_rows, time.monotonic())
                await self._run_batch(batch, runner, commits)
                continue
            await self._wait_for_event(due)

    async def _wait_while_paused(self, commits: Commits) -> None:
        """Report PAUSED once all earlier micro-batches are committed, and wait for the resume."""
        await commits.settle()
        self._on_state(TaskState.PAUSED)
        while self._paused and not self._stopped.is_set():
            await self._wait_for_event(None)
        self._on_state(TaskState.RUNNING)

    async def _wait_for_event(self, timeout_s: float | None) -> None:
        """Wait for an event of the source, `timeout_s` seconds at most."""
        self._wake.clear()
        # with rows that are not due yet, it does not wait for the source
        is_idle = timeout_s is None and not self._paused
        waiting = self._counters.split.during("source") if is_idle else nullcontext()
        with waiting, suppress(TimeoutError):
            # wait_for would lose a cancellation that comes with an event
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()

    async def _run_batch(self, batch: MicroBatch, runner: BatchRunner, commits: Commits) -> None:
        start = {id_: self._position.get(id_) for id_ in batch.offsets}
        self._position.update(batch.offsets)
        if not batch.rows and not batch.unreadable:
            # in SINK mode the sink stores the token, in a transaction of its own
            self._txn += self._mode is CommitMode.SINK
            await commits.submit(FinishedBatch(self._txn, batch, None))
            await runner.staged(self._txn, batch)
            return
        self._txn += 1
        self._starts[self._txn] = start
        self._left_to_retry -= start.keys()
        reject = self._retry.reason_to_reject(start) if self._retry is not None else None
        split, began = self._counters.split, time.monotonic()
        with split.during("rows"):
            finished = await runner.run(self._txn, batch, reject)
        if finished is None:
            return
        if finished.executed is not None:
            moved_s = time.monotonic() - began
            split.move(max(0.0, moved_s - finished.executed.slowest_slot_s), "rows", "engine")
        faults.hit("worker.batch_moved")
        await runner.staged(self._txn, batch)
        stored_s = commits.offset_seconds()
        with split.during("sink"):
            await commits.submit(finished)
        split.move(commits.offset_seconds() - stored_s, "sink", "offsets")

    async def _run_commits(self, commits: Commits, runner: BatchRunner) -> None:
        try:
            await commits.run(runner)
        except Exception:
            self._counters.commits_failed += 1
            if commits.unwritten is not None:
                txn_id, error = commits.unwritten
                if (start := self._starts.get(txn_id)) is not None:
                    self.unwritten = UnwrittenRows(start, error.diagnostic)
            raise

    def _record_commit(self, runner: BatchRunner, finished: FinishedBatch, seconds: float) -> None:
        self.commit_count += 1
        self._starts.pop(finished.txn_id, None)
        if finished.executed is not None:
            self._commit_log.record(finished.executed)
            # a slow sink shows in its writes, or in its commit
            runner.sizer.record(
                finished.executed.rows_read, max(finished.executed.slowest_slot_s, seconds)
            )
        self._counters.record_commit(finished, seconds)
