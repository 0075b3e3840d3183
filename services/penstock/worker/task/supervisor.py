"""Supervises the tasks that a worker is assigned: restarts a task after a retriable error, and
stops one whose plugin crashes again and again.

`TaskSupervisor` is the restart loop of a task and of a monitor, `Task` moves rows,
`CrashLoopDetector` finds plugins that crash at one offset.

A run that ends with `plugin.crashed` without a commit counts as a crash at the offsets where it
started. Tasks share plugin processes, so a task that crashes them takes others down. After
`MAX_CRASHES - 1` crashes at one place a task is suspected, and its next run is isolated: it gets
plugin processes of its own. If these crash too, the task fails and names the offsets; if not,
another task is the cause.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

from penstock.model.backoff import Backoff
from penstock.model.connector import (
    Connector,
    Partition,
    TargetState,
    TaskPlan,
    TaskState,
    TaskStatus,
)
from penstock.model.errors import (
    DataError,
    Diagnostic,
    ErrorClass,
    InternalError,
    PenstockError,
    RetriableError,
)
from penstock.model.identity import canonical_json
from penstock.telemetry import STACK_TRACE, log_context
from penstock.worker.redaction import redact_diagnostic
from penstock.worker.task.live_rows import Inspections
from penstock.worker.task.metrics import StateTimes, TaskCounters
from penstock.worker.task.task_run import RunSpec, TaskRun

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task or a monitor of an assignment.

    A monitor has a plan without partitions, and the `plan_epoch` of the plans in force.
    """

    connector: Connector
    plan: TaskPlan
    epoch: int
    plan_epoch: int = 0

    @property
    def is_monitor(self) -> bool:
        """Whether it is the monitor of its connector."""
        return self.plan_epoch > 0

    @property
    def is_paused(self) -> bool:
        """Whether its connector is paused."""
        return self.connector.target_state is TargetState.PAUSED


@dataclass(frozen=True, slots=True)
class KeptTask:
    """A task that continues at its epoch. Only its target state may have changed."""

    epoch: int
    target_state: TargetState


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often and how fast a task is restarted after retriable errors.

    The delay doubles from `first_delay_s` to `max_delay_s`. A smaller first delay spins on a plugin
    that crashes at once; a larger maximum leaves rows waiting after a long outage. `max_restarts`
    limits restarts in a row, -1 is no limit. A task that was RUNNING for `healthy_after_s` starts a
    new row, with the first delay. Opening does not count: a system that does not answer would seem
    healthy until its timeout.
    """

    first_delay_s: float = 0.5
    max_delay_s: float = 30.0
    healthy_after_s: float = 30.0
    max_restarts: int = -1


class TaskSupervisor(ABC):
    """Runs one assignment until it is completed, stopped, fenced, or failed for good."""

    def __init__(
        self, assignment: Assignment, policy: RestartPolicy, on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called at each change of state."""
        self.connector, self.task_id = assignment.connector.name, assignment.plan.task_id
        self.epoch = assignment.epoch
        self._policy, self._on_change = policy, on_change
        self._state = TaskState.STARTING
        self._diagnostic: Diagnostic | None = None
        self._restarts = self._restarts_in_a_row = 0
        self._times = StateTimes(self._state)
        self._starts = Counter[str]()
        self._running_since: float | None = None
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until the end. Never raises: errors are in the status."""
        with log_context(connector=self.connector, task=self.task_id, epoch=self.epoch):
            await self._run_until_final()

    async def _run_until_final(self) -> None:
        backoff = Backoff(self._policy.first_delay_s, self._policy.max_delay_s)
        while not self._stop.is_set():
            self._running_since = None
            error = await self._try_once()
            if error is None:
                return
            if self._was_healthy():
                backoff.reset()
                self._restarts_in_a_row = 0
            if not self._may_restart(error):
                self._set_state(_final_state(error), error.diagnostic)
                log.error("task %s failed: %s", self.task_id, error, extra=trace_field(error))
                return
            self._restarts += 1
            self._restarts_in_a_row += 1
            self._set_state(TaskState.RESTARTING, error.diagnostic)
            log.warning("task %s restarts in %.1f s: %s", self.task_id, backoff.delay_s, error)
            await self._wait(backoff.delay_s)
            backoff.advance()
        self._set_state(TaskState.STOPPED)

    def stop(self) -> None:
        """Request the end. `run()` returns when it is reached."""
        self._stop.set()

    def status(self) -> TaskStatus:
        """Return the present status."""
        return TaskStatus(
            self.task_id,
            self.connector,
            self.epoch,
            self._state,
            self._diagnostic,
            restarts=self._restarts,
            restarts_in_a_row=self._restarts_in_a_row,
        )

    @abstractmethod
    def update(self, wanted: Assignment) -> None:
        """Apply an assignment of the same epoch."""

    @abstractmethod
    async def _run_once(self) -> TaskState:
        """Run once, until the end or a stop. Returns the final state."""

    async def _try_once(self) -> PenstockError | None:
        """Run once. Returns the error that ended the run, None when it was completed or stopped."""
        self._set_state(TaskState.STARTING, self._diagnostic)
        self._starts["starts"] += 1
        try:
            self._set_state(await self._run_once())
        except Exception as error:  # noqa: BLE001 - other tasks must not notice (invariant 8)
            self._starts["start_failures"] += self._running_since is None
            return find_error(error)
        return None

    async def _unless_stopped(self, work: Awaitable[_T]) -> _T | None:
        """Wait for work that may take long. A stop cancels it, and None is returned."""
        working = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            stopped.cancel()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    def _set_running(self) -> None:
        self._running_since = time.monotonic()
        self._starts["started"] += 1
        self._set_state(TaskState.RUNNING)

    def _may_restart(self, error: PenstockError) -> bool:
        if error.diagnostic.error_class is not ErrorClass.RETRIABLE or self._stop.is_set():
            return False
        return self._policy.max_restarts < 0 or self._restarts_in_a_row < self._policy.max_restarts

    def _was_healthy(self) -> bool:
        since = self._running_since
        return since is not None and time.monotonic() - since > self._policy.healthy_after_s

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def _set_state(self, state: TaskState, diagnostic: Diagnostic | None = None) -> None:
        self._state = state
        self._times.enter(state)
        self._diagnostic = redact_diagnostic(diagnostic) if diagnostic else None
        self._on_change()


def _final_state(error: PenstockError) -> TaskState:
    fenced = error.diagnostic.error_class is ErrorClass.FENCED
    return TaskState.STOPPED if fenced else TaskState.FAILED


def trace_field(error: PenstockError) -> dict[str, str]:
    """Return the extra field of a log line that has the stack trace of a connector's defect."""
    return {STACK_TRACE: error.diagnostic.trace} if error.diagnostic.trace else {}


