"""Tasks of cancelled jobs that go on computing.

Spark cancels a job at once, and asks its tasks to end; a task looks for that between rows only. An
expression that computes for minutes over one row so keeps its thread, and with it one of the slots
of `local[N]`, although its job is long gone. Executors of a cluster end such tasks themselves
(`spark.task.reaper`); in the JVM of this process nothing does, so its threads are counted here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from typing import Final

from py4j.protocol import Py4JError

from penstock.spark.session import Jvm

STUCK_AFTER_S: Final = 10.0
"""Seconds after which a task that was cancelled counts as stuck. A row of an ordinary expression
takes microseconds, and a Python worker is ended after two seconds, so nothing healthy takes as
long; a longer wait would leave the others with fewer slots without a word."""

_POLL_S: Final = 0.5

_TOLD_WITHIN_S: Final = 5.0
"""Seconds in which Spark's listeners have heard of a job and of its stages, also on a machine with
more to do than it can."""

_TASK: Final = re.compile(r"Executor task launch worker for task .* in stage (\d+)\.")

_IDLE: Final = "java.util.concurrent.SynchronousQueue"
"""What a thread of the pool waits at when it has no task; it keeps the name of its last one."""


def stages_of(jvm: Jvm, group: str) -> set[int]:
    """Return the ids of the stages of a job group that Spark knows now."""
    try:
        tracker = jvm.session.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    except (Py4JError, OSError, AttributeError):  # the JVM ends, and its tasks with it
        return set()
    return {stage for job in jobs if job is not None for stage in job.stageIds}


def count_running(jvm: Jvm, stages: Collection[int]) -> int:
    """Return how many threads of this JVM run a task of these stages."""
    try:
        management = jvm.session._jvm.java.lang.management  # noqa: SLF001 - pyspark has no other way
        threads = management.ManagementFactory.getThreadMXBean().dumpAllThreads(False, False)
        running = 0
        for thread in threads:
            task = _TASK.match(thread.getThreadName())
            if task is None or int(task[1]) not in stages:
                continue
            running += _IDLE not in (thread.getLockName() or "")
    except (Py4JError, OSError, AttributeError):  # the JVM is gone, or was stopped
        return 0
    return running


def watch(
    jvm: Jvm, group: str, stages: set[int], changed: Callable[[int], object], after_s: float
) -> None:
    """Call `changed` with the number of tasks of a job group that are stuck, whenever it is
    another one: first after so many seconds, at last with 0. Blocks until none runs.

    `stages` are those that were known when it was cancelled. Spark tells of a job with a delay, on
    a busy machine after it was cancelled, so they are asked for again at first.
    """
    began, stuck = time.monotonic(), 0
    while True:
        known_for = time.monotonic() - began
        if known_for < _TOLD_WITHIN_S:
            stages |= stages_of(jvm, group)
        running = count_running(jvm, stages)
        if running == 0 and known_for >= _TOLD_WITHIN_S:
            break
        if known_for >= after_s and running != stuck:
            stuck = running
            changed(stuck)
        time.sleep(_POLL_S)
    if stuck:
        changed(0)
