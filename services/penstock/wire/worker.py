"""penstock.api.worker.v1 ↔ task statuses, installed plugins, their keys, connection checks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.error.v1 import diagnostic_pb2 as diagnostic_pb
from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.config_def import ConfigValue, ConnectorDefinition, KeyDefinition
from penstock.model.connector import TaskState, TaskStatus
from penstock.model.errors import Diagnostic
from penstock.wire import error, metrics

_KINDS = {
    plugin_pb.KIND_SOURCE: "source",
    plugin_pb.KIND_SINK: "sink",
    plugin_pb.KIND_TRANSFORM: "transform",
    plugin_pb.KIND_CONVERTER: "converter",
}

_STATES = frozenset(map(int, TaskState))


@dataclass(frozen=True, slots=True)
class InstalledConnector:
    """A connector of a plugin. `kind` is source, sink, transform or converter."""

    name: str
    kind: str
    title: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin that is installed on a worker, with its connectors."""

    name: str
    version: str
    connectors: tuple[InstalledConnector, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """One step of a connection check. `end` is `source` or `sink`; `took` is in seconds."""

    end: str
    step: str
    ok: bool
    took: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()


def status_to_proto(status: TaskStatus, budget: error.MessageBudget | None = None) -> pb.TaskStatus:
    """Return the message for the status of a task. `budget` is for many of them in one message."""
    message = pb.TaskStatus(
        task_id=status.task_id,
        connector=status.connector,
        epoch=status.epoch,
        state=int(status.state),  # type: ignore[arg-type] # enums share numbers
        diagnostic=_diagnostic_to_proto(status.diagnostic, budget),
        rows_read=status.rows_read,
        rows_written=status.rows_written,
        bytes_read=status.bytes_read,
        batches=status.batches,
        bytes_left=status.bytes_left,
        rows_left=status.rows_left,
        rows_failed=status.rows_failed,
        restarts=status.restarts,
        restarts_in_a_row=status.restarts_in_a_row,
        plugin_version=status.plugin_version,
    )
    metrics.add_task_metrics(message, status, budget)
    return message


def _diagnostic_to_proto(
    diagnostic: Diagnostic | None, budget: error.MessageBudget | None
) -> diagnostic_pb.Diagnostic | None:
    if budget is not None:
        return budget.to_proto(diagnostic)
    return None if diagnostic is None else error.to_proto(diagnostic)


def status_from_proto(message: pb.TaskStatus) -> TaskStatus:
    """Return the status of a message. A state of a newer version reads as unset."""
    known = int(message.state) in _STATES
    return TaskStatus(
        task_id=message.task_id,
        connector=message.connector,
        epoch=message.epoch,
        state=TaskState(message.state) if known else TaskState.UNSPECIFIED,
        diagnostic=(
            error.from_proto(message.diagnostic) if message.HasField("diagnostic") else None
        ),
        rows_read=message.rows_read,
        rows_written=message.rows_written,
        bytes_read=message.bytes_read,
        batches=message.batches,
        bytes_left=message.bytes_left,
        rows_left=message.rows_left,
        rows_failed=message.rows_failed,
        restarts=message.restarts,
        restarts_in_a_row=message.restarts_in_a_row,
        plugin_version=message.plugin_version,
        **metrics.task_metrics_from_proto(message),
    )


def plugin_to_proto(plugin: InstalledPlugin) -> pb.InstalledPlugin:
    """Return the message for an installed plugin."""
    kinds = {word: number for number, word in _KINDS.items()}
    return pb.InstalledPlugin(
        name=plugin.name,
        version=plugin.version,
        connectors=[
            plugin_pb.ConnectorSpec(
                name=c.name,
                kind=kinds.get(c.kind, plugin_pb.KIND_UNSPECIFIED),
                title=c.title,
                aliases=c.aliases,
            )
            for c in plugin.connectors
        ],
    )


def plugin_from_proto(message: pb.InstalledPlugin) -> InstalledPlugin:
    """Return the installed plugin of a message."""
    return InstalledPlugin(
        message.name,
        message.version,
        tuple(
            InstalledConnector(c.name, _KINDS.get(c.kind, ""), c.title, tuple(c.aliases))
            for c in message.connectors
        ),
    )


def definition_to_proto(described: ConnectorDefinition) -> pb.DescribeConnectorResponse:
    """Return the message for the definition of a connector: its keys, and those of the runtime."""
    kinds = {word: number for number, word in _KINDS.items()}
    return pb.DescribeConnectorResponse(
        plugin=described.plugin,
        version=described.version,
        connector=plugin_pb.ConnectorSpec(
            name=described.name,
            kind=kinds.get(described.kind, plugin_pb.KIND_UNSPECIFIED),
            config_keys=map(key_to_proto, described.keys),
        ),
        framework_keys=map(key_to_proto, described.framework_keys),
    )


def definition_from_proto(message: pb.DescribeConnectorResponse) -> ConnectorDefinition:
    """Return the definition of a connector in a message."""
    return ConnectorDefinition(
        message.connector.name,
        _KINDS.get(message.connector.kind, ""),
        message.plugin,
        message.version,
        tuple(map(key_from_proto, message.connector.config_keys)),
        tuple(map(key_from_proto, message.framework_keys)),
    )


def key_to_proto(key: KeyDefinition) -> plugin_pb.ConfigKey:
    """Return the message for the definition of a key."""
    return plugin_pb.ConfigKey(
        name=key.name,
        type=key.type,
        default_value=key.default,
        required=key.required,
        sensitive=key.sensitive,
        importance=key.importance,
        group=key.group,
        order=key.order,
        display_name=key.display_name,
        documentation=key.documentation,
        choices=key.choices,
    )


def key_from_proto(message: plugin_pb.ConfigKey) -> KeyDefinition:
    """Return the definition of a key in a message."""
    return KeyDefinition(
        name=message.name,
        type=message.type or "string",
        default=message.default_value if message.HasField("default_value") else None,
        required=message.required,
        sensitive=message.sensitive,
        documentation=message.documentation,
        importance=message.importance,
        group=message.group,
        order=message.order,
        display_name=message.display_name,
        choices=tuple(message.choices),
    )


def value_to_proto(value: ConfigValue) -> connector_pb.ConfigValue:
    """Return the message for the value of a key, as the plugin validated it."""
    return connector_pb.ConfigValue(name=value.name, value=value.value, visible=value.visible)


def value_from_proto(message: connector_pb.ConfigValue) -> ConfigValue:
    """Return the value of a key in a message."""
    value = message.value if message.HasField("value") else None
    return ConfigValue(message.name, value, message.visible)


def step_to_proto(step: CheckedStep) -> pb.CheckConnectionResponse:
    """Return the message for a step of a connection check."""
    message = pb.CheckConnectionResponse(
        end=step.end,
        step=step.step,
        ok=step.ok,
        diagnostics=[error.to_proto(d) for d in step.diagnostics],
    )
    message.took.FromTimedelta(timedelta(seconds=step.took))
    return message


def step_from_proto(message: pb.CheckConnectionResponse) -> CheckedStep:
    """Return the step of a connection check in a message."""
    took = message.took.ToTimedelta().total_seconds()
    found = tuple(error.from_proto(d) for d in message.diagnostics)
    return CheckedStep(message.end, message.step, message.ok, took, found)


@dataclass(frozen=True, slots=True)
class BuiltInPlugin:
    """A transform, predicate or converter that is part of Penstock.

    `type` is the word of Kafka Connect: transformation, predicate, converter, header_converter.
    """

    name: str
    type: str
    version: str


def built_in_to_proto(one: BuiltInPlugin) -> pb.BuiltIn:
    """Return the message for a built-in plugin."""
    return pb.BuiltIn(name=one.name, type=one.type, version=one.version)


def built_in_from_proto(message: pb.BuiltIn) -> BuiltInPlugin:
    """Return the built-in plugin of a message."""
    return BuiltInPlugin(message.name, message.type, message.version)
