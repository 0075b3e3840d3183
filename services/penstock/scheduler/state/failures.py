"""Which tasks failed, and when they are started anew. No I/O: time and chance are arguments."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.errors import Diagnostic, ErrorClass, RetriableError
from penstock.scheduler.state.ownership import Session
from penstock.scheduler.state.records import Owned
from penstock.scheduler.state.wanted import TaskSpec

DEFECTS: Final = 3
"""Restarts after INTERNAL errors. Fewer leave a task down after an accident (a lost JVM); more hide
a defect behind a task that seems to run."""

_AGAIN: Final = frozenset({ErrorClass.UNSPECIFIED, ErrorClass.RETRIABLE, ErrorClass.INTERNAL})


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How fast tasks are started anew, in seconds.

    A smaller `first` spins on what fails at once; a larger `longest` leaves rows waiting after a
    long outage. `quiet` must be longer than what a failing task usually lives, else delays never
    grow. `jitter` is the part of a delay that chance takes away, so that the tasks of a connector
    whose system comes back do not all arrive at once.
    """

    first: float = 1.0
    longest: float = 60.0
    quiet: float = 300.0
    jitter: float = 0.25

    def delay(self, restarts: int, chance: float) -> float:
        """Return the wait before a restart that follows `restarts` others; `chance` is in 0..1."""
        full = min(self.longest, self.first * 2.0 ** min(restarts, 60))
        return full * (1.0 - self.jitter * chance)


class Fate(Enum):
    """What becomes of a task."""

    RESTART = "restart"
    """Started anew where it is, under a new epoch."""
    REASSIGN = "reassign"
    """Taken away and assigned anew."""
    WAIT = "wait"
    """Stays FAILED."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A fate, and how long it takes until it comes."""

    fate: Fate
    delay: float = 0.0


def judge(
    policy: RestartPolicy, kind: ErrorClass, restarts: int, most: int, chance: float
) -> Verdict:
    """Return what becomes of a task that failed after `restarts` restarts in a row.

    `most` is the connector's `restart.max`; -1 means no limit.
    """
    delay = policy.delay(restarts, chance)
    limit = most if kind is not ErrorClass.INTERNAL else _lesser(most, DEFECTS)
    if 0 <= limit <= restarts:
        return Verdict(Fate.WAIT)
    if kind is ErrorClass.FENCED:
        return Verdict(Fate.REASSIGN, delay)
    return Verdict(Fate.RESTART, delay) if kind in _AGAIN else Verdict(Fate.WAIT)


def _lesser(most: int, bound: int) -> int:
    return bound if most < 0 else min(most, bound)


@dataclass(slots=True)
class History:
    """The restarts of one task. Times are readings of a monotonic clock."""

    restarts: int = 0
    due: float | None = None
    """When what was decided comes; None: nothing will, or nothing was."""
    fate: Fate | None = None
    diagnostic: Diagnostic | None = None
    judged: int = 0
    """Epoch whose failure was judged: a failure is judged once, however often it is reported."""
    running_since: float | None = None
    asked: bool = False
    """A person wants the restart: counting begins anew."""
    again: bool = False
    """It was given a new epoch after a failure, or because a person wanted it, and does not run
    yet."""

    def failed(self, verdict: Verdict, why: Diagnostic, epoch: int, now: float) -> None:
        """Note how the failure of an epoch was judged."""
        self.judged, self.fate, self.diagnostic = epoch, verdict.fate, why
        self.running_since = None
        self.due = None if verdict.fate is Fate.WAIT else now + verdict.delay

    def ask(self, now: float) -> None:
        """Note that a person wants a restart."""
        self.fate, self.due, self.asked = Fate.RESTART, now, True

    def next_restarts(self) -> int:
        """Return what the count is to be after a restart that is due; what it is, without one."""
        if self.asked:
            return 0
        return self.restarts + (self.fate in {Fate.RESTART, Fate.REASSIGN})

    def assigned(self, restarts: int) -> None:
        """Note that the task has a new epoch."""
        self.again = self.fate is not None
        self.restarts, self.asked = restarts, False
        self.due = self.fate = self.diagnostic = self.running_since = None

    def runs(self, now: float, quiet: float) -> None:
        """Note that the task was seen running; forgets the restarts after a quiet time."""
        self.again = False
        if self.running_since is None:
            self.running_since = now
        elif now - self.running_since >= quiet:
            self.restarts = 0


