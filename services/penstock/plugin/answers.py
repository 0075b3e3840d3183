"""What the control calls of a plugin answer, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.error.v1 import diagnostic_pb2
from penstock.api.record.v1 import record_pb2
from penstock.model.connector import CommitMode, Partition, TaskPlan
from penstock.model.errors import Diagnostic, Severity
from penstock.model.identity import partition_id
from penstock.plugin.describe import commit_mode
from penstock.plugin.errors import clean, printable, violation
from penstock.plugin.streams.read_rules import check_partition
from penstock.wire import connector as connector_wire
from penstock.wire import error as error_wire
from penstock.wire import record as record_wire

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The result for one key; `value` is None for sensitive keys."""

    name: str
    value: str | None = None
    recommended: tuple[str, ...] = ()
    visible: bool = True
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Validation:
    """What is right and wrong with a configuration."""

    values: tuple[ConfigValue, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    commit_modes: tuple[CommitMode, ...] = ()

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """All findings that stop the configuration from being used, of keys first."""
        found = (*(d for value in self.values for d in value.diagnostics), *self.diagnostics)
        return tuple(d for d in found if d.severity in {Severity.ERROR, Severity.UNSPECIFIED})


@dataclass(frozen=True, slots=True)
class Planned:
    """The work of a configuration: tasks, or partitions that the host spreads over tasks."""

    tasks: tuple[TaskPlan, ...] = ()
    partitions: tuple[Partition, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    monitor: bool = False
    """Whether the connector is to be watched: Monitor is to run."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done outside, one line each."""

    actions: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Altered:
    """What is to be stored of offsets that a person set, and what is to be said of it."""

    partitions: tuple[Partition, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckStep:
    """One step of a connection check; `took` is in seconds."""

    step: str
    ok: bool
    took: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()


def diagnostics(
    messages: Iterable[diagnostic_pb2.Diagnostic], redact: Redact
) -> tuple[Diagnostic, ...]:
    """Return findings fit to be shown."""
    return tuple(clean(error_wire.from_proto(message), redact) for message in messages)


def validation(message: pb.ValidateConfigResponse, redact: Redact) -> Validation:
    """Return the validation in a message."""
    return Validation(
        values=tuple(
            ConfigValue(
                name=value.name,
                value=value.value if value.HasField("value") else None,
                recommended=tuple(value.recommended),
                visible=value.visible,
                diagnostics=diagnostics(value.diagnostics, redact),
            )
            for value in message.values
        ),
        diagnostics=diagnostics(message.diagnostics, redact),
        commit_modes=tuple(commit_mode(mode) for mode in message.commit_modes),
    )


def planned(message: pb.PlanResponse, redact: Redact) -> Planned:
    """Return the plan in a message.

    Raises:
        InternalError: `plugin.protocol.partition_id`: an id is not that of its partition's key.
    """
    for partition in (*message.partitions, *(p for t in message.tasks for p in t.partitions)):
        _check_partition(partition)
    return Planned(
        tasks=tuple(connector_wire.plan_from_proto(task) for task in message.tasks),
        partitions=tuple(record_wire.partition_from_proto(p) for p in message.partitions),
        diagnostics=diagnostics(message.diagnostics, redact),
        monitor=message.monitor,
    )


def _check_partition(partition: record_pb2.Partition) -> None:
    check_partition(partition.partition_id)
    key = {name: record_wire.value_from_proto(value) for name, value in partition.key.items()}
    if key and partition_id(key) != partition.partition_id:
        raise violation(
            "partition_id",
            f"the id {printable(partition.partition_id, 200)!r} is not that of its key, which is "
            f"{printable(partition_id(key), 200)!r}",
        )


def applied(message: pb.ApplyResponse, redact: Redact) -> Applied:
    """Return what was done, from a message."""
    return Applied(tuple(message.actions), diagnostics(message.diagnostics, redact))


def altered(message: pb.AlterOffsetsResponse, redact: Redact) -> Altered:
    """Return what a person's offsets became, from a message."""
    return Altered(
        partitions=tuple(record_wire.partition_from_proto(p) for p in message.partitions),
        diagnostics=diagnostics(message.diagnostics, redact),
    )


def check_step(message: pb.CheckConnectionResponse, redact: Redact) -> CheckStep:
    """Return the step in a message."""
    return CheckStep(
        step=message.step,
        ok=message.ok,
        took=message.took.ToTimedelta().total_seconds(),
        diagnostics=diagnostics(message.diagnostics, redact),
    )
