"""The worker's side of its session with the leading scheduler: it sends reports and receives
assignments.

Tasks keep running without a session: the next leader learns which tasks run and restarts none. A
worker that is no longer a member, because its lease was not renewed, has to release its tasks by
itself; `cluster.worker_process` does that.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final

from penstock.aio import run_until_set
from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.client import SchedulerClient
from penstock.model.backoff import Backoff
from penstock.model.connector import TargetState, TaskPlan
from penstock.model.errors import PenstockError
from penstock.wire.config import CONNECTOR
from penstock.wire.connector import PLAN
from penstock.worker.runtime.task_registry import TaskRegistry
from penstock.worker.runtime.task_reports import TaskReports
from penstock.worker.task.supervisor import Assignment, KeptTask

log = logging.getLogger(__name__)


REPORT_INTERVAL_S: Final = 2.0
"""Time between reports without a change. They carry the metrics that show lag."""

REPORT_PACE: Final = 5.0
"""Time between two reports, compared with the time that the first of them took to make. Shorter
takes the process from the tasks, and as much from the scheduler; longer delays the start of tasks.
"""

FIRST_PAUSE_S: Final = 0.05
"""First delay between two sessions. It doubles."""
MAX_PAUSE_S: Final = 1.0
"""Longest delay between two sessions. Longer delays every change of leaders."""


def report_pause_s(spent_s: float, interval_s: float) -> float:
    """Return the least time between two reports, of which the first took `spent_s` to make."""
    return min(REPORT_PACE * spent_s, interval_s)


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Identity of a worker. `id` is new at each start of its process, `name` is not."""

    address: str
    name: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: float = 1.0


class SchedulerSession:
    """Sessions one after the other, from `run` until it is cancelled."""

    def __init__(
        self,
        client: SchedulerClient,
        task_registry: TaskRegistry,
        identity: WorkerIdentity,
        interval_s: float = REPORT_INTERVAL_S,
    ) -> None:
        """`client` finds the leader; the caller closes it."""
        self._client, self._task_registry, self._identity = client, task_registry, identity
        self._interval_s = interval_s
        self._seen_revision = 0
        self._draining = False
        self._news = asyncio.Event()
        self._restart_requested = asyncio.Event()
        self._report_sent = asyncio.Condition()
        self._reported_empty = False
        self._takes_partial = False

    async def run(self) -> None:
        """Open a session, and another one whenever it ends."""
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_tasks())
            while True:
                before = self._seen_revision
                try:
                    await self._run_session()
                except PenstockError as error:
                    log.info("no session with the scheduler: %s", error)
                if self._seen_revision != before:
                    backoff.reset()
                else:
                    backoff.advance()
                await asyncio.sleep(backoff.delay_s)

    def restart(self) -> None:
        """End the session and open another: the leader has changed."""
        self._restart_requested.set()

    async def drain(self) -> None:
        """Request to be drained, and wait until no task is left and the scheduler knows it."""
        self._draining = True
        self._news.set()
        async with self._report_sent:
            await self._report_sent.wait_for(lambda: self._reported_empty)

    async def _run_session(self) -> None:
        """Run one session. Its messages are no longer read once the next session starts."""
        self._restart_requested.clear()
        self._takes_partial = False
        await run_until_set(self._restart_requested, self._exchange())

    async def _exchange(self) -> None:
        parts: list[pb.SessionResponse] = []
        async with aclosing(self._client.open_session(self._reports())) as frames:
            async for frame in frames:
                self._takes_partial = frame.takes_partial_requests
                if parts and parts[0].revision != frame.revision:
                    parts.clear()
                parts.append(frame)
                if not frame.more:
                    await self._take(parts)
                    parts = []

    async def _take(self, parts: list[pb.SessionResponse]) -> None:
        """Apply an assignment. Tasks are registered before its revision is reported as seen."""
        revision = parts[0].revision
        if revision < self._seen_revision:
            return
        tasks = [
            Assignment(CONNECTOR.from_proto(m.connector), PLAN.from_proto(m.plan), m.epoch)
            for part in parts
            for m in part.tasks
        ]
        monitors = [
            Assignment(
                CONNECTOR.from_proto(m.connector), TaskPlan(m.task_id), m.epoch, m.plan_epoch
            )
            for part in parts
            for m in part.monitors
        ]
        kept = {
            m.task_id: KeptTask(m.epoch, TargetState(m.target_state))
            for part in parts
            for m in part.kept
        }
        self._task_registry.assign([*tasks, *monitors], kept)
        self._seen_revision = revision
        self._news.set()

    async def _reports(self) -> AsyncIterator[pb.SessionRequest]:
        """Yield the requests of one session."""
        task_reports = TaskReports(self._task_registry)
        while True:
            self._news.clear()
            began = time.monotonic()
            report = self._report()
            task_reports.add_to(report, partial=self._takes_partial)
            spent_s = time.monotonic() - began
            yield report
            await self._record_report()
            await asyncio.sleep(report_pause_s(spent_s, self._interval_s))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._news.wait()

    def _report(self) -> pb.SessionRequest:
        return pb.SessionRequest(
            worker_id=self._identity.id,
            name=self._identity.name,
            address=self._identity.address,
            labels=dict(self._identity.labels),
            capacity=self._identity.capacity,
            draining=self._draining,
            seen_revision=self._seen_revision,
            monitors=[
                pb.MonitorReport(generation=generation, replan=reason)
                for generation, reason in self._task_registry.take_replan_requests().items()
            ],
        )

    async def _record_report(self) -> None:
        """Record a sent report: a drain waits for the first one without tasks."""
        async with self._report_sent:
            self._reported_empty = self._draining and not len(self._task_registry)
            self._report_sent.notify_all()

    async def _watch_tasks(self) -> None:
        async for _ in self._task_registry.changes():
            self._news.set()
