"""Statuses of connectors, tasks, workers and the cluster, as users see them. The scheduler derives
them from its records and from the reports of workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from penstock.model.connector import ConnectorKind, TaskStatus
from penstock.model.errors import Diagnostic


class RunState(IntEnum):
    """The state of a connector or a task. Numbers equal penstock.api.scheduler.v1.RunState."""

    UNSPECIFIED = 0
    UNASSIGNED = 1
    RUNNING = 2
    PAUSED = 3
    FAILED = 4
    RESTARTING = 5
    STOPPED = 6
    COMPLETED = 7


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The status of one task. `task` is the report of its worker, with the counts."""

    task_id: str
    state: RunState
    worker: str = ""
    epoch: int = 0
    diagnostic: Diagnostic | None = None
    restarts: int = 0
    task: TaskStatus | None = None

    @property
    def number(self) -> int:
        """The task's number in its connector."""
        number = self.task_id.rpartition("-")[2]
        return int(number) if number.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """The status of a connector and its tasks. A failed task does not change the connector's state.
    Once all tasks are completed, so is the connector, unless a monitor watches for more partitions.
    `worker` is the one that planned it. `diagnostic` is the reason why it does not run; for a
    RUNNING connector it is a warning.
    """

    name: str
    generation: str
    kind: ConnectorKind = ConnectorKind.UNSPECIFIED
    state: RunState = RunState.UNASSIGNED
    worker: str = ""
    diagnostic: Diagnostic | None = None
    tasks: tuple[RunStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker. `leaving`: how many of its `tasks` it was requested to stop; `connected`: it has
    a session with the leader.
    """

    id: str
    name: str = ""
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    draining: bool = False
    connected: bool = False
    tasks: int = 0
    leaving: int = 0


@dataclass(frozen=True, slots=True)
class Rebalances:
    """Rebalances since the leader was elected, with the mean and maximum seconds of one."""

    completed: int = 0
    mean_s: float = 0.0
    max_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The cluster as its leader sees it after its write at `revision`. `moving`: tasks on their way
    between workers.
    """

    leader: str
    revision: int
    workers: tuple[WorkerStatus, ...] = ()
    unassigned: int = 0
    moving: int = 0
    rebalances: Rebalances = field(default_factory=Rebalances)


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Tasks that a worker holds. Every epoch that is assigned later is above `revision`."""

    tasks: tuple[str, ...]
    revision: int
