"""What a worker reports of its tasks in one session with the scheduler.

The first report has all tasks; later ones have those that changed. A task that rests costs almost
nothing: its metrics that depend on the time (shares, windows) are reported again after
`REFRESH_S`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.wire.message_budget import MessageBudget
from penstock.wire.worker import status_to_proto
from penstock.worker.runtime.task_registry import TaskRegistry

REFRESH_S: Final = 30.0
"""Longest time between two reports of a task: the window of its metrics."""


class TaskReports:
    """Makes the reports of one session."""

    def __init__(
        self, task_registry: TaskRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._task_registry, self._clock = task_registry, clock
        self._reported: dict[str, tuple[tuple[object, ...], float]] | None = None

    def add_to(self, request: pb.SessionRequest, *, partial: bool) -> None:
        """Add the tasks and monitors to a request. It must be the next one of the session: what it
        has is not reported again. `partial`: the scheduler takes partial requests.
        """
        if not partial:
            self._reported = None
        before, now, budget = self._reported or {}, self._clock(), MessageBudget()
        reported = {}
        for id_, fingerprint in sorted(self._task_registry.fingerprints().items()):
            known, at = before.get(id_, (None, 0.0))
            if known != fingerprint or now - at >= REFRESH_S:
                request.tasks.append(status_to_proto(self._task_registry.status(id_), budget))
                at = now
            reported[id_] = fingerprint, at
        request.partial = self._reported is not None
        request.released_tasks.extend(sorted(before.keys() - reported.keys()))
        self._reported = reported
