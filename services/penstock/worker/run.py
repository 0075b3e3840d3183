"""One life of a task: from opening its ends to closing them.

Opening order: claim the task (fences older epochs) → open the write end (recovers a half-applied
transaction, tells its own offsets in SINK mode) → open the read end where the offsets say. Then
three coroutines share the work: events are pumped into the batcher, micro-batches are moved through
Spark, and finished ones are committed in order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from penstock.model import faults
from penstock.model.connector import CommitMode, Partition, TaskPlan, TaskState
from penstock.model.errors import ConfigError, error_of
from penstock.model.identity import parse_canonical, partition_key
from penstock.model.stream import (
    BadRow,
    BatchReady,
    Checkpoint,
    Drained,
    Offsets,
    PartitionDone,
    PreparedTxn,
    Progress,
    ReadEvent,
    SchemaSeen,
    Warned,
    WriteOpened,
)
from penstock.worker.batching import Batcher, FlushRules, MicroBatch
from penstock.worker.commit import Commits, Finished, OffsetWriter
from penstock.worker.execution import Chain, Execution
from penstock.worker.looking import Looks
from penstock.worker.pace import Pace
from penstock.worker.ports import Announcer, Engine, ReadStream, WriteStream
from penstock.worker.telling import Telling

log = logging.getLogger(__name__)

STOP_GRACE = 1.2
"""Seconds that a micro-batch under way gets when the task is stopped; then its job is cancelled. A
stop must take effect within 2 s, and a cancelled job needs up to 0.5 s to end."""

STOP_LIMIT = 1.8
"""Seconds after a stop in which a task ends by itself. Then it is cut off where it stands, which is
safe as a crash is: a plugin that blocks in its opening or in a commit may not hold a stop up."""

STOP_CLOSE_GRACE = 0.5
"""Seconds that an end gets to close after a stop: a person, or another worker, waits for it."""

CLOSE_GRACE = 2.0
"""Seconds that an end gets to close. Longer keeps a hanging plugin's task from being restarted;
shorter cuts a slow sink off that has nothing left to lose."""


@dataclass(slots=True)
class Numbers:
    """What a run has moved so far. `bytes_left`, `rows_left`: -1 when unknown."""

    rows_read: int = 0
    rows_written: int = 0
    bytes_read: int = 0
    batches: int = 0
    bytes_left: int = -1
    rows_left: int = -1


@dataclass(frozen=True, slots=True)
class Claim:
    """Where a claimed task stands in the offset service."""

    last_prepared: PreparedTxn | None
    recover: bool


class TaskOffsets(OffsetWriter, Protocol):
    """The offset service, as one task at one epoch sees it."""

    async def claim(self) -> Claim:
        """Fence older epochs."""

    async def get(self, partition_ids: list[str]) -> dict[str, Mapping[str, Any]]:
        """Read the offsets of partitions; those never committed are absent."""

    async def every(self) -> dict[str, Mapping[str, Any]]:
        """Read all offsets of the connector's generation."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a run is made of. `open_reader` gets the plan with its offsets filled in; `held` is what
    the run keeps alive beside its ends.
    """

    plan: TaskPlan
    epoch: int
    commit_mode: CommitMode
    rules: FlushRules
    stall: float
    drift: Announcer
    chain: Chain
    engine: Engine
    offsets: TaskOffsets
    writer: WriteStream
    open_reader: Callable[[TaskPlan], ReadStream]
    held: AbstractContextManager[None] = field(default_factory=nullcontext)


class TaskRun:
    """One life of a task. `run()` returns when it is completed or stopped, and raises when it
    failed.
    """

    def __init__(
        self, spec: RunSpec, numbers: Numbers, looks: Looks, on_state: Callable[[TaskState], None]
    ) -> None:
        """`numbers` and `looks` go on over the runs of a task; `on_state` is told when both ends
        are open, when it rests because it is paused, and when it moves again.
        """
        self._spec, self._looks = spec, looks
        self._on_state = on_state
        self._numbers = numbers
        self._batcher = Batcher(spec.rules)
        self._pace = Pace(spec.rules.max_rows)
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()
        self._ended = self._paused = False
        self._unfinished = {partition.id for partition in spec.plan.partitions}
        self._txn = 0
        self._mode = CommitMode.UNSPECIFIED
        self.completed = False

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
        plan = await self._positioned(opened, claim)
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

    async def _positioned(self, opened: WriteOpened, claim: Claim) -> TaskPlan:
        """Return the plan with the offsets to start from, from whoever is the authority for
        them.

        A sink that keeps offsets itself is, where its last transaction is another one than was
        stored here: a crash came between the two, or its database went back in time. When it is
        the same, what is stored here counts: people may have altered it since, and partitions may
        have been in other hands.
        """
        plan = self._spec.plan
        planned = {partition.id for partition in plan.partitions}
        offsets: Offsets
        if plan.finds_others:
            offsets = await self._spec.offsets.every()
        else:
            offsets = await self._spec.offsets.get(sorted(planned))
        token, stored = opened.committed, claim.last_prepared
        known = token is not None and stored is not None and token.txn_id == stored.txn_id
        if opened.commit_mode is CommitMode.SINK and token is not None and not known:
            offsets = {**offsets, **parse_canonical(token.token.decode())}
        found = sorted(offsets.keys() - planned) if plan.finds_others else []
        later = tuple(Partition(partition_key(id_)) for id_ in found)
        partitions = tuple(_at(p, offsets) for p in (*plan.partitions, *later))
        return replace(plan, partitions=partitions)

    async def _flow(self, reader: ReadStream, opened: WriteOpened, claim: Claim) -> None:
        spec = self._spec
        # whoever knows the later transaction: a sink may be asked in a mode it was not used in
        self._txn = max((t.txn_id for t in (opened.committed, claim.last_prepared) if t), default=0)
        if spec.rules.interval is None:
            self._batcher.rules = replace(spec.rules, interval=opened.commit_every)
        telling = Telling(reader)
        commits = Commits(
            telling, spec.writer, spec.offsets, opened.commit_mode, self._txn, self._count
        )
        execution = Execution(
            spec.engine,
            reader,
            spec.writer,
            spec.chain,
            task_id=spec.plan.task_id,
            epoch=spec.epoch,
            stall=spec.stall,
            settle=commits.settle,
            looks=self._looks,
            drift=spec.drift,
        )
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(self._pump(reader, execution, telling)),
                group.create_task(commits.run()),
                group.create_task(telling.run()),
            ]
            await self._drive(reader, execution, commits)
            await commits.settle()
            for one in beside:
                one.cancel()

    async def _pump(self, reader: ReadStream, execution: Execution, telling: Telling) -> None:
        async for event in reader:
            self._take(event, execution)
            if isinstance(event, Checkpoint) and event.await_commit:
                telling.awaits(event.checkpoint_id)
            elif isinstance(event, Progress):
                telling.confirmed(event.committed)
            self._wake.set()
        self._ended = True
        self._wake.set()

    def _take(self, event: ReadEvent, execution: Execution) -> None:
        now = time.monotonic()
        match event:
            case BatchReady():
                faults.hit("worker.source_read")
                self._batcher.ready(event, now)
                self._numbers.bytes_read += event.bytes
            case Checkpoint():
                self._batcher.checkpoint(event, now)
            case SchemaSeen():
                execution.schema_seen(event.schema)
            case PartitionDone():
                self._unfinished.discard(event.partition_id)
                self._ended = self._ended or not self._unfinished
            case Progress():
                self._numbers.bytes_left = event.bytes_left
                self._numbers.rows_left = event.rows_left
            case BadRow():
                raise error_of(event.reason)
            case Drained():
                self._ended = True
            case Warned():
                log.warning("%s", event.diagnostic)

    async def _drive(self, reader: ReadStream, execution: Execution, commits: Commits) -> None:
        while not self._stopped.is_set():
            if self._paused:
                await self._rest(commits)
                continue
            due = self._batcher.due_in(time.monotonic())
            if due is None and self._ended:
                self.completed = True
                return
            if due == 0 or (due is not None and self._ended):
                await self._move(self._batcher.take(self._pace.rows), reader, execution, commits)
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
        self, batch: MicroBatch, reader: ReadStream, execution: Execution, commits: Commits
    ) -> None:
        if not batch.rows:
            self._txn += self._mode is CommitMode.SINK  # the sink stores the token in its own way
            await commits.submit(Finished(self._txn, batch, None))
            await reader.release(batch.last_seq)
            return
        self._txn += 1
        lag = time.monotonic() - batch.since
        moving = asyncio.ensure_future(execution.move(self._txn, batch, lag))
        try:
            moved = await self._unless_stopped(moving)
        finally:
            if not moving.done():
                moving.cancel()
                self._spec.engine.cancel(self._spec.plan.task_id)
        if moved is None:
            return
        faults.hit("worker.batch_moved")
        # the rows are staged at the write end; the batches will not be asked for again
        await reader.release(batch.last_seq)
        await commits.submit(Finished(self._txn, batch, moved))

    async def _unless_stopped(self, moving: asyncio.Future[Any]) -> Any | None:
        """Wait for a micro-batch; when the task is stopped meanwhile it has `STOP_GRACE` left."""
        while not moving.done() and not self._stopped.is_set():
            self._wake.clear()
            waker = asyncio.ensure_future(self._wake.wait())
            await asyncio.wait({moving, waker}, return_when=asyncio.FIRST_COMPLETED)
            waker.cancel()
        if not moving.done():
            await asyncio.wait({moving}, timeout=STOP_GRACE)
        return moving.result() if moving.done() else None

    def _count(self, finished: Finished, seconds: float) -> None:
        if finished.moved is None:
            return
        # a sink is slow while it is put to, or when it is asked to prepare
        self._pace.took(finished.moved.rows_read, max(finished.moved.seconds, seconds))
        self._numbers.rows_read += finished.moved.rows_read
        self._numbers.rows_written += finished.moved.rows_written
        self._numbers.batches += 1


def _at(partition: Partition, offsets: Offsets) -> Partition:
    offset = offsets.get(partition.id)
    return partition if offset is None else replace(partition, offset=offset)


def refuse_weaker(asked: CommitMode, opened: WriteOpened) -> None:
    """Refuse a weaker commit mode than was asked for: never a quiet downgrade (rule R13)."""
    if asked is not CommitMode.UNSPECIFIED and opened.commit_mode is not asked:
        raise ConfigError(
            "delivery.not_available",
            f"the write end works in {opened.commit_mode.name} mode, {asked.name} was asked for",
            fix="Choose a sink that supports it, or leave `delivery` out.",
            config_path="delivery",
        )
