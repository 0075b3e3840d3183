"""The Spark jobs that run, their cancellation, and tasks that compute on after it.

Spark cancels a job at once, and requests its tasks to end. A task checks for that between rows
only. An expression that computes for minutes over one row keeps its thread, and with it one of the
slots of `local[N]`, although its job has ended. Executors of a cluster end such tasks themselves
(`spark.task.reaper`). In the JVM of this process nothing does, so `watch_stuck_tasks` counts their
threads.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError

from penstock.spark.jvm import Jvm

CANCEL_INTERVAL_S: Final = 0.1
"""Interval between two orders to cancel a job. Spark knows a job only some milliseconds after its
thread has submitted it, and forgets an order that came before. A longer interval lets a job run on
for as long; a shorter one only adds calls to a busy JVM."""

STUCK_AFTER_S: Final = 10.0
"""Time after which a cancelled task counts as stuck. A row of an ordinary expression takes
microseconds, and a Python worker is ended after two seconds, so no healthy task takes as long. A
longer wait would leave the others with fewer slots, unnoticed."""

_POLL_INTERVAL_S: Final = 0.5

_LISTENER_DELAY_S: Final = 5.0
"""Time within which Spark's listeners know a job and its stages, even on an overloaded machine."""

_TASK_THREAD: Final = re.compile(r"Executor task launch worker for task .* in stage (\d+)\.")

_IDLE: Final = "java.util.concurrent.SynchronousQueue"
"""The lock at which an idle thread of the pool waits. It keeps the name of its last task."""


class SparkJob:
    """One run of a plan.

    Attributes:
        group: Its name in Spark, unique to this run.
        cancelled: Whether it was ordered to end.
        stages: Its stages that Spark knew when it was cancelled.
    """

    def __init__(self, task_id: str, number: int) -> None:
        self.task_id = task_id
        self.group = f"{task_id}/{number}"
        self.cancelled = False
        self.stages: set[int] = set()
        self._ended = threading.Event()

    def end(self) -> None:
        """Note that its thread has finished."""
        self._ended.set()

    def cancel(self, order: Callable[[str], object], on_end: Callable[[], object]) -> None:
        """Repeat `order` in a thread until the job has ended, then call `on_end` there.
        Idempotent.
        """
        if self.cancelled:
            return
        self.cancelled = True
        name = f"cancel {self.group}"
        threading.Thread(
            target=self._cancel_until_ended, args=(order, on_end), name=name, daemon=True
        ).start()

    def _cancel_until_ended(
        self, order: Callable[[str], object], on_end: Callable[[], object]
    ) -> None:
        order(self.group)
        while not self._ended.wait(CANCEL_INTERVAL_S):
            order(self.group)
        on_end()


class SparkJobs:
    """The jobs that run. Bounded by the admission queue before it."""

    def __init__(self) -> None:
        self._running: set[SparkJob] = set()
        self._numbers = itertools.count(1)

    @property
    def running(self) -> int:
        """Number of jobs that run."""
        return len(self._running)

    @contextmanager
    def run(self, task_id: str) -> Iterator[SparkJob]:
        """Register a job for the time of the body."""
        job = SparkJob(task_id, next(self._numbers))
        self._running.add(job)
        try:
            yield job
        finally:
            self._running.discard(job)

    def of_task(self, task_id: str) -> list[SparkJob]:
        """Return the jobs of a task."""
        return [job for job in self._running if task_id == job.task_id]

    def all(self) -> list[SparkJob]:
        """Return all jobs."""
        return list(self._running)


def find_stages(jvm: Jvm, group: str) -> set[int]:
    """Return the ids of the stages of a job group that Spark knows now."""
    try:
        tracker = jvm.session.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    except (Py4JError, OSError, AttributeError):  # the JVM ends, and its tasks with it
        return set()
    return {stage for job in jobs if job is not None for stage in job.stageIds}


def count_running_tasks(jvm: Jvm, stages: Collection[int]) -> int:
    """Return how many threads of this JVM run a task of these stages."""
    try:
        management = jvm.session._jvm.java.lang.management  # noqa: SLF001 - pyspark has no other way
        threads = management.ManagementFactory.getThreadMXBean().dumpAllThreads(False, False)
        running = 0
        for thread in threads:
            task = _TASK_THREAD.match(thread.getThreadName())
            if task is None or int(task[1]) not in stages:
                continue
            running += _IDLE not in (thread.getLockName() or "")
    except (Py4JError, OSError, AttributeError):  # the JVM has ended, or was stopped
        return 0
    return running


def watch_stuck_tasks(
    jvm: Jvm, group: str, stages: set[int], on_change: Callable[[int], object], stuck_after_s: float
) -> None:
    """Call `on_change` with the number of stuck tasks of a cancelled job group whenever it changes:
    first after `stuck_after_s`, at last with 0. Blocks until no task runs.

    `stages` are those that were known at the cancellation. Spark's listeners learn of a job late,
    on a busy machine only after it was cancelled, so the stages are read again at first.
    """
    began, stuck = time.monotonic(), 0
    while True:
        elapsed_s = time.monotonic() - began
        if elapsed_s < _LISTENER_DELAY_S:
            stages |= find_stages(jvm, group)
        running = count_running_tasks(jvm, stages)
        if running == 0 and elapsed_s >= _LISTENER_DELAY_S:
            break
        if elapsed_s >= stuck_after_s and running != stuck:
            stuck = running
            on_change(stuck)
        time.sleep(_POLL_INTERVAL_S)
    if stuck:
        on_change(0)