def find_error(error: BaseException) -> PenstockError:
    """Return the Penstock error of a group, or one that wraps a foreign exception."""
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, BaseExceptionGroup):
        errors = [find_error(inner) for inner in error.exceptions]
        return min(errors, key=lambda e: e.diagnostic.error_class is ErrorClass.INTERNAL)
    if isinstance(error, TimeoutError | ConnectionError):
        return RetriableError(
            "task.connection",
            f"{type(error).__name__}: {error}",
            fix="The task is restarted. If the error repeats, check that the systems of its source "
            "and sink can be reached.",
        )
    log.error("unexpected error in a task", exc_info=error)
    return InternalError(
        "task.unexpected",
        f"{type(error).__name__}: {error}",
        fix="This is a defect of Penstock: report it with the log.",
    )


MAX_CRASHES: Final = 3
"""Crashes at one place. Fewer would take an accident (a moment without memory) for a defect; more
only delay the message.
"""

_MAX_NAMED: Final = 5
"""Partitions that the error names."""

_CRASHED: Final = frozenset({"plugin.crashed", "plugin.memory_exceeded"})


class CrashLoopDetector:
    """Counts the crashes of a task's plugins at one place without a commit between them."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._place: dict[str, Mapping[str, Any] | None] = {}
        self._count = 0

    @property
    def is_suspected(self) -> bool:
        """Whether the next run needs plugin processes of its own."""
        return self._count >= MAX_CRASHES - 1

    def reset(self) -> None:
        """Forget the crashes: another task caused them."""
        self._count = 0

    def record(
        self,
        error: BaseException,
        began_at: Sequence[Partition] | None,
        *,
        is_progress: bool,
        is_isolated: bool,
    ) -> None:
        """Record how a run ended.

        Args:
            error: What ended it.
            began_at: Where it started to read; None when it did not come that far.
            is_progress: It committed, or was healthy without a row for a while: the plugin does not
                crash on what it reads.
            is_isolated: Its plugin processes served no other task.

        Raises:
            DataError: `plugin.crash_loop`.
        """
        crash = next(_crashes(error), None)
        if is_progress or crash is None or began_at is None:
            self._count = 0
            return
        place = {partition.id: partition.offset for partition in began_at}
        self._count = self._count + 1 if place == self._place else 1
        self._place = place
        if is_isolated and self._count >= MAX_CRASHES:
            crashes, self._count = self._count, 0
            raise _crash_loop(self._connector, began_at, crash, crashes) from error


def _crashes(error: BaseException) -> Iterator[PenstockError]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _crashes(inner)
    elif isinstance(error, PenstockError) and error.diagnostic.code in _CRASHED:
        yield error


def _crash_loop(
    connector: str, began_at: Sequence[Partition], crash: PenstockError, crashes: int
) -> DataError:
    named = "; ".join(map(_named, began_at[:_MAX_NAMED]))
    more = len(began_at) - _MAX_NAMED
    others = f"; and {more} more" if more > 0 else ""
    return DataError(
        "plugin.crash_loop",
        f"a plugin crashed {crashes} times without a commit, each time after it started to read "
        f"{named}{others}. {crash.diagnostic.message}",
        fix="Correct the data at these offsets, or skip it: `penstock connector stop "
        f"{connector}`, then `penstock offsets set {connector} FILE`. Report the last log lines "
        "to the plugin's author.",
    )


def _named(partition: Partition) -> str:
    if partition.offset is None:
        return f"{partition.id} at its beginning"
    return f"{partition.id} at {canonical_json(partition.offset)}"


ISOLATION_S: Final = 30.0
"""Time that isolated plugins must run without a crash. Shorter would clear a task before its plugin
reads what crashes it; longer makes other tasks wait for their isolation.
"""


class RunSpecSource(Protocol):
    """Creates the spec of a run."""

    def __call__(self, *, isolated: bool) -> Awaitable[RunSpec]:
        """Return the spec of the next run. `isolated`: with plugin processes of its own, if
        possible.
        """


class Task(TaskSupervisor):
    """Moves the rows of the partitions that it is assigned."""

    def __init__(
        self,
        assignment: Assignment,
        make_spec: RunSpecSource,
        policy: RestartPolicy,
        on_change: Callable[[], None],
    ) -> None:
        """`make_spec` is called once for each run."""
        super().__init__(assignment, policy, on_change)
        self._make_spec = make_spec
        self.inspections = Inspections()
        self._counters = TaskCounters()
        self._run: TaskRun | None = None
        self._version = ""
        self._paused = assignment.is_paused
        self._crash_loop = CrashLoopDetector(self.connector)

    async def run(self) -> None:
        """Run until the end. Never raises: errors are in the status."""
        try:
            await super().run()
        finally:
            self.inspections.close()

    def stop(self) -> None:
        """Request the end. `run()` returns when it is reached."""
        super().stop()
        if self._run is not None:
            self._run.stop()

    def update(self, wanted: Assignment) -> None:
        """Pause or resume. Source and sink stay open."""
        self._paused = wanted.is_paused
        if self._run is not None:
            self._run.pause(paused=wanted.is_paused)

    def status(self) -> TaskStatus:
        """Return the present status, with the counters of the task."""
        counters = self._counters
        return replace(
            super().status(),
            rows_read=counters.rows_read,
            rows_written=counters.rows_written,
            rows_failed=counters.rows_failed,
            bytes_read=counters.bytes_read,
            batches=counters.batches,
            bytes_left=counters.bytes_left,
            rows_left=counters.rows_left,
            plugin_version=self._version,
            metrics=counters.snapshot(self._times, self._starts),
            datasets=counters.datasets(),
            datasets_left_out=counters.datasets_left_out,
            plugin_metrics=counters.plugin_metrics(),
        )

    def _on_run_state(self, state: TaskState) -> None:
        """Apply the state of a run. Its first state means that source and sink are open."""
        if self._running_since is None:
            self._set_running()
        else:
            self._set_state(state)

    async def _run_once(self) -> TaskState:
        while True:
            isolated = self._crash_loop.is_suspected
            # the spec waits for the engine, which may take long
            spec = await self._unless_stopped(self._make_spec(isolated=isolated))
            if spec is None:
                return TaskState.STOPPED
            self._version = spec.plugin_version
            completed = await self._run_spec(spec)
            if completed or self._stop.is_set():
                return TaskState.COMPLETED if completed else TaskState.STOPPED
            log.info("task %s starts another run", self.task_id)

    async def _run_spec(self, spec: RunSpec) -> bool:
        """Run once, until the end or a change of secrets. Returns whether all rows were moved."""
        self.inspections.set_transforms(spec.chain.transforms)
        run = self._run = TaskRun(spec, self._counters, self.inspections, self._on_run_state)
        run.pause(paused=self._paused)
        changed = asyncio.create_task(self._wait_for_next_run(spec))
        changed.add_done_callback(lambda _: run.stop())  # harmless when the run has ended
        try:
            await run.run()
        except Exception as error:
            self._counters.record_error()
            is_idle = self._was_healthy() and not run.batch_count
            is_progress = bool(run.commit_count) or is_idle
            self._crash_loop.record(
                error, run.began_at, is_progress=is_progress, is_isolated=spec.is_isolated
            )
            raise
        finally:
            self._run = None
            spec.release()
            changed.cancel()
            await asyncio.gather(changed, return_exceptions=True)
        return run.completed

    async def _wait_for_next_run(self, spec: RunSpec) -> None:
        """Return when another run must start: the secrets changed, or isolated plugins did not
        crash, so that the task returns to shared ones.
        """
        if not spec.is_isolated:
            await spec.wait_for_change()
            log.info("the secrets of task %s changed", self.task_id)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(ISOLATION_S):
                await spec.wait_for_change()
        self._crash_loop.reset()