LOST: Final = RetriableError(
    "scheduler.task_lost",
    "the worker does not hold the task any more, and did not say why",
    fix="See the log of the worker.",
).diagnostic

_WELL: Final = frozenset({TaskState.RUNNING, TaskState.PAUSED})
"""States of a task whose ends are open."""


class Failures:
    """The failures of all tasks, each with what was decided about it."""

    def __init__(self, policy: RestartPolicy, chance: random.Random) -> None:
        self._policy, self._chance = policy, chance
        self._histories: dict[str, History] = {}

    def of(self, task_id: str) -> History | None:
        """Return the history of a task that has one."""
        return self._histories.get(task_id)

    def report(
        self, spec: TaskSpec, owned: Owned, session: Session, status: TaskStatus | None, now: float
    ) -> None:
        """Take in what the owner says of a task; a failure of an epoch is judged once."""
        history = self._histories.get(spec.id)
        if status is not None and status.state in _WELL:
            if owned.record.restarts or history is not None:
                self._history(spec.id, owned).runs(now, self._policy.quiet)
            return
        why = _failure(spec.id, owned, session, status)
        if why is None or (history is not None and history.judged == owned.epoch):
            return
        history = self._history(spec.id, owned)
        before = history.restarts + (status.restarts_in_a_row if status else 0)
        most = spec.rules.restart_max
        verdict = judge(self._policy, why.error_class, before, most, self._chance.random())
        history.failed(verdict, why, owned.epoch, now)

    def ask(self, task_id: str, owned: Owned | None, now: float) -> None:
        """Restart a task now, because a person wants it."""
        if owned is not None:
            self._history(task_id, owned).ask(now)

    def assigned(self, task_id: str, restarts: int) -> None:
        """Note that a task has a new epoch."""
        if task_id in self._histories:
            self._histories[task_id].assigned(restarts)

    def keep(self, owned: Mapping[str, Owned]) -> None:
        """Forget the tasks that nobody owns."""
        self._histories = {id_: h for id_, h in self._histories.items() if id_ in owned}

    def due(self, now: float) -> dict[str, int]:
        """Return the tasks whose restart is due, with the number of restarts that it makes."""
        return {
            id_: history.next_restarts()
            for id_, history in self._histories.items()
            if history.due is not None and history.due <= now
        }

    def counts(self) -> dict[str, int]:
        """Return the restarts in a row of the tasks that had some; 0 after a quiet time."""
        return {id_: history.restarts for id_, history in self._histories.items()}

    def waiting(self, now: float) -> set[str]:
        """Return the tasks that may not start now: their delay runs, or nothing is to follow."""
        return {
            id_
            for id_, history in self._histories.items()
            if history.fate is not None and (history.due is None or history.due > now)
        }

    def fenced(self) -> set[str]:
        """Return the tasks that may not start again where they are."""
        return {id_ for id_, h in self._histories.items() if h.fate is Fate.REASSIGN}

    def next_due(self, now: float) -> float | None:
        """Return when the next restart will be due."""
        times = (h.due for h in self._histories.values() if h.due is not None and h.due > now)
        return min(times, default=None)

    def _history(self, task_id: str, owned: Owned) -> History:
        history = self._histories.get(task_id)
        if history is None:
            history = self._histories[task_id] = History(restarts=owned.record.restarts)
        return history


def _failure(
    task_id: str, owned: Owned, session: Session, status: TaskStatus | None
) -> Diagnostic | None:
    """Return why a task does not run that should; None when it does, or is about to."""
    if status is None or status.state is TaskState.STOPPED:
        if status is not None and status.diagnostic is not None:
            fenced = status.diagnostic.error_class is ErrorClass.FENCED
            if fenced:
                return status.diagnostic
        return LOST if session.lets_go(task_id, owned.epoch) else None
    if status.state is not TaskState.FAILED:
        return None
    return status.diagnostic or LOST
