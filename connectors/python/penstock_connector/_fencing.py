"""One owner per task: a newer epoch ends the older stream, an older one is refused (invariant 4,
rules R11 and R18).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, Protocol, TypeVar

from penstock_connector._errors import FencedError, RetriableError

_REMEMBERED: Final = 100_000
"""Tasks whose highest epoch is kept after they ended. The host's own fence (the offset service)
holds without it; this one stops a late Open from touching the outside again."""


class Fenced(Protocol):
    """Something that runs under an epoch and can be ended by a newer one."""

    epoch: int


T = TypeVar("T", bound=Fenced)


class Owners(Generic[T]):
    """The running tasks, by id. Lives on the event loop: no locks."""

    def __init__(self) -> None:
        self._running: dict[str, T] = {}
        self._highest: OrderedDict[str, int] = OrderedDict()

    def admit(self, task_id: str, epoch: int) -> T | None:
        """Take note of a new owner; return the older one, which has to end first."""
        self._refuse_older(task_id, epoch)
        self._highest[task_id] = epoch
        self._highest.move_to_end(task_id)
        if len(self._highest) > _REMEMBERED:
            self._highest.popitem(last=False)
        return self._running.get(task_id)

    def start(self, task_id: str, task: T) -> None:
        """Make a task the one that calls of its id reach; refused when a newer one came."""
        self._refuse_older(task_id, task.epoch)
        if task_id in self._running:
            raise FencedError(
                "task.opened_twice", f"task {task_id!r} was opened twice at the same time"
            )
        self._running[task_id] = task

    def find(self, task_id: str, epoch: int) -> T:
        """Return the task that a call with this epoch may reach."""
        self._refuse_older(task_id, epoch)
        task = self._running.get(task_id)
        if task is None or task.epoch != epoch:
            raise RetriableError(
                "task.not_open",
                f"task {task_id!r} is not open here with epoch {epoch}",
                fix="Open its control stream first, and keep it open.",
            )
        return task

    def end(self, task_id: str, task: T) -> None:
        """Forget a task that ended, unless a newer one has its place already."""
        if self._running.get(task_id) is task:
            del self._running[task_id]

    def all(self) -> list[T]:
        """Return the running tasks."""
        return list(self._running.values())

    def _refuse_older(self, task_id: str, epoch: int) -> None:
        highest = self._highest.get(task_id, 0)
        if epoch < highest:
            raise FencedError(
                "task.stale_epoch",
                f"task {task_id!r} has epoch {highest} now; epoch {epoch} is over",
                fix="Stop: another worker owns this task.",
            )
