"""Supervises what a worker is assigned: `TaskSupervisor` is the restart loop of a task and of a
monitor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from penstock.aio import run_until_set
from penstock.model.backoff import RestartPolicy
from penstock.model.connector import Connector, TargetState, TaskPlan, TaskState, TaskStatus
from penstock.model.errors import (
    Diagnostic,
    ErrorClass,
    InternalError,
    PenstockError,
    RetriableError,
)
from penstock.telemetry.logs import log_context
from penstock.telemetry.redaction import STACK_TRACE, redact_diagnostic
from penstock.worker.task.metrics import StateTimes

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


_LOGGED_STATES: Final = frozenset(
    {TaskState.RUNNING, TaskState.PAUSED, TaskState.COMPLETED, TaskState.STOPPED}
)
"""Those that no error explains: an error has a line of its own."""


class TaskSupervisor(ABC):
    """Runs one assignment until it is completed, stopped, fenced, or failed for good."""

    logs_states: ClassVar[bool] = True

    def __init__(
        self, assignment: Assignment, policy: RestartPolicy, on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called at each change of state."""
        self.connector, self.task_id = assignment.connector.name, assignment.plan.task_id
        self.epoch = assignment.epoch
        self._policy, self._on_change = policy, on_change
        self._state = TaskState.STARTING
        self._diagnostic: Diagnostic | None = None
        self._attempt: Diagnostic | None = None
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
        while not self._stop.is_set():
            self._running_since = None
            error = await self._try_once()
            if error is None:
                return
            if self._was_healthy():
                self._restarts_in_a_row = 0
            if not self._may_restart(error):
                self._set_state(_final_state(error), error.diagnostic)
                log.error("task %s failed: %s", self.task_id, error, extra=trace_field(error))
                return
            delay_s = self._policy.delay_s(self._restarts_in_a_row)
            self._restarts += 1
            self._restarts_in_a_row += 1
            is_same = self._diagnostic is not None and self._diagnostic.code == error.code
            self._set_state(TaskState.RESTARTING, error.diagnostic)
            # the fix is told once: a system that is away for long would fill the log with it
            why = f"[{error.code}] {error.diagnostic.message}" if is_same else str(error)
            log.warning("task %s restarts in %.1f s: %s", self.task_id, delay_s, why)
            await self._wait(delay_s)
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
            self._attempt or self._diagnostic,
            restarts=self._restarts,
            restarts_in_a_row=self._restarts_in_a_row,
        )

    def fingerprint(self) -> tuple[object, ...]:
        """Return what the scheduler must learn soon. While it is equal, only metrics that depend on
        the time have changed.
        """
        return (
            self.epoch,
            self._state,
            self._attempt or self._diagnostic,
            self._restarts,
            self._restarts_in_a_row,
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

    async def _until_stopped(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """Wait for work that may take long. A stop cancels it, and None is returned."""
        return await run_until_set(self._stop, work)

    def _set_running(self) -> None:
        self._running_since = time.monotonic()
        self._starts["started"] += 1
        self._set_state(TaskState.RUNNING)

    def _record_attempt(self, failure: Diagnostic) -> None:
        """Report why the last attempt to open failed, while further ones are made."""
        if self._state is TaskState.STARTING:
            self._attempt = redact_diagnostic(failure)
            self._on_change()

    def _may_restart(self, error: PenstockError) -> bool:
        if error.diagnostic.error_class is not ErrorClass.RETRIABLE or self._stop.is_set():
            return False
        return self._policy.max_restarts < 0 or self._restarts_in_a_row < self._policy.max_restarts

    def _was_healthy(self) -> bool:
        # opening does not count: a system that does not answer would seem healthy until its timeout
        since = self._running_since
        return since is not None and time.monotonic() - since > self._policy.healthy_after_s

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def _set_state(self, state: TaskState, diagnostic: Diagnostic | None = None) -> None:
        if self.logs_states and state is not self._state and state in _LOGGED_STATES:
            log.info("task %s is %s", self.task_id, state.name)
        self._state = state
        self._times.enter(state)
        self._attempt = None
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
