"""Connectors, their plans and the states they can be in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from penstock.model.errors import Diagnostic
from penstock.model.identity import partition_id
from penstock.model.metrics import DatasetRows, PluginNumber, TaskWork


class ConnectorKind(IntEnum):
    """How a connector joins plugins and topics. Numbers equal
    penstock.api.config.v1.ConnectorKind.
    """

    UNSPECIFIED = 0
    SOURCE = 1
    SINK = 2
    PIPELINE = 3
    MIRROR = 4


class TargetState(IntEnum):
    """What the user wants. Numbers equal penstock.api.config.v1.TargetState."""

    UNSPECIFIED = 0
    RUNNING = 1
    PAUSED = 2
    STOPPED = 3


class TaskState(IntEnum):
    """How a task is. Numbers equal penstock.api.worker.v1.TaskState."""

    UNSPECIFIED = 0
    STARTING = 1
    RUNNING = 2
    RESTARTING = 3
    FAILED = 4
    COMPLETED = 5
    STOPPED = 6
    PAUSED = 7


ENDED = frozenset({TaskState.FAILED, TaskState.COMPLETED, TaskState.STOPPED})
"""States in which a task moves nothing any more."""


class CommitMode(IntEnum):
    """Who is the authority for "written up to". Numbers equal
    penstock.api.connector.v1.CommitMode.
    """

    UNSPECIFIED = 0
    HOST = 1
    SINK = 2
    TWO_PHASE = 3
    IDEMPOTENT = 4


class ApplyAction(IntEnum):
    """Why Apply is called. Numbers equal penstock.api.connector.v1.ApplyAction."""

    CREATE = 1
    UPDATE = 2
    DELETE = 3
    RESET = 4


class RevisionCause(IntEnum):
    """Why a version of a configuration was made. Numbers equal
    penstock.api.config.v1.RevisionCause.
    """

    UNSPECIFIED = 0
    CREATED = 1
    PUT = 2
    PATCHED = 3
    ROLLED_BACK = 4


@dataclass(frozen=True, slots=True)
class Restart:
    """A request to start something anew: of the connector alone, with its tasks, or of one task.
    `marker` grows with every request of a generation; `requested_at` is in seconds since the epoch.
    """

    marker: int
    include_tasks: bool = False
    only_failed: bool = False
    task_id: str = ""
    requested_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of a connector's configuration. `restored` is the version that was rolled back
    to. `config` is empty in a list.
    """

    version: int
    revision: int = 0
    written_at: float = 0.0
    cause: RevisionCause = RevisionCause.UNSPECIFIED
    restored: int = 0
    kind: ConnectorKind = ConnectorKind.UNSPECIFIED
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that is not the same in two versions; None where it is not there."""

    key: str
    before: str | None
    after: str | None
    masked: bool = False


@dataclass(frozen=True, slots=True)
class LogLevel:
    """The level that a logger has in every instance of a service. `modified_at` is in seconds
    since the epoch.
    """

    service: str
    logger: str
    level: str
    modified_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Connector:
    """A named, versioned configuration. `config` is as the user wrote it; secrets in it are
    references. `version` counts configurations, `restarts` are the newest requests; `secret_keys`
    are those that its plugins have declared to be secrets (invariant 9).
    """

    name: str
    config: Mapping[str, str]
    kind: ConnectorKind = ConnectorKind.UNSPECIFIED
    target_state: TargetState = TargetState.RUNNING
    generation: str = ""
    revision: int = 0
    version: int = 0
    restarts: tuple[Restart, ...] = ()
    secret_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """A unit of work with an offset of its own. `offset` None means from the beginning; `payload`
    is the connector's. `finds_others`: its task, the only one, finds further partitions by itself.
    """

    key: Mapping[str, Any]
    offset: Mapping[str, Any] | None = None
    payload: bytes = b""
    datasets: tuple[str, ...] = ()
    weight: float = 1.0
    bounded: bool = False
    finds_others: bool = False

    @property
    def id(self) -> str:
        """Canonical JSON of the key."""
        return partition_id(self.key)


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What one task does: its partitions and its own configuration. `task_id` is
    `<generation>-<number>`.
    """

    task_id: str
    partitions: tuple[Partition, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def finds_others(self) -> bool:
        """Whether the task finds partitions by itself that no plan has."""
        return any(partition.finds_others for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Target:
    """A configured plugin connector. `secrets` are resolved values: never logged, never stored.
    `version` says which versions of the plugin are allowed; empty for any.
    """

    connector: str
    instance: str
    config: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    version: str = ""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """How a task is, with its numbers since it was started. `rows_failed` are in dead letters, or
    were skipped. `bytes_left`, `rows_left`: -1 when unknown. `restarts` are all of its life,
    `restarts_in_a_row` those since it last ran well. `plugin_version` is that of the source, where
    both ends are plugins. `datasets` are bounded, `datasets_left_out` are those without numbers of
    their own.
    """

    task_id: str
    connector: str
    epoch: int
    state: TaskState
    diagnostic: Diagnostic | None = None
    rows_read: int = 0
    rows_written: int = 0
    bytes_read: int = 0
    batches: int = 0
    bytes_left: int = -1
    rows_left: int = -1
    rows_failed: int = 0
    restarts: int = 0
    restarts_in_a_row: int = 0
    plugin_version: str = ""
    work: TaskWork | None = None
    datasets: tuple[DatasetRows, ...] = ()
    datasets_left_out: int = 0
    plugin_numbers: tuple[PluginNumber, ...] = ()
