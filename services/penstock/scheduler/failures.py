"""Which tasks failed, and when they are started anew. No I/O: time and chance are arguments."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.errors import Diagnostic, ErrorClass, RetriableError
from penstock.scheduler.ownership import Session
from penstock.scheduler.records import Owned
from penstock.scheduler.restarts import Fate, History, RestartPolicy, judge
from penstock.scheduler.wanted import TaskSpec

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
