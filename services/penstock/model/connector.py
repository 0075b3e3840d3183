"""Connectors, their plans and the states they can be in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from penstock.model.errors import Diagnostic
from penstock.model.identity import partition_id


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


class CommitMode(IntEnum):
    """Who is the authority for "written up to". Numbers equal
    penstock.api.connector.v1.CommitMode.
    """

    UNSPECIFIED = 0
    HOST = 1
    SINK = 2
    TWO_PHASE = 3
    IDEMPOTENT = 4


EXACTLY_ONCE = frozenset({CommitMode.SINK, CommitMode.TWO_PHASE})
"""Modes in which a crash neither loses nor repeats a row."""


@dataclass(frozen=True, slots=True)
class Connector:
    """A named, versioned configuration. `config` is as the user wrote it; secrets in it are
    references.
    """

    name: str
    config: Mapping[str, str]
    kind: ConnectorKind = ConnectorKind.UNSPECIFIED
    target_state: TargetState = TargetState.RUNNING
    generation: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Partition:
    """A unit of work with an offset of its own. `offset` None means from the beginning; `payload`
    is the connector's.
    """

    key: Mapping[str, Any]
    offset: Mapping[str, Any] | None = None
    payload: bytes = b""
    datasets: tuple[str, ...] = ()
    weight: float = 1.0
    bounded: bool = False

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


@dataclass(frozen=True, slots=True)
class Target:
    """A configured plugin connector. `secrets` are resolved values: never logged, never stored."""

    connector: str
    instance: str
    config: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """How a task is, with its numbers since it was started. `bytes_left`, `rows_left`: -1 when
    unknown.
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
    restarts: int = 0
