"""Connectors, their task plans, and the states and statuses of tasks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from penstock.model.errors import Diagnostic
from penstock.model.metrics import DatasetRows, PluginMetric, TaskMetrics
from penstock_values.identity import partition_id
from penstock_values.partition_ranges import OwnPartitions, PartitionRange


def new_generation() -> str:
    """Return a new generation: the identity of a connector, never shared by a later connector of
    the same name (invariant 10).
    """
    return uuid.uuid4().hex


class ConnectorKind(IntEnum):
    """How a connector joins plugins and topics. Numbers equal penstock.api.config.v1's."""

    UNSPECIFIED = 0
    SOURCE = 1
    SINK = 2
    PIPELINE = 3
    MIRROR = 4


TOPIC_KINDS: Final = frozenset({ConnectorKind.SINK, ConnectorKind.MIRROR})
"""Kinds of connectors whose partitions are partitions of topics."""


class TargetState(IntEnum):
    """The state that the user requested. Numbers equal penstock.api.config.v1.TargetState."""

    UNSPECIFIED = 0
    RUNNING = 1
    PAUSED = 2
    STOPPED = 3


class TaskState(IntEnum):
    """The state of a task on its worker. Numbers equal penstock.api.worker.v1.TaskState."""

    UNSPECIFIED = 0
    STARTING = 1
    RUNNING = 2
    RESTARTING = 3
    FAILED = 4
    COMPLETED = 5
    STOPPED = 6
    PAUSED = 7


ENDED_STATES = frozenset({TaskState.FAILED, TaskState.COMPLETED, TaskState.STOPPED})
"""States in which a task processes no more rows."""


class CommitMode(IntEnum):
    """Where the committed offsets of a sink are decided: by the host, or in the sink itself.
    Numbers equal penstock.api.connector.v1.CommitMode.
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
    """What created a version of a configuration. Numbers equal penstock.api.config.v1's."""

    UNSPECIFIED = 0
    CREATED = 1
    PUT = 2
    PATCHED = 3
    ROLLED_BACK = 4


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A request to restart a connector, a connector with its tasks, or one task (`task_id`).
    `marker` grows with every request of a generation; `requested_at` is in seconds since the epoch.
    """

    marker: int
    include_tasks: bool = False
    only_failed: bool = False
    task_id: str = ""
    requested_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of a connector's configuration. `restored` is the version that a rollback
    restored, 0 for none. `config` is empty in lists of versions.
    """

    version: int
    revision: int = 0
    written_at: float = 0.0
    cause: RevisionCause = RevisionCause.UNSPECIFIED
    restored: int = 0
    kind: ConnectorKind = ConnectorKind.UNSPECIFIED
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connector:
    """A named, versioned configuration. `config` is as the user wrote it; secrets in it are
    references. `version` counts configurations, `restarts` are the newest restart requests;
    `secret_keys` are keys that its plugins declare as sensitive (invariant 9).
    """

    name: str
    config: Mapping[str, str]
    kind: ConnectorKind = ConnectorKind.UNSPECIFIED
    target_state: TargetState = TargetState.RUNNING
    generation: str = ""
    revision: int = 0
    version: int = 0
    restarts: tuple[RestartRequest, ...] = ()
    secret_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptOffsets:
    """A deleted connector whose offsets a later connector of its name and kind takes up.
    `connector_class` is as it was configured, `kept_at` is in seconds since the epoch.
    """

    name: str
    kind: ConnectorKind
    generation: str
    connector_class: str = ""
    kept_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ConnectorList:
    """All connectors, ordered by name, at one revision. A watch starts at this revision."""

    connectors: tuple[Connector, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class FoundConnector:
    """A connector, or None, and the revision of the read. Every epoch that was assigned before the
    read is at most this revision. `kept`: it is deleted, and a connector of its name takes up its
    generation.
    """

    connector: Connector | None
    revision: int
    kept: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorsChanged:
    """A hint of a watch: these connectors were changed or deleted. No names: the watch missed
    changes, for example after a compaction (invariant 7).
    """

    revision: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """A unit of work with its own offset. `offset` None means from the beginning; `payload` is
    opaque data of the connector. `finds_others`: its task, the connector's only one, discovers
    further partitions while it runs. `range`: its task discovers those that are in it.
    """

    key: Mapping[str, Any]
    offset: Mapping[str, Any] | None = None
    payload: bytes = b""
    datasets: tuple[str, ...] = ()
    weight: float = 1.0
    bounded: bool = False
    finds_others: bool = False
    range: PartitionRange | None = None
    known_id: str = field(default="", repr=False, compare=False)
    """The id, where it is known: a task may need the ids of a million partitions several times."""

    @property
    def id(self) -> str:
        """The partition id: canonical JSON of the key."""
        return self.known_id or partition_id(self.key)


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The partitions and the configuration of one task. `task_id` is `<generation>-<number>`."""

    task_id: str
    partitions: tuple[Partition, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def finds_others(self) -> bool:
        """Whether the task discovers partitions that are not in its plan."""
        return any(p.finds_others or p.range is not None for p in self.partitions)

    @property
    def ranges(self) -> tuple[PartitionRange, ...]:
        """The ranges of the partitions that the task discovers."""
        return tuple(p.range for p in self.partitions if p.range is not None)

    @property
    def own_partitions(self) -> OwnPartitions:
        """The partitions of which the task may commit offsets."""
        planned = frozenset(partition.id for partition in self.partitions)
        finds_all = any(p.finds_others for p in self.partitions)
        return OwnPartitions(planned, None if finds_all else self.ranges)


@dataclass(frozen=True, slots=True)
class Target:
    """A configured connector of a plugin, as the plugin receives it.

    `connector` is its name in the plugin, `instance` the Penstock connector's. `secrets` are
    resolved values: never logged, never stored. `version`: allowed plugin versions, empty for any.
    """

    connector: str
    instance: str
    config: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    version: str = ""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The state of a task with its counts since it was assigned.

    `rows_failed` were sent to the dead-letter queue or skipped. `bytes_left`, `rows_left`: -1 when
    unknown. `restarts` counts all restarts, `restarts_in_a_row` those since it last ran without
    failure. `plugin_version` is that of the source where source and sink are plugins. `datasets`
    are bounded; `datasets_left_out` is the number of those without counts of their own.
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
    metrics: TaskMetrics | None = None
    datasets: tuple[DatasetRows, ...] = ()
    datasets_left_out: int = 0
    plugin_metrics: tuple[PluginMetric, ...] = ()
