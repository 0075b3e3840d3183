"""The worker's side of its session with the leading scheduler: reports up, assignments down.

Tasks run on while there is no session: whoever leads next is told what is held, and restarts
nothing. A worker that is no member any more (its lease could not be renewed) has to let go by
itself; `cluster` does that.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.client import SchedulerClient
from penstock.model.connector import TargetState, TaskPlan
from penstock.model.errors import PenstockError
from penstock.wire.config import connector_from_proto
from penstock.wire.connector import plan_from_proto
from penstock.wire.error import Brief
from penstock.wire.worker import status_to_proto
from penstock.worker.runtime.task_registry import Holdings
from penstock.worker.task.supervisor import Assigned, Kept

log = logging.getLogger(__name__)


REPORT_EVERY: Final = 2.0
"""Seconds between reports without news: they carry the numbers by which lag is seen."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds between sessions. Longer is felt after each change of leaders."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a worker is. `id` is new at each start of its process, `name` is not."""

    address: str
    name: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: float = 1.0


class Session:
    """Sessions, one after the other, from `run` until it is cancelled."""

    def __init__(
        self,
        client: SchedulerClient,
        holdings: Holdings,
        who: Identity,
        every: float = REPORT_EVERY,
    ) -> None:
        """`client` finds the leader; its maker closes it."""
        self._client, self._holdings, self._who = client, holdings, who
        self._every = every
        self._seen = 0
        self._draining = False
        self._news = asyncio.Event()
        self._again = asyncio.Event()
        self._taken = asyncio.Condition()
        self._told_empty = False

    async def run(self) -> None:
        """Have a session, and another one whenever it ends."""
        pause = FIRST_PAUSE
        async with asyncio.TaskGroup() as group:
            group.create_task(self._notice())
            while True:
                before = self._seen
                try:
                    await self._once()
                except PenstockError as error:
                    log.info("no session with the scheduler: %s", error)
                pause = FIRST_PAUSE if self._seen != before else min(pause * 2, LONGEST_PAUSE)
                await asyncio.sleep(pause)

    def restart(self) -> None:
        """End the present session and have another: somebody else leads now."""
        self._again.set()

    async def drain(self) -> None:
        """Ask to be emptied, and wait until nothing is held and the scheduler knows it."""
        self._draining = True
        self._news.set()
        async with self._taken:
            await self._taken.wait_for(lambda: self._told_empty)

    async def _once(self) -> None:
        """Have one session. What the last one sent is read no more when the next one begins."""
        self._again.clear()
        again = asyncio.ensure_future(self._again.wait())
        talking = asyncio.ensure_future(self._talk())
        try:
            await asyncio.wait({again, talking}, return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                talking.result()
        finally:
            again.cancel()
            talking.cancel()
            await asyncio.gather(talking, again, return_exceptions=True)

    async def _talk(self) -> None:
        parts: list[pb.SessionResponse] = []
        async with aclosing(self._client.session(self._reports())) as frames:
            async for frame in frames:
                if parts and parts[0].revision != frame.revision:
                    parts.clear()
                parts.append(frame)
                if not frame.more:
                    await self._take(parts)
                    parts = []

    async def _take(self, parts: list[pb.SessionResponse]) -> None:
        """Take an assignment in. First everything is held, then it is reported as seen."""
        revision = parts[0].revision
        if revision < self._seen:
            return
        tasks = [
            Assigned(connector_from_proto(m.connector), plan_from_proto(m.plan), m.epoch)
            for part in parts
            for m in part.tasks
        ]
        monitors = [
            Assigned(connector_from_proto(m.connector), TaskPlan(m.task_id), m.epoch, m.plan_epoch)
            for part in parts
            for m in part.monitors
        ]
        kept = {
            m.task_id: Kept(m.epoch, TargetState(m.target_state))
            for part in parts
            for m in part.kept
        }
        self._holdings.take([*tasks, *monitors], kept)
        self._seen = revision
        self._news.set()

    async def _reports(self) -> AsyncIterator[pb.SessionRequest]:
        while True:
            self._news.clear()
            yield self._report()
            await self._noted()
            try:
                async with asyncio.timeout(self._every):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _report(self) -> pb.SessionRequest:
        brief, held = Brief(), self._holdings.statuses(monitors=True)
        return pb.SessionRequest(
            worker_id=self._who.id,
            name=self._who.name,
            address=self._who.address,
            labels=dict(self._who.labels),
            capacity=self._who.capacity,
            draining=self._draining,
            seen_revision=self._seen,
            tasks=[status_to_proto(one, brief) for one in held],
            monitors=[
                pb.MonitorNews(generation=generation, replan=reason)
                for generation, reason in self._holdings.wishes().items()
            ],
        )

    async def _noted(self) -> None:
        """Note that a report went out: a worker that drains waits for the one that is empty."""
        async with self._taken:
            self._told_empty = self._draining and not len(self._holdings)
            self._taken.notify_all()

    async def _notice(self) -> None:
        async for _ in self._holdings.watch(0):
            self._news.set()
