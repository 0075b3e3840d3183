"""What an assignment names: units that are to be held, and units that go on."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from penstock.model.connector import Connector, TargetState, TaskPlan, TaskState, TaskStatus
from penstock.model.errors import (
    Diagnostic,
    ErrorClass,
    InternalError,
    PenstockError,
    RetriableError,
)
from penstock.telemetry import TRACE, attributed
from penstock.worker.redacted import hidden
from penstock.worker.task.metrics import Times

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A task of an assignment, or a monitor.

    A monitor has a plan without partitions, and the `plan_epoch` of the plans that it should know.
    """

    connector: Connector
    plan: TaskPlan
    epoch: int
    plan_epoch: int = 0

    @property
    def monitor(self) -> bool:
        """Whether it is the monitor of its connector."""
        return self.plan_epoch > 0

    @property
    def paused(self) -> bool:
        """Whether it is to move no rows."""
        return self.connector.target_state is TargetState.PAUSED


@dataclass(frozen=True, slots=True)
class Kept:
    """A task that goes on at its epoch; only its target state may differ."""

    epoch: int
    target_state: TargetState


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often and how fast a task is run again after a retriable error.

    `first` and `longest` are seconds. A smaller `first` spins on a plugin that dies at once; a
    larger `longest` leaves rows waiting after a long outage. `most` restarts in a row, -1 means no
    limit. `healthy`: who has been RUNNING this long begins a new row, and with the first delay.
    Being opened does not count: a system that does not answer would look well for its timeout.
    """

    first: float = 0.5
    longest: float = 30.0
    healthy: float = 30.0
    most: int = -1


class Life(ABC):
    """One assignment: lives until it is completed, stopped, fenced or failed for good."""

    def __init__(
        self, assigned: Assigned, policy: RestartPolicy, on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called at each change of state."""
        self.connector, self.task_id = assigned.connector.name, assigned.plan.task_id
        self.epoch = assigned.epoch
        self._policy, self._on_change = policy, on_change
        self._state = TaskState.STARTING
        self._diagnostic: Diagnostic | None = None
        self._restarts = self._in_a_row = 0
        self._times = Times(self._state)
        self._starts = Counter[str]()
        self._ran_since: float | None = None
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until the end. Never raises: what went wrong is in the status."""
        with attributed(connector=self.connector, task=self.task_id, epoch=self.epoch):
            await self._lives()

    async def _lives(self) -> None:
        delay = self._policy.first
        while not self._stop.is_set():
            self._ran_since = None
            error = await self._tried()
            if error is None:
                return
            if self._was_healthy():
                delay, self._in_a_row = self._policy.first, 0
            if not self._again(error):
                self._become(_last_state(error), error.diagnostic)
                log.error("task %s ended: %s", self.task_id, error, extra=traced(error))
                return
            self._restarts += 1
            self._in_a_row += 1
            self._become(TaskState.RESTARTING, error.diagnostic)
            log.warning("task %s runs again in %.1f s: %s", self.task_id, delay, error)
            await self._wait(delay)
            delay = min(delay * 2, self._policy.longest)
        self._become(TaskState.STOPPED)

    def stop(self) -> None:
        """Ask for the end. `run()` returns when it is there."""
        self._stop.set()

    def status(self) -> TaskStatus:
        """Return how it is."""
        return TaskStatus(
            self.task_id,
            self.connector,
            self.epoch,
            self._state,
            self._diagnostic,
            restarts=self._restarts,
            restarts_in_a_row=self._in_a_row,
        )

    @abstractmethod
    def follow(self, wanted: Assigned) -> None:
        """Take in what may change while it runs: everything but the epoch."""

    @abstractmethod
    async def _live(self) -> TaskState:
        """Live once, until the end or a stop; returns the state that it ends in."""

    async def _tried(self) -> PenstockError | None:
        """Live once; returns the error that ended it, None for completed or stopped."""
        self._become(TaskState.STARTING, self._diagnostic)
        self._starts["starts"] += 1
        try:
            self._become(await self._live())
        except Exception as error:  # noqa: BLE001 - it must not touch another task (invariant 8)
            self._starts["start_failures"] += self._ran_since is None
            return first_error(error)
        return None

    async def _unless_stopped(self, work: Awaitable[_T]) -> _T | None:
        """Wait for something that may take long; None when a stop comes first, which ends it."""
        working = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            stopped.cancel()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    def _running(self) -> None:
        self._ran_since = time.monotonic()
        self._starts["started"] += 1
        self._become(TaskState.RUNNING)

    def _again(self, error: PenstockError) -> bool:
        if error.diagnostic.error_class is not ErrorClass.RETRIABLE or self._stop.is_set():
            return False
        return self._policy.most < 0 or self._in_a_row < self._policy.most

    def _was_healthy(self) -> bool:
        since = self._ran_since
        return since is not None and time.monotonic() - since > self._policy.healthy

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def _become(self, state: TaskState, diagnostic: Diagnostic | None = None) -> None:
        self._state = state
        self._times.enter(state)
        self._diagnostic = hidden(diagnostic) if diagnostic else None
        self._on_change()


def _last_state(error: PenstockError) -> TaskState:
    fenced = error.diagnostic.error_class is ErrorClass.FENCED
    return TaskState.STOPPED if fenced else TaskState.FAILED


def traced(error: PenstockError) -> dict[str, str]:
    """Return what a log line has beside its message: the stack trace of a connector's defect."""
    return {TRACE: error.diagnostic.trace} if error.diagnostic.trace else {}


def first_error(error: BaseException) -> PenstockError:
    """Return the error with a diagnostic inside a group or a foreign exception."""
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, BaseExceptionGroup):
        errors = [first_error(inner) for inner in error.exceptions]
        return min(errors, key=lambda e: e.diagnostic.error_class is ErrorClass.INTERNAL)
    if isinstance(error, TimeoutError | ConnectionError):
        return RetriableError(
            "task.connection",
            f"{type(error).__name__}: {error}",
            fix="It is tried again; if it repeats, see whether what the task talks to is there.",
        )
    log.error("unexpected error in a task", exc_info=error)
    return InternalError(
        "task.unexpected",
        f"{type(error).__name__}: {error}",
        fix="This is a defect: report it with the log.",
    )
