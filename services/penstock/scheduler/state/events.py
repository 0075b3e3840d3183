"""What the cluster is told, and what it wants done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.model.connector import ApplyAction, Connector, TaskPlan, TaskStatus
from penstock.scheduler.state.records import Record


@dataclass(frozen=True, slots=True)
class Member:
    """A worker that is alive.

    `id` is new at every start of its process, `name` is not: tasks that wait for a worker to come
    back (`rebalance.delay`) know it by its name.
    """

    id: str
    name: str = ""
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: float = 1.0
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker says of itself: the newest assignment that it has taken in, and *all* tasks
    that it holds, however they are. A task is held from the moment its assignment was taken in
    until it has stopped and let go of everything.
    """

    worker: str
    seen: int
    tasks: Mapping[str, TaskStatus]


@dataclass(frozen=True, slots=True)
class Write:
    """Records to be stored in one fenced write; None removes one. Comes with the epochs that they
    have now, 0 for none, so that the write fails where another came first.
    """

    records: Mapping[str, Record | None]
    epochs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A task in an assignment, or a monitor, which has the epoch of the plans that it should know.

    `known`: the worker said that it holds it at this epoch, so that its plan need not travel again.
    """

    task_id: str
    epoch: int
    connector: Connector
    plan: TaskPlan
    known: bool = False
    plan_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Assign:
    """All tasks that a worker should hold, as of a revision. One that is not named is let go."""

    worker: str
    revision: int
    tasks: tuple[Assigned, ...]


@dataclass(frozen=True, slots=True)
class PlanWish:
    """A connector that needs (new) plans: at most `tasks` of them, made by the worker at `address`.
    `old` are those in force.
    """

    connector: Connector
    tasks: int
    old: tuple[TaskPlan, ...]
    worker: str
    address: str
    action: ApplyAction | None = None
    """What is new about it outside; None: nothing, it is only planned again."""
