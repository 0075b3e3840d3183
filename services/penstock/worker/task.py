"""A task over its lives: an error ends a run, the class of the error says what comes next.

RETRIABLE → run again after a growing delay · FENCED → stop, another owner has it · everything else
→ FAILED, with the diagnostic in the status.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.errors import (
    Diagnostic,
    ErrorClass,
    InternalError,
    PenstockError,
    RetriableError,
)
from penstock.worker.run import Numbers, RunSpec, TaskRun

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often and how fast a task is run again after a retriable error.

    `first` and `longest` are seconds. A smaller `first` spins on a plugin that dies at once; a
    larger `longest` leaves rows waiting after a long outage. `healthy`: a run this long starts the
    delays anew. `most` -1 means no limit.
    """

    first: float = 0.5
    longest: float = 30.0
    healthy: float = 30.0
    most: int = -1


class Task:
    """One assignment: runs until it is completed, stopped, fenced or failed for good."""

    def __init__(
        self,
        connector: str,
        task_id: str,
        epoch: int,
        spec: Callable[[], Awaitable[RunSpec]],
        policy: RestartPolicy,
        on_change: Callable[[], None],
    ) -> None:
        """`spec` makes the ends of one run; it is called once for each."""
        self.connector, self.task_id, self.epoch = connector, task_id, epoch
        self._spec, self._policy, self._on_change = spec, policy, on_change
        self._numbers = Numbers()
        self._state = TaskState.STARTING
        self._diagnostic: Diagnostic | None = None
        self._restarts = 0
        self._run: TaskRun | None = None
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until the end. Never raises: what went wrong is in the status."""
        delay = self._policy.first
        while not self._stop.is_set():
            began = time.monotonic()
            error = await self._live()
            if error is None:
                return
            if not self._again(error):
                self._become(_last_state(error), error.diagnostic)
                log.error("task %s ended: %s", self.task_id, error)
                return
            if time.monotonic() - began > self._policy.healthy:
                delay = self._policy.first
            self._restarts += 1
            self._become(TaskState.RESTARTING, error.diagnostic)
            log.warning("task %s runs again in %.1f s: %s", self.task_id, delay, error)
            await self._wait(delay)
            delay = min(delay * 2, self._policy.longest)
        self._become(TaskState.STOPPED)

    def stop(self) -> None:
        """Ask for the end. `run()` returns when it is there."""
        self._stop.set()
        if self._run is not None:
            self._run.stop()

    def status(self) -> TaskStatus:
        """Return how the task is."""
        numbers = self._numbers
        return TaskStatus(
            self.task_id,
            self.connector,
            self.epoch,
            self._state,
            self._diagnostic,
            rows_read=numbers.rows_read,
            rows_written=numbers.rows_written,
            bytes_read=numbers.bytes_read,
            batches=numbers.batches,
            bytes_left=numbers.bytes_left,
            rows_left=numbers.rows_left,
            restarts=self._restarts,
        )

    async def _live(self) -> PenstockError | None:
        """Run once; returns the error that ended it, None for completed or stopped."""
        self._become(TaskState.STARTING, self._diagnostic)
        try:
            spec = await self._unless_stopped(self._spec())
            if spec is None:
                self._become(TaskState.STOPPED)
                return None
            run = self._run = TaskRun(spec, self._numbers, self._running)
            await run.run()
        except Exception as error:  # noqa: BLE001 - it must not touch another task (invariant 8)
            return first_error(error)
        finally:
            self._run = None
        self._become(TaskState.COMPLETED if run.completed else TaskState.STOPPED)
        return None

    async def _unless_stopped(self, work: Awaitable[RunSpec]) -> RunSpec | None:
        """Wait for the ends of a run, which need an engine; None when a stop comes first."""
        working = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            stopped.cancel()
            working.cancel()

    def _running(self) -> None:
        self._become(TaskState.RUNNING)

    def _again(self, error: PenstockError) -> bool:
        if error.diagnostic.error_class is not ErrorClass.RETRIABLE or self._stop.is_set():
            return False
        return self._policy.most < 0 or self._restarts < self._policy.most

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    def _become(self, state: TaskState, diagnostic: Diagnostic | None = None) -> None:
        self._state, self._diagnostic = state, diagnostic
        self._on_change()


def _last_state(error: PenstockError) -> TaskState:
    fenced = error.diagnostic.error_class is ErrorClass.FENCED
    return TaskState.STOPPED if fenced else TaskState.FAILED


def first_error(error: BaseException) -> PenstockError:
    """Return the error with a diagnostic inside a group or a foreign exception."""
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, BaseExceptionGroup):
        errors = [first_error(inner) for inner in error.exceptions]
        return min(errors, key=lambda e: e.diagnostic.error_class is ErrorClass.INTERNAL)
    if isinstance(error, TimeoutError | ConnectionError):
        return RetriableError("task.connection", f"{type(error).__name__}: {error}")
    log.error("unexpected error in a task", exc_info=error)
    return InternalError(
        "task.unexpected",
        f"{type(error).__name__}: {error}",
        fix="This is a defect: report it with the log.",
    )
