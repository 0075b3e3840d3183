"""A monitor watches the partitions of one connector, and requests a replan when they change.

It is supervised and has a status as a task has, moves no rows, and keeps watching while its
connector is paused, so that a resumed connector has all partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.model.backoff import Backoff, RestartPolicy
from penstock.model.connector import TaskPlan, TaskState
from penstock.model.errors import RetriableError
from penstock.worker.config.resolved_config import SecretWatch, WatchSpec
from penstock.worker.ports import PartitionWatch
from penstock.worker.task.supervisor import Assignment, TaskSupervisor

log = logging.getLogger(__name__)


REPLAN_INTERVAL_S: Final = 1.0
"""Time between two replan requests, which the leader does not exceed either. Shorter sends whole
reports for nothing; longer delays the second of two files.
"""

FIRST_READ_DELAY_S: Final = 0.1
MAX_READ_DELAY_S: Final = 2.0
"""Delays between attempts to read the plans in force while no scheduler leads. Longer ones delay
the first request of a monitor."""


@dataclass(frozen=True, slots=True)
class MonitorSpec:
    """What a monitor is made of. `watch` creates the watch of one run, `plans` returns the plans in
    force, `request_replan` sends the reason for another plan.
    """

    watch: Callable[[], Awaitable[WatchSpec]]
    plans: Callable[[], Awaitable[Sequence[TaskPlan]]]
    request_replan: Callable[[str], None]


class Monitor(TaskSupervisor):
    """Watches the partitions of one connector."""

    logs_states = False  # no rows depend on it at once

    def __init__(
        self,
        assignment: Assignment,
        spec: MonitorSpec,
        policy: RestartPolicy,
        on_change: Callable[[], None],
    ) -> None:
        """Prepare to watch."""
        super().__init__(assignment, policy, on_change)
        self._spec = spec
        self._plan_epoch = assignment.plan_epoch
        self._plans_changed = asyncio.Event()

    def update(self, wanted: Assignment) -> None:
        """Pass a change of the plans in force to the watch."""
        if wanted.plan_epoch != self._plan_epoch:
            self._plan_epoch = wanted.plan_epoch
            self._plans_changed.set()

    async def _run_once(self) -> TaskState:
        await self._until_stopped(self._watch())
        return TaskState.STOPPED

    async def _watch(self) -> None:
        watch, secret_watch = await self._spec.watch()
        try:
            self._plans_changed.clear()
            await watch.open(await self._read_plans())
            self._set_running()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward_requests(watch))
                group.create_task(self._update_plans(watch))
                group.create_task(_until_changed(secret_watch))
        finally:
            await watch.close()

    async def _forward_requests(self, watch: PartitionWatch) -> None:
        async for reason in watch:
            log.info("connector %s needs another plan: %s", self.connector, reason)
            self._spec.request_replan(reason)
            await asyncio.sleep(REPLAN_INTERVAL_S)

    async def _update_plans(self, watch: PartitionWatch) -> None:
        while True:
            await self._plans_changed.wait()
            self._plans_changed.clear()
            await watch.set_plans(await self._read_plans())

    async def _read_plans(self) -> Sequence[TaskPlan]:
        """Return the plans in force. A change of the leader is waited for, and restarts nothing."""
        backoff = Backoff(FIRST_READ_DELAY_S, MAX_READ_DELAY_S)
        while True:
            try:
                return await self._spec.plans()
            except RetriableError as error:
                log.info("cannot read the plans of %s: %s", self.connector, error)
                await asyncio.sleep(backoff.delay_s)
                backoff.advance()


async def _until_changed(secret_watch: SecretWatch) -> None:
    await secret_watch.wait_for_change()
    raise RetriableError(
        "secrets.changed",
        "a secret has changed",
        fix="Nothing: the monitor restarts with the new value.",
    )
