"""Restarts of tasks: after failures, and on request. No I/O: time and randomness are arguments.

A failed task restarts, is reassigned, or stays FAILED, by the class of its error and the number of
restarts in a row (`decide_action`, `RestartTracker`).

An operator requests restarts from the config service, which keeps the requests with their
connector, numbered by markers. The leader *accepts* them (`RestartRequests`): it decides which
tasks they cover as things are now, and stores that with the newest marker. An accepted task is
restarted as soon as its epoch is newer than the stored entry. So every leader derives from
revisions alone which restarts are left, and none restarts a task twice (invariant 7).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.model.backoff import RestartPolicy
from penstock.model.connector import RestartRequest, TaskState, TaskStatus
from penstock.model.errors import Diagnostic, ErrorClass, RetriableError
from penstock.model.status import ConnectorStatus, RunState
from penstock.scheduler.state.desired_state import DesiredConnector, TaskSpec, monitor_id
from penstock.scheduler.state.records import AcceptedRestarts, OwnedTask
from penstock.scheduler.state.workers import Session

MAX_INTERNAL_RESTARTS: Final = 3
"""Restarts after INTERNAL errors. Fewer leave a task down after an accident (a lost JVM); more hide
a defect behind a task that seems to run."""

_RESTARTABLE: Final = frozenset({ErrorClass.UNSPECIFIED, ErrorClass.RETRIABLE, ErrorClass.INTERNAL})


RESTARTS: Final = RestartPolicy(
    first_delay_s=1.0, max_delay_s=60.0, healthy_after_s=300.0, jitter=0.25
)
"""The delays of restarts under a new epoch. A smaller first delay spins on what fails at once; a
larger maximum leaves rows waiting after a long outage."""


class FailureAction(Enum):
    """The reaction to a failed task."""

    RESTART = "restart"
    """It starts again on the same worker, under a new epoch."""
    REASSIGN = "reassign"
    """Its worker loses it, and it is assigned again."""
    WAIT = "wait"
    """It stays FAILED."""


@dataclass(frozen=True, slots=True)
class FailureDecision:
    """An action, and the delay after which it is due."""

    action: FailureAction
    delay_s: float = 0.0


def decide_action(
    policy: RestartPolicy,
    error_class: ErrorClass,
    restarts: int,
    max_restarts: int,
    random_fraction: float,
) -> FailureDecision:
    """Return the reaction to a task that failed after `restarts` restarts in a row.

    `max_restarts` is `restart.max` of the connector; -1 means no limit.
    """
    delay_s = policy.delay_s(restarts, random_fraction)
    limit = max_restarts
    if error_class is ErrorClass.INTERNAL:
        limit = MAX_INTERNAL_RESTARTS if limit < 0 else min(limit, MAX_INTERNAL_RESTARTS)
    if 0 <= limit <= restarts:
        return FailureDecision(FailureAction.WAIT)
    if error_class is ErrorClass.FENCED:
        return FailureDecision(FailureAction.REASSIGN, delay_s)
    if error_class in _RESTARTABLE:
        return FailureDecision(FailureAction.RESTART, delay_s)
    return FailureDecision(FailureAction.WAIT)


@dataclass(slots=True)
class RestartHistory:
    """The restarts of one task. Times are readings of a monotonic clock."""

    restarts: int = 0
    due_at: float | None = None
    """When the action is due; None: no action is pending."""
    action: FailureAction | None = None
    diagnostic: Diagnostic | None = None
    decided_epoch: int = 0
    """The epoch whose failure was decided. Each failure is decided once, however often it is
    reported."""
    running_since: float | None = None
    is_requested: bool = False
    """An operator requested the restart: the count begins anew."""
    is_restarting: bool = False
    """It got a new epoch after a failure or a request, and does not run yet."""

    def record_failure(
        self, decision: FailureDecision, why: Diagnostic, epoch: int, now: float
    ) -> None:
        """Record the decision on the failure of an epoch."""
        self.decided_epoch, self.action, self.diagnostic = epoch, decision.action, why
        self.running_since = None
        self.due_at = None if decision.action is FailureAction.WAIT else now + decision.delay_s

    def request_restart(self, now: float) -> None:
        """Record that an operator requested a restart."""
        self.action, self.due_at, self.is_requested = FailureAction.RESTART, now, True

    def next_restarts(self) -> int:
        """Return the count of restarts after the pending action; without one, the count now."""
        if self.is_requested:
            return 0
        return self.restarts + (self.action in {FailureAction.RESTART, FailureAction.REASSIGN})

    def record_assignment(self, restarts: int) -> None:
        """Record that the task got a new epoch."""
        self.is_restarting = self.action is not None
        self.restarts, self.is_requested = restarts, False
        self.due_at = self.action = self.diagnostic = self.running_since = None

    def record_running(self, now: float, healthy_after_s: float) -> None:
        """Record that the task runs. After `healthy_after_s`, the count of restarts is reset."""
        self.is_restarting = False
        if self.running_since is None:
            self.running_since = now
        elif now - self.running_since >= healthy_after_s:
            self.restarts = 0


TASK_LOST: Final = RetriableError(
    "scheduler.task_lost",
    "the worker no longer holds the task, and reported no error",
    fix="See the log of the worker.",
).diagnostic

_HEALTHY_STATES: Final = frozenset({TaskState.RUNNING, TaskState.PAUSED})
"""States of a task whose source and sink are open."""


class RestartTracker:
    """The restart histories of all tasks that failed or were restarted."""

    def __init__(self, policy: RestartPolicy, rng: random.Random) -> None:
        self._policy, self._rng = policy, rng
        self._histories: dict[str, RestartHistory] = {}

    def history(self, task_id: str) -> RestartHistory | None:
        """Return the history of a task, if it has one."""
        return self._histories.get(task_id)

    def known(self) -> AbstractSet[str]:
        """Return the tasks that have a history."""
        return self._histories.keys()

    def record_report(
        self,
        spec: TaskSpec,
        owned: OwnedTask,
        session: Session,
        status: TaskStatus | None,
        now: float,
    ) -> None:
        """Record what the owner reports of a task. A failure of an epoch is decided once."""
        history = self._histories.get(spec.id)
        if status is not None and status.state in _HEALTHY_STATES:
            if owned.record.restarts or history is not None:
                healthy_after_s = self._policy.healthy_after_s
                self._get_or_add(spec.id, owned).record_running(now, healthy_after_s)
            return
        why = _failure(spec.id, owned, session, status)
        if why is None or (history is not None and history.decided_epoch == owned.epoch):
            return
        history = self._get_or_add(spec.id, owned)
        before = history.restarts + (status.restarts_in_a_row if status else 0)
        limit = spec.rules.max_restarts
        decision = decide_action(self._policy, why.error_class, before, limit, self._rng.random())
        history.record_failure(decision, why, owned.epoch, now)

    def request_restart(self, task_id: str, owned: OwnedTask | None, now: float) -> None:
        """Restart a task now, because an operator requested it."""
        if owned is not None:
            self._get_or_add(task_id, owned).request_restart(now)

    def record_assignment(self, task_id: str, restarts: int) -> None:
        """Record that a task got a new epoch."""
        if task_id in self._histories:
            self._histories[task_id].record_assignment(restarts)

    def retain(self, owned: Mapping[str, OwnedTask]) -> None:
        """Forget the tasks without an owner."""
        self._histories = {id_: h for id_, h in self._histories.items() if id_ in owned}

    def due_restarts(self, now: float) -> dict[str, int]:
        """Return the tasks whose restart is due, with the count of restarts after it."""
        return {
            id_: history.next_restarts()
            for id_, history in self._histories.items()
            if history.due_at is not None and history.due_at <= now
        }

    def restart_counts(self) -> dict[str, int]:
        """Return the restarts in a row of each task with a history; 0 after a healthy time."""
        return {id_: history.restarts for id_, history in self._histories.items()}

    def delayed_tasks(self, now: float) -> set[str]:
        """Return the tasks that may not start now: their delay runs, or they stay FAILED."""
        return {
            id_
            for id_, history in self._histories.items()
            if history.action is not None and (history.due_at is None or history.due_at > now)
        }

    def fenced_tasks(self) -> set[str]:
        """Return the tasks that may not restart on their worker."""
        histories = self._histories.items()
        return {id_ for id_, history in histories if history.action is FailureAction.REASSIGN}

    def next_due_at(self, now: float) -> float | None:
        """Return when the next restart will be due."""
        times = (h.due_at for h in self._histories.values() if h.due_at is not None)
        return min((time for time in times if time > now), default=None)

    def _get_or_add(self, task_id: str, owned: OwnedTask) -> RestartHistory:
        history = self._histories.get(task_id)
        if history is None:
            history = self._histories[task_id] = RestartHistory(restarts=owned.record.restarts)
        return history


def _failure(
    task_id: str, owned: OwnedTask, session: Session, status: TaskStatus | None
) -> Diagnostic | None:
    """Return why a task does not run that should; None when it runs, or is about to start."""
    if status is None or status.state is TaskState.STOPPED:
        if status is not None and status.diagnostic is not None:
            is_fenced = status.diagnostic.error_class is ErrorClass.FENCED
            if is_fenced:
                return status.diagnostic
        return TASK_LOST if session.has_released(task_id, owned.epoch) else None
    if status.state is not TaskState.FAILED:
        return None
    return status.diagnostic or TASK_LOST


_NONE_ACCEPTED: Final = AcceptedRestarts(0)


class RestartRequests:
    """The accepted restart requests of all connectors, and the tasks still to restart."""

    def __init__(self) -> None:
        self._accepted: dict[str, AcceptedRestarts] = {}
        self._pending: dict[str, int] = {}

    def load(self, accepted: Mapping[str, AcceptedRestarts]) -> None:
        """Set what is stored, by generation."""
        self._accepted, self._pending = {}, {}
        for generation, restarts in accepted.items():
            self.record_accepted(generation, restarts)

    def record_accepted(self, generation: str, restarts: AcceptedRestarts) -> None:
        """Record accepted restarts that were stored."""
        self._accepted[generation] = restarts
        self._pending.update(dict.fromkeys(restarts.tasks, restarts.revision))

    def pending_tasks(self, owned: Mapping[str, OwnedTask]) -> set[str]:
        """Return the tasks that are still to be restarted. A task without an owner needs no
        restart: it gets a new epoch anyway.
        """
        self._pending = {
            id_: revision
            for id_, revision in self._pending.items()
            if id_ in owned and owned[id_].epoch < revision
        }
        return set(self._pending)

    def accept_new(
        self,
        connectors: Mapping[str, DesiredConnector],
        status_of: Callable[[DesiredConnector], ConnectorStatus],
        has_reports_of: Callable[[DesiredConnector], bool],
    ) -> Iterator[tuple[str, AcceptedRestarts]]:
        """Yield the restarts to accept now, by generation.

        A request that covers only failed tasks waits until `has_reports_of` its connector: a new
        leader must receive the reports of the workers first.
        """
        for generation, desired in connectors.items():
            accepted = self._accepted.get(generation, _NONE_ACCEPTED)
            requests = [one for one in desired.connector.restarts if one.marker > accepted.marker]
            only_failed = any(request.only_failed for request in requests)
            if requests and (not only_failed or has_reports_of(desired)):
                yield generation, self._accept(requests, status_of(desired), accepted)

    def remove_gone(self, connectors: Container[str]) -> list[str]:
        """Forget the connectors that no longer exist, and return their generations."""
        gone = [generation for generation in self._accepted if generation not in connectors]
        for generation in gone:
            del self._accepted[generation]
        return gone

    def _accept(
        self, requests: list[RestartRequest], status: ConnectorStatus, before: AcceptedRestarts
    ) -> AcceptedRestarts:
        """Return the restarts of requests, with the pending ones of the entry that they replace."""
        covered = [covered_tasks(request, status) for request in requests]
        tasks = {id_ for id_ in before.tasks if id_ in self._pending}.union(*covered)
        replan = any(monitor_id(status.generation) in ids for ids in covered)
        return AcceptedRestarts(requests[-1].marker, tuple(sorted(tasks)), replan)


def covered_tasks(request: RestartRequest, status: ConnectorStatus) -> set[str]:
    """Return the tasks that a request covers as things are now. The id of the monitor stands for
    the connector itself, even when it has no monitor.
    """
    states = {RunState.FAILED} if request.only_failed else set(RunState)
    tasks = {task.task_id for task in status.tasks if task.state in states}
    if request.task_id:
        return tasks & {request.task_id}
    connector = {monitor_id(status.generation)} if status.state in states else set()
    return connector | (tasks if request.include_tasks else set())
