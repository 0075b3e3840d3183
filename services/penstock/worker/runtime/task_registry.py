"""The tasks and monitors of this worker, made equal to the newest assignment, one coroutine for
each.

A task is registered from the moment its assignment is applied until it has stopped and closed
everything. Another worker may start it only then, so it is never reported as gone earlier
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
from penstock.worker.task.supervisor import Assignment, KeptTask, TaskSupervisor, find_error
from penstock.worker.task.task import Task

log = logging.getLogger(__name__)


STOP_DEADLINE_S: Final = 10.0
"""Time after which a stopped task is cancelled. It covers the grace of a micro-batch (1.2 s), the
end of a cancelled job, and closing source and sink.
"""


@dataclass(slots=True)
class _Entry:
    wanted: Assignment | None
    """None: the task is to be released."""
    monitor: bool = False
    task: TaskSupervisor | None = None
    running: asyncio.Task[None] | None = None
    creation_error: tuple[int, Diagnostic] | None = None
    """The epoch at which it could not be created, and why."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    reconciling: asyncio.Task[None] | None = None


class TaskRegistry:
    """The tasks of a worker. `release` them before the event loop ends."""

    def __init__(self, create_task: Callable[[Assignment], TaskSupervisor]) -> None:
        """`create_task` creates a task or a monitor that does not run yet. It may raise
        PenstockError.
        """
        self._create_task = create_task
        self._entries: dict[str, _Entry] = {}
        self._replan_requests: dict[str, str] = {}
        self._changed = asyncio.Condition()
        self._version = 0

    def __len__(self) -> int:
        return len(self._entries)

    def assign(self, tasks: Iterable[Assignment], kept: Mapping[str, KeptTask]) -> None:
        """Apply a whole assignment. A task that it does not name is released; one with a newer
        epoch is stopped first.
        """
        named = {one.plan.task_id: one for one in tasks}
        for id_, one in named.items():
            self._set_wanted(id_, one)
        for id_, entry in self._entries.items():
            if id_ in named or entry.wanted is None:
                continue
            keeps = kept.get(id_)
            if keeps is None:
                entry.wanted = None
            elif keeps.epoch == entry.wanted.epoch:
                connector = replace(entry.wanted.connector, target_state=keeps.target_state)
                entry.wanted = replace(entry.wanted, connector=connector)
            entry.changed.set()
        self.notify_changed()

    async def release(self, *, immediately: bool = False) -> None:
        """Release all tasks. Returns when none is left. `immediately`: cancel them, because other
        workers may start them now (self-fencing).
        """
        reconciling = [entry.reconciling for entry in self._entries.values() if entry.reconciling]
        for entry in self._entries.values():
            entry.wanted = None
            entry.changed.set()
            if immediately and entry.running is not None:
                entry.running.cancel()
        await asyncio.gather(*reconciling, return_exceptions=True)

    def task(self, id_: str) -> Task | None:
        """Return a registered task that could be created."""
        entry = self._entries.get(id_)
        unit = entry.task if entry is not None else None
        return unit if isinstance(unit, Task) else None

    def statuses(self) -> list[TaskStatus]:
        """Return the statuses of the tasks without the monitors, ordered by id."""
        shown = (id_ for id_, entry in self._entries.items() if not entry.monitor)
        return [self.status(id_) for id_ in sorted(shown)]

    def fingerprints(self) -> dict[str, tuple[object, ...]]:
        """Return the fingerprints of all tasks and monitors by id: see
        `TaskSupervisor.fingerprint`.
        """
        return {id_: _entry_fingerprint(id_, entry) for id_, entry in self._entries.items()}

    def status(self, id_: str) -> TaskStatus:
        """Return the status of a registered task or monitor."""
        return _entry_status(id_, self._entries[id_])

    def request_replan(self, generation: str, reason: str) -> None:
        """Record that the monitor of a connector requests another plan. The last request of each is
        kept.
        """
        self._replan_requests[generation] = reason
        self.notify_changed()

    def take_replan_requests(self) -> Mapping[str, str]:
        """Return and clear the replan requests. A monitor repeats a request that still holds."""
        wishes, self._replan_requests = self._replan_requests, {}
        return wishes

    def notify_changed(self) -> None:
        """Notify watchers of a change of state."""
        self._version += 1
        asyncio.ensure_future(self._notify())  # noqa: RUF006 - short, and never awaited

    async def watch(self, interval_s: float) -> AsyncIterator[list[TaskStatus]]:
        """Yield the statuses of all tasks: at once, at each change of state, and every `interval_s`
        seconds (0: never).
        """
        while True:
            seen = self._version
            yield self.statuses()
            try:
                async with asyncio.timeout(interval_s or None):
                    await self._wait_for_change(seen)
            except TimeoutError:
                continue

    async def changes(self) -> AsyncIterator[None]:
        """Yield after changes of state. Several changes may be one."""
        seen = self._version
        while True:
            await self._wait_for_change(seen)
            seen = self._version
            yield

    def _set_wanted(self, id_: str, one: Assignment) -> None:
        entry = self._entries.get(id_)
        if entry is None:
            entry = self._entries[id_] = _Entry(one, one.is_monitor)
            entry.reconciling = asyncio.create_task(self._reconcile(id_, entry), name=id_)
        elif entry.wanted is None or entry.wanted.epoch <= one.epoch:  # invariant 4
            entry.wanted = one
        entry.changed.set()

    async def _reconcile(self, id_: str, entry: _Entry) -> None:
        """Make a task equal to what is wanted, until it is released."""
        while True:
            entry.changed.clear()
            wanted, task = entry.wanted, entry.task
            if task is not None and (wanted is None or wanted.epoch != task.epoch):
                await self._stop(id_, entry)
                entry.task = entry.running = None
                continue
            if wanted is None:
                break
            if task is not None:
                task.update(wanted)
            elif _creation_error(entry, wanted) is None:  # the same epoch changes nothing
                self._start(entry, wanted)
            await entry.changed.wait()
        del self._entries[id_]
        self.notify_changed()

    def _start(self, entry: _Entry, wanted: Assignment) -> None:
        try:
            task = self._create_task(wanted)
        except Exception as error:  # noqa: BLE001 - other tasks must not notice (invariant 8)
            creation_error = find_error(error)
            log.warning("task %s cannot be created: %s", wanted.plan.task_id, creation_error)
            entry.creation_error = wanted.epoch, creation_error.diagnostic
        else:
            entry.creation_error = None
            entry.task, entry.running = task, asyncio.create_task(task.run())
        self.notify_changed()

    async def _stop(self, id_: str, entry: _Entry) -> None:
        if entry.task is None or entry.running is None:
            return
        entry.task.stop()
        _, late = await asyncio.wait({entry.running}, timeout=STOP_DEADLINE_S)
        if late:
            log.error("stage worker.stop_task of %s took longer than %g s", id_, STOP_DEADLINE_S)
            entry.running.cancel()
            await asyncio.wait({entry.running})

    async def _wait_for_change(self, seen: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._version != seen)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _entry_fingerprint(id_: str, entry: _Entry) -> tuple[object, ...]:
    wanted, task = entry.wanted, entry.task
    if task is not None and (wanted is None or task.epoch == wanted.epoch):
        return task.fingerprint()
    return (_entry_status(id_, entry),)


def _entry_status(id_: str, entry: _Entry) -> TaskStatus:
    """Return the status of a task. One that waits for its earlier epoch to end is STARTING at the
    new one.
    """
    wanted, task = entry.wanted, entry.task
    if task is not None and (wanted is None or task.epoch == wanted.epoch):
        return task.status()
    if wanted is None:
        return TaskStatus(id_, "", 0, TaskState.STARTING)
    creation_error = _creation_error(entry, wanted)
    state = TaskState.STARTING if creation_error is None else TaskState.FAILED
    return TaskStatus(id_, wanted.connector.name, wanted.epoch, state, creation_error)


def _creation_error(entry: _Entry, wanted: Assignment) -> Diagnostic | None:
    """Return why a task could not be created at the wanted epoch."""
    if entry.creation_error is None or entry.creation_error[0] != wanted.epoch:
        return None
    return entry.creation_error[1]
