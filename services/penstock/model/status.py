"""How connectors, tasks and workers are, for people: what the scheduler makes of its records and of
what workers report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from penstock.model.connector import ConnectorKind, TaskStatus
from penstock.model.errors import Diagnostic


class RunState(IntEnum):
    """How a connector or a task is. Numbers equal penstock.api.scheduler.v1.RunState."""

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
    """How one task is. `task` is what its worker says, with the numbers."""

    task_id: str
    state: RunState
    worker: str = ""
    epoch: int = 0
    diagnostic: Diagnostic | None = None
    restarts: int = 0
    task: TaskStatus | None = None

    @property
    def number(self) -> int:
        """Its number in its connector."""
        number = self.task_id.rpartition("-")[2]
        return int(number) if number.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """How a connector and its tasks are. A task that failed does not change the connector's state.
    `worker` is the one that planned it. `diagnostic` says why it does not run; of one that is
    RUNNING it is a warning.
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
    """One worker. `leaving` of its `tasks` are told to go; `connected`: it has a session."""

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
    """Times in which tasks left their workers, since the leader leads; `mean` and `most` seconds of
    one.
    """

    completed: int = 0
    mean: float = 0.0
    most: float = 0.0


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The cluster as its leader sees it, after its write at `revision`."""

    leader: str
    revision: int
    workers: tuple[WorkerStatus, ...] = ()
    unassigned: int = 0
    moving: int = 0
    rebalances: Rebalances = field(default_factory=Rebalances)
