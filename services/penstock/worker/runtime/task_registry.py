"""The tasks and monitors that this worker holds: made equal to the newest assignment, one coroutine
for each.

A task is held from the moment its assignment was taken in until it has stopped and let go of
everything. Only then may another worker begin with it, so nothing here says earlier that it is gone
(invariants 4 and 11).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.errors import Diagnostic
from penstock.worker.task.supervisor import Assigned, Kept, Life, first_error
from penstock.worker.task.task import Task

log = logging.getLogger(__name__)


STOP_DEADLINE: Final = 10.0
"""Seconds until a task that was told to stop is cancelled. It covers the grace of a micro-batch
(1.2 s), the end of a cancelled job and the closing of both ends."""


@dataclass(slots=True)
class _Hold:
    wanted: Assigned | None
    """None: it is to be let go."""
    monitor: bool = False
    task: Life | None = None
    running: asyncio.Task[None] | None = None
    refused: tuple[int, Diagnostic] | None = None
    """The epoch at which it could not even be made, and why."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    tending: asyncio.Task[None] | None = None


class Holdings:
    """The tasks of a worker. Owned by it; `release` before its loop ends."""

    def __init__(self, make: Callable[[Assigned], Life]) -> None:
        """`make` makes a task or a monitor that does not run yet; it may raise PenstockError."""
        self._make = make
        self._holds: dict[str, _Hold] = {}
        self._wishes: dict[str, str] = {}
        self._changed = asyncio.Condition()
        self._version = 0

    def __len__(self) -> int:
        return len(self._holds)

    def take(self, tasks: Iterable[Assigned], kept: Mapping[str, Kept]) -> None:
        """Take in a whole assignment. A held task that it does not name is let go; one that it
        names at a newer epoch is stopped first.
        """
        named = {one.plan.task_id: one for one in tasks}
        for id_, one in named.items():
            self._want(id_, one)
        for id_, hold in self._holds.items():
            if id_ in named or hold.wanted is None:
                continue
            keeps = kept.get(id_)
            if keeps is None:
                hold.wanted = None
            elif keeps.epoch == hold.wanted.epoch:
                connector = replace(hold.wanted.connector, target_state=keeps.target_state)
                hold.wanted = replace(hold.wanted, connector=connector)
            hold.news.set()
        self.changed()

    async def release(self, *, at_once: bool = False) -> None:
        """Let all tasks go; returns when nothing is held. `at_once`: cut them off where they stand,
        because others may begin with them (self-fencing).
        """
        tending = [hold.tending for hold in self._holds.values() if hold.tending]
        for hold in self._holds.values():
            hold.wanted = None
            hold.news.set()
            if at_once and hold.running is not None:
                hold.running.cancel()
        await asyncio.gather(*tending, return_exceptions=True)

    def task(self, id_: str) -> Task | None:
        """Return a task that is held and could be made."""
        hold = self._holds.get(id_)
        unit = hold.task if hold is not None else None
        return unit if isinstance(unit, Task) else None

    def statuses(self, *, monitors: bool = False) -> list[TaskStatus]:
        """Return how the tasks are, ordered by id; and with them the monitors."""
        shown = (id_ for id_, hold in self._holds.items() if monitors or not hold.monitor)
        return [_status(id_, self._holds[id_]) for id_ in sorted(shown)]

    def wish(self, generation: str, reason: str) -> None:
        """Note that the monitor of a connector wants another plan. One wish of each is kept."""
        self._wishes[generation] = reason
        self.changed()

    def wishes(self) -> Mapping[str, str]:
        """Return what monitors want, and forget it: who still wants it says it again."""
        wishes, self._wishes = self._wishes, {}
        return wishes

    def changed(self) -> None:
        """Tell the watchers that a state changed."""
        self._version += 1
        asyncio.ensure_future(self._notify())  # noqa: RUF006 - short, and nobody awaits it

    async def watch(self, every: float) -> AsyncIterator[list[TaskStatus]]:
        """Yield the statuses of all tasks: at once, at each change of state, and every `every`
        seconds (0: never).
        """
        while True:
            seen = self._version
            yield self.statuses()
            try:
                async with asyncio.timeout(every or None):
                    await self._next(seen)
            except TimeoutError:
                continue

    def _want(self, id_: str, one: Assigned) -> None:
        hold = self._holds.get(id_)
        if hold is None:
            hold = self._holds[id_] = _Hold(one, one.monitor)
            hold.tending = asyncio.create_task(self._tend(id_, hold), name=id_)
        elif hold.wanted is None or hold.wanted.epoch <= one.epoch:  # invariant 4
            hold.wanted = one
        hold.news.set()

    async def _tend(self, id_: str, hold: _Hold) -> None:
        """Make a task what it is wanted to be, until it is let go."""
        while True:
            hold.news.clear()
            wanted, task = hold.wanted, hold.task
            if task is not None and (wanted is None or wanted.epoch != task.epoch):
                await self._stop(id_, hold)
                hold.task = hold.running = None
                continue
            if wanted is None:
                break
            if task is not None:
                task.follow(wanted)
            elif _refusal(hold, wanted) is None:  # the same epoch changes nothing
                self._start(hold, wanted)
            await hold.news.wait()
        del self._holds[id_]
        self.changed()

    def _start(self, hold: _Hold, wanted: Assigned) -> None:
        try:
            task = self._make(wanted)
        except Exception as error:  # noqa: BLE001 - it must not touch another task (invariant 8)
            refused = first_error(error)
            log.warning("task %s cannot be made: %s", wanted.plan.task_id, refused)
            hold.refused = wanted.epoch, refused.diagnostic
        else:
            hold.refused = None
            hold.task, hold.running = task, asyncio.create_task(task.run())
        self.changed()

    async def _stop(self, id_: str, hold: _Hold) -> None:
        if hold.task is None or hold.running is None:
            return
        hold.task.stop()
        _, late = await asyncio.wait({hold.running}, timeout=STOP_DEADLINE)
        if late:
            log.error("stage worker.stop_task of %s took longer than %g s", id_, STOP_DEADLINE)
            hold.running.cancel()
            await asyncio.wait({hold.running})

    async def _next(self, seen: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._version != seen)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _status(id_: str, hold: _Hold) -> TaskStatus:
    """Return how a task is; one that waits for its earlier epoch to end is STARTING at the new."""
    wanted, task = hold.wanted, hold.task
    if task is not None and (wanted is None or task.epoch == wanted.epoch):
        return task.status()
    if wanted is None:
        return TaskStatus(id_, "", 0, TaskState.STARTING)
    refused = _refusal(hold, wanted)
    state = TaskState.STARTING if refused is None else TaskState.FAILED
    return TaskStatus(id_, wanted.connector.name, wanted.epoch, state, refused)


def _refusal(hold: _Hold, wanted: Assigned) -> Diagnostic | None:
    """Return why a task could not be made at the epoch that is wanted."""
    if hold.refused is None or hold.refused[0] != wanted.epoch:
        return None
    return hold.refused[1]
