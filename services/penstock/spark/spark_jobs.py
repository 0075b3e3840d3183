"""The Spark jobs that run, so that those of a task can be cancelled at any moment of their life."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

AGAIN: Final = 0.1
"""Seconds between two orders to cancel a job. Spark knows a job only some milliseconds after its
thread asked for it, and forgets an order that came before; longer would let a job slip through for
as long, shorter would only ask a busy JVM more often."""


class Job:
    """One run of a plan.

    Attributes:
        group: Its name in Spark: no two runs share one.
        cancelled: Whether it was ordered to end.
        stages: Those that Spark knew when it was cancelled.
    """

    def __init__(self, task_id: str, number: int) -> None:
        self.task_id = task_id
        self.group = f"{task_id}/{number}"
        self.cancelled = False
        self.stages: set[int] = set()
        self._ended = threading.Event()

    def end(self) -> None:
        """Note that its thread is done with it."""
        self._ended.set()

    def cancel(self, order: Callable[[str], object], ended: Callable[[], object]) -> None:
        """Give the order to cancel, in a thread of its own, until the job has ended; then call
        `ended` there. Idempotent.
        """
        if self.cancelled:
            return
        self.cancelled = True
        name = f"cancel {self.group}"
        threading.Thread(target=self._insist, args=(order, ended), name=name, daemon=True).start()

    def _insist(self, order: Callable[[str], object], ended: Callable[[], object]) -> None:
        order(self.group)
        while not self._ended.wait(AGAIN):
            order(self.group)
        ended()


class Jobs:
    """What runs. Bounded by the gate before it."""

    def __init__(self) -> None:
        self._running: set[Job] = set()
        self._numbers = itertools.count(1)

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._running)

    @contextmanager
    def run(self, task_id: str) -> Iterator[Job]:
        """Register a job for the time of the body."""
        job = Job(task_id, next(self._numbers))
        self._running.add(job)
        try:
            yield job
        finally:
            self._running.discard(job)

    def of(self, task_id: str | None = None) -> list[Job]:
        """Return the jobs of a task, or all."""
        return [job for job in self._running if task_id in {None, job.task_id}]
