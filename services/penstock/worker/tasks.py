"""All tasks of this worker: started, stopped and watched by id, one coroutine each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.errors import FencedError, InternalError
from penstock.worker.task import Task

STOP_DEADLINE = 10.0
"""Seconds until a task that was told to stop is given up on. It covers the grace of a micro-batch
(1.2 s), the end of a cancelled job and the closing of both ends; beyond it the coroutine is
cancelled."""

FINAL = frozenset({TaskState.FAILED, TaskState.COMPLETED, TaskState.STOPPED})


@dataclass(slots=True)
class _Slot:
    task: Task
    running: asyncio.Task[None]


class Tasks:
    """The tasks of a worker."""

    def __init__(self) -> None:
        self._slots: dict[str, _Slot] = {}
        self._changed = asyncio.Condition()
        self._version = 0

    async def start(self, task_id: str, epoch: int, make: Callable[[], Task]) -> None:
        """Run a task at an epoch. An older one is stopped first; the same epoch changes nothing.

        Raises:
            FencedError: a newer epoch of the task runs here (invariant 4).
        """
        slot = self._slots.get(task_id)
        if slot is not None and slot.task.epoch > epoch:
            raise FencedError(
                "worker.stale_epoch",
                f"task {task_id} runs at epoch {slot.task.epoch}, {epoch} is older",
            )
        if slot is not None and slot.task.epoch == epoch:
            return
        if slot is not None:
            await self.stop(task_id, epoch)
        task = make()
        self._slots[task_id] = _Slot(task, asyncio.create_task(task.run(), name=task_id))

    async def stop(self, task_id: str, epoch: int) -> None:
        """Drain and release a task; returns when it has stopped. A newer epoch is left alone."""
        slot = self._slots.get(task_id)
        if slot is None or slot.task.epoch > epoch:
            return
        slot.task.stop()
        _, late = await asyncio.wait({slot.running}, timeout=STOP_DEADLINE)
        if late:
            slot.running.cancel()
            raise InternalError(
                "deadline.exceeded",
                f"stage worker.stop_task of {task_id} took longer than {STOP_DEADLINE:.0f} s",
            )

    async def stop_all(self) -> None:
        """Drain every task, all at once."""
        stops = [self.stop(id_, slot.task.epoch) for id_, slot in self._slots.items()]
        await asyncio.gather(*stops, return_exceptions=True)

    def statuses(self) -> list[TaskStatus]:
        """Return how the tasks are, ordered by id."""
        return [self._slots[id_].task.status() for id_ in sorted(self._slots)]

    def changed(self) -> None:
        """Tell the watchers that a state changed."""
        self._version += 1
        asyncio.ensure_future(self._notify())  # noqa: RUF006 - short, and nobody awaits it

    async def watch(self, every: float) -> AsyncIterator[list[TaskStatus]]:
        """Yield all statuses: at once, at each change of state, and every `every` seconds (0:
        never).
        """
        while True:
            seen = self._version
            yield self.statuses()
            try:
                await asyncio.wait_for(self._next(seen), every or None)
            except TimeoutError:
                continue

    async def _next(self, seen: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._version != seen)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
