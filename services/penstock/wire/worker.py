"""penstock.api.worker.v1 ↔ task status, plugins, their keys, checks of a connection, live rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.error.v1 import diagnostic_pb2 as diagnostic_pb
from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.connector import TaskState, TaskStatus
from penstock.model.described import DescribedConnector, DescribedKey, KeyValue
from penstock.model.errors import Diagnostic
from penstock.model.live_rows import Looked, LookedRow, LookRules, RowStage
from penstock.wire import error, numbers

_KINDS = {
    plugin_pb.KIND_SOURCE: "source",
    plugin_pb.KIND_SINK: "sink",
    plugin_pb.KIND_TRANSFORM: "transform",
    plugin_pb.KIND_CONVERTER: "converter",
}

_STATES = frozenset(map(int, TaskState))
_STAGES = frozenset(map(int, RowStage))


@dataclass(frozen=True, slots=True)
class InstalledConnector:
    """A connector of a plugin. `kind`: source, sink, transform, converter."""

    name: str
    kind: str
    title: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin on a worker."""

    name: str
    version: str
    connectors: tuple[InstalledConnector, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """One step of a connection check of an end, `source` or `sink`; `took` is in seconds."""

    end: str
    step: str
    ok: bool
    took: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()


def status_to_proto(status: TaskStatus, brief: error.Brief | None = None) -> pb.TaskStatus:
    """Return the message for a task's status; with `brief`, as one of many."""
    message = pb.TaskStatus(
        task_id=status.task_id,
        connector=status.connector,
        epoch=status.epoch,
        state=int(status.state),  # type: ignore[arg-type] # enums share numbers
        diagnostic=_diagnostic_to_proto(status.diagnostic, brief),
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
    numbers.add_to(message, status, brief)
    return message


def _diagnostic_to_proto(
    diagnostic: Diagnostic | None, brief: error.Brief | None
) -> diagnostic_pb.Diagnostic | None:
    if brief is not None:
        return brief.to_proto(diagnostic)
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
        **numbers.from_proto(message),
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


def described_to_proto(described: DescribedConnector) -> pb.DescribeConnectorResponse:
    """Return the message for what a connector can be told."""
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


def described_from_proto(message: pb.DescribeConnectorResponse) -> DescribedConnector:
    """Return what a connector can be told."""
    return DescribedConnector(
        message.connector.name,
        _KINDS.get(message.connector.kind, ""),
        message.plugin,
        message.version,
        tuple(map(key_from_proto, message.connector.config_keys)),
        tuple(map(key_from_proto, message.framework_keys)),
    )


def key_to_proto(key: DescribedKey) -> plugin_pb.ConfigKey:
    """Return the message for a key."""
    return plugin_pb.ConfigKey(
        name=key.name,
        type=key.type,
        default_value=key.default,
        required=key.required,
        sensitive=key.sensitive,
        importance=key.importance,
        group=key.group,
        order=key.order,
        width=key.width,
        display_name=key.display_name,
        documentation=key.documentation,
        dependents=key.dependents,
        choices=key.choices,
        replaced_by=key.replaced_by,
    )


def key_from_proto(message: plugin_pb.ConfigKey) -> DescribedKey:
    """Return the key of a message."""
    return DescribedKey(
        name=message.name,
        type=message.type or "string",
        default=message.default_value if message.HasField("default_value") else None,
        required=message.required,
        sensitive=message.sensitive,
        documentation=message.documentation,
        importance=message.importance,
        group=message.group,
        order=message.order,
        width=message.width,
        display_name=message.display_name,
        choices=tuple(message.choices),
        dependents=tuple(message.dependents),
        replaced_by=message.replaced_by,
    )


def value_to_proto(value: KeyValue) -> connector_pb.ConfigValue:
    """Return the message for what a plugin makes of a key."""
    return connector_pb.ConfigValue(
        name=value.name,
        value=value.value,
        recommended=value.recommended,
        visible=value.visible,
    )


def value_from_proto(message: connector_pb.ConfigValue) -> KeyValue:
    """Return what a plugin makes of a key."""
    value = message.value if message.HasField("value") else None
    return KeyValue(message.name, value, tuple(message.recommended), message.visible)


def step_to_proto(step: CheckedStep) -> pb.CheckConnectionResponse:
    """Return the message for a step of a check."""
    message = pb.CheckConnectionResponse(
        end=step.end,
        step=step.step,
        ok=step.ok,
        diagnostics=[error.to_proto(d) for d in step.diagnostics],
    )
    message.took.FromTimedelta(timedelta(seconds=step.took))
    return message


def step_from_proto(message: pb.CheckConnectionResponse) -> CheckedStep:
    """Return the step of a check in a message."""
    took = message.took.ToTimedelta().total_seconds()
    found = tuple(error.from_proto(d) for d in message.diagnostics)
    return CheckedStep(message.end, message.step, message.ok, took, found)


def look_to_proto(task_id: str, rules: LookRules) -> pb.InspectRowsRequest:
    """Return the message for a look at a task."""
    behind = "" if isinstance(rules.stage, RowStage) else rules.stage
    return pb.InspectRowsRequest(
        task_id=task_id,
        stage=0 if behind else int(rules.stage),  # type: ignore[arg-type] # enums share numbers
        transform=behind,
        max_rows=rules.rows,
        max_row_bytes=rules.row_bytes,
        max_ms=round(rules.seconds * 1000),
    )


def look_from_proto(message: pb.InspectRowsRequest) -> LookRules:
    """Return what is asked for. A stage of a newer version reads as unset."""
    stage = int(message.stage)
    return LookRules(
        message.transform or (RowStage(stage) if stage in _STAGES else RowStage.UNSPECIFIED),
        message.max_rows,
        message.max_row_bytes,
        message.max_ms / 1000,
    )


def looked_to_proto(looked: Looked) -> pb.InspectRowsResponse:
    """Return the message for rows that are shown."""
    rows = [
        pb.InspectedRow(
            topic=row.topic,
            partition=row.partition,
            offset=row.offset,
            timestamp_us=row.ts_us,
            json=row.json,
            cut=row.cut,
        )
        for row in looked.rows
    ]
    return pb.InspectRowsResponse(rows=rows, missed=looked.missed)


def looked_from_proto(message: pb.InspectRowsResponse) -> Looked:
    """Return the rows of a message."""
    rows = tuple(
        LookedRow(
            row.topic,
            row.partition,
            row.offset,
            row.timestamp_us if row.HasField("timestamp_us") else None,
            row.json,
            row.cut,
        )
        for row in message.rows
    )
    return Looked(rows, message.missed)
