"""Plugins that die at the same place again: restarting them would go on for ever.

A life of a task that ends with `plugin.crashed` and committed nothing counts as a death at the
offsets where it began. Tasks share the processes of their plugins, so one task that crashes them
takes the others with it. Who has died at a place all but once too often is suspected, and lives
next with plugins of its own. When these die, too, the task fails with the offsets; when they do
not, it was another task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol

from penstock.model.connector import Partition, TaskState, TaskStatus
from penstock.model.errors import DataError, PenstockError
from penstock.model.identity import canonical_json
from penstock.worker.task.live_rows import Looks
from penstock.worker.task.metrics import Numbers
from penstock.worker.task.run_spec import RunSpec
from penstock.worker.task.supervisor import Assigned, Life, RestartPolicy
from penstock.worker.task.task_run import TaskRun

log = logging.getLogger(__name__)


MAX_DEATHS: Final = 3
"""Deaths at one place. Fewer would take an accident (no memory for a moment) for a defect; more
only delay the message."""

_MAX_NAMED: Final = 5
"""Partitions that the error names."""

_CRASHED: Final = frozenset({"plugin.crashed", "plugin.memory_exceeded"})


class CrashLoop:
    """Counts the deaths of a task's plugins that no commit came between."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._place: dict[str, Mapping[str, Any] | None] = {}
        self._deaths = 0

    @property
    def is_suspected(self) -> bool:
        """Whether the next life needs plugins of its own."""
        return self._deaths >= MAX_DEATHS - 1

    def acquit(self) -> None:
        """Forget the deaths: they were another task's."""
        self._deaths = 0

    def check(
        self,
        error: BaseException,
        began_at: Sequence[Partition] | None,
        *,
        is_progress: bool,
        is_alone: bool,
    ) -> None:
        """Take in how a life ended.

        Args:
            error: What ended it.
            began_at: Where it began to read; None when it did not come so far.
            is_progress: It committed something, or was well without a row for a while: the plugin
                does not die of what it reads.
            is_alone: Its plugins served no other task.

        Raises:
            DataError: `plugin.crash_loop`.
        """
        crash = next(_crashes(error), None)
        if is_progress or crash is None or began_at is None:
            self._deaths = 0
            return
        place = {partition.id: partition.offset for partition in began_at}
        self._deaths = self._deaths + 1 if place == self._place else 1
        self._place = place
        if is_alone and self._deaths >= MAX_DEATHS:
            deaths, self._deaths = self._deaths, 0
            raise _crash_loop(self._connector, began_at, crash, deaths) from error


def _crashes(error: BaseException) -> Iterator[PenstockError]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _crashes(inner)
    elif isinstance(error, PenstockError) and error.diagnostic.code in _CRASHED:
        yield error


def _crash_loop(
    connector: str, began_at: Sequence[Partition], crash: PenstockError, deaths: int
) -> DataError:
    named = "; ".join(map(_named, began_at[:_MAX_NAMED]))
    more = len(began_at) - _MAX_NAMED
    others = f"; and {more} more" if more > 0 else ""
    return DataError(
        "plugin.crash_loop",
        f"a plugin died {deaths} times without a commit, each time after it began to read "
        f"{named}{others}. {crash.diagnostic.message}",
        fix=f"Correct what comes there, or pass it by: `penstock connector stop {connector}`, then "
        f"`penstock offsets set {connector} FILE`. Report the last lines to the plugin's author.",
    )


def _named(partition: Partition) -> str:
    if partition.offset is None:
        return f"{partition.id} at its beginning"
    return f"{partition.id} at {canonical_json(partition.offset)}"


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
