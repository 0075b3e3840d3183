"""A task: its runs move the rows of the partitions that it is assigned. It fails when its plugin
crashes again and again at one place.

A run that ends with `plugin.crashed` without a commit counts as a crash at the offsets where it
started. Tasks share plugin processes, so a task that crashes them takes others down. After
`MAX_CRASHES - 1` crashes at one place a task is suspected, and its next run is isolated: it gets
plugin processes of its own. If these crash too, the task fails and names the offsets; if not,
another task is the cause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol

from penstock.aio import cancel_and_wait
from penstock.model.backoff import RestartPolicy
from penstock.model.connector import Partition, TaskState, TaskStatus
from penstock.model.errors import DataError, PenstockError
from penstock.worker.task.live_rows import Inspections
from penstock.worker.task.metrics import TaskCounters
from penstock.worker.task.supervisor import Assignment, TaskSupervisor
from penstock.worker.task.task_run import RunSpec, TaskRun
from penstock.worker.task.write_retries import WriteRetries
from penstock_values.identity import canonical_json

log = logging.getLogger(__name__)


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

    def __call__(self, *, isolated: bool) -> Coroutine[Any, Any, RunSpec]:
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
        self._write_retries = WriteRetries()

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

    def fingerprint(self) -> tuple[object, ...]:
        """Return what the scheduler must learn soon: also counters."""
        return (*super().fingerprint(), self._version, *self._counters.fingerprint())

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
            spec = await self._until_stopped(self._make_spec(isolated=isolated))
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
        retry = self._write_retries.next(spec.retries.max_writes)
        if retry is not None and retry.reject is not None:
            log.error(
                "task %s: rows that the sink could not write in %d retries are rejected: %s",
                self.task_id,
                spec.retries.max_writes,
                retry.reject,
            )
        run = self._run = TaskRun(
            spec,
            self._counters,
            self.inspections,
            self._on_run_state,
            retry,
        )
        run.pause(paused=self._paused)
        changed = asyncio.create_task(self._wait_for_next_run(spec))
        changed.add_done_callback(lambda _: run.stop())  # harmless when the run has ended
        try:
            with spec.watch_attempts(self._record_attempt):
                await run.run()
            self._write_retries.record(None, retry, is_progress=bool(run.commit_count))
        except Exception as error:
            self._counters.record_error()
            is_idle = self._was_healthy() and not run.batch_count
            is_progress = bool(run.commit_count) or is_idle
            self._write_retries.record(
                None if next(_crashes(error), None) else run.unwritten,
                retry,
                is_progress=bool(run.commit_count),
            )
            self._crash_loop.record(
                error, run.began_at, is_progress=is_progress, is_isolated=spec.is_isolated
            )
            raise
        finally:
            self._run = None
            spec.release()
            await cancel_and_wait(changed)
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
