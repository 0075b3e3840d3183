"""A task over its lives: each is a run of its own, the numbers go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from penstock.model.connector import TaskState, TaskStatus
from penstock.worker.assigned import Assigned
from penstock.worker.crash_loop import CrashLoop
from penstock.worker.life import Life, RestartPolicy
from penstock.worker.looking import Looks
from penstock.worker.numbers import Numbers
from penstock.worker.run import TaskRun
from penstock.worker.run_spec import RunSpec

log = logging.getLogger(__name__)


ALONE_S: Final = 30.0
"""Seconds in which a plugin must not crash for a task that has it alone. Fewer would acquit a task
before its plugin reads what it dies of; more keep others waiting for their turn."""


class Opening(Protocol):
    """Makes the ends of one run."""

    def __call__(self, *, alone: bool) -> Awaitable[RunSpec]:
        """Return what a run is made of."""


class Task(Life):
    """Copies the partitions that it was given."""

    def __init__(
        self,
        assigned: Assigned,
        spec: Opening,
        policy: RestartPolicy,
        on_change: Callable[[], None],
    ) -> None:
        """`spec` makes the ends of one run; it is called once for each. With `alone`, their plugins
        serve no other task, if that can be.
        """
        super().__init__(assigned, policy, on_change)
        self._spec = spec
        self.looks = Looks()
        self._numbers = Numbers()
        self._run: TaskRun | None = None
        self._version = ""
        self._paused = assigned.paused
        self._crash_loop = CrashLoop(self.connector)

    async def run(self) -> None:
        """Run until the end. Never raises: what went wrong is in the status."""
        try:
            await super().run()
        finally:
            self.looks.end()

    def stop(self) -> None:
        """Ask for the end. `run()` returns when it is there."""
        super().stop()
        if self._run is not None:
            self._run.stop()

    def follow(self, wanted: Assigned) -> None:
        """Move no rows from now on, or move them again. Both ends stay open."""
        self._paused = wanted.paused
        if self._run is not None:
            self._run.pause(paused=wanted.paused)

    def status(self) -> TaskStatus:
        """Return how the task is."""
        numbers = self._numbers
        return replace(
            super().status(),
            rows_read=numbers.rows_read,
            rows_written=numbers.rows_written,
            rows_failed=numbers.rows_failed,
            bytes_read=numbers.bytes_read,
            batches=numbers.batches,
            bytes_left=numbers.bytes_left,
            rows_left=numbers.rows_left,
            plugin_version=self._version,
            work=numbers.work(self._times, self._starts),
            datasets=numbers.datasets(),
            datasets_left_out=numbers.datasets_left_out,
            plugin_numbers=numbers.plugin_numbers(),
        )

    def _now(self, state: TaskState) -> None:
        """Take in that it runs, or rests: the first time, that it is open."""
        if self._ran_since is None:
            self._running()
        else:
            self._become(state)

    async def _live(self) -> TaskState:
        while True:
            alone = self._crash_loop.is_suspected
            spec = await self._unless_stopped(self._spec(alone=alone))  # which need an engine
            if spec is None:
                return TaskState.STOPPED
            self._version = spec.plugin_version
            completed = await self._moved(spec)
            if completed or self._stop.is_set():
                return TaskState.COMPLETED if completed else TaskState.STOPPED
            log.info("task %s begins anew", self.task_id)

    async def _moved(self, spec: RunSpec) -> bool:
        """Have one run, until its end or that of its secrets; tells whether all was moved."""
        self.looks.begin(spec.chain.transforms)
        run = self._run = TaskRun(spec, self._numbers, self.looks, self._now)
        run.pause(paused=self._paused)
        changed = asyncio.create_task(self._outlive(spec))
        changed.add_done_callback(lambda _: run.stop())  # also when it ends anyhow: no harm
        try:
            await run.run()
        except Exception as error:
            self._numbers.failed()
            is_idle = self._was_healthy() and not run.announced
            is_progress = bool(run.committed) or is_idle
            self._crash_loop.check(
                error, run.began_at, is_progress=is_progress, is_alone=spec.is_alone
            )
            raise
        finally:
            self._run = None
            spec.release()
            changed.cancel()
            await asyncio.gather(changed, return_exceptions=True)
        return run.completed

    async def _outlive(self, spec: RunSpec) -> None:
        """Return when another run has to begin: its secrets changed, or its plugins do not crash
        for it alone, so that it goes back to those that it shares.
        """
        if not spec.is_alone:
            await spec.changed()
            log.info("the secrets of task %s changed", self.task_id)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(ALONE_S):
                await spec.changed()
        self._crash_loop.acquit()
