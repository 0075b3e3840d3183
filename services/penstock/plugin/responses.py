"""Responses of a plugin to its control calls, as values of the host.

- Describe: `PluginDescription`, with a `ConnectorSpec` for each connector
- ValidateConfig: `Validation`
- Plan: `PlanResult`
- Apply: `ApplyResult`
- AlterOffsets: partitions, with the offsets to store
- CheckConnection: a stream of `CheckStep`
- ListDatasets: a stream of `Dataset`
- ParseRows: `ParsedRow`, for each row
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.error.v1 import diagnostic_pb2
from penstock.api.record.v1 import record_pb2
from penstock.model.config_def import KeyDefinition
from penstock.model.connector import Partition, TaskPlan
from penstock.model.datasets import Dataset, DatasetColumn
from penstock.model.errors import Diagnostic, Severity
from penstock.model.stream import StreamSchema
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.errors import clean_diagnostic, escape_text, protocol_violation
from penstock.plugin.protocol_rules import check_partition_id, schema_from_proto
from penstock.wire import record as record_wire
from penstock.wire.connector import KEY, PLAN
from penstock.wire.error import DIAGNOSTIC
from penstock_values.identity import partition_id
from penstock_values.memory_files import can_read
from penstock_values.messages import key_from_proto

_KINDS = {
    plugin_pb.KIND_SOURCE: Kind.SOURCE,
    plugin_pb.KIND_SINK: Kind.SINK,
    plugin_pb.KIND_TRANSFORM: Kind.TRANSFORM,
    plugin_pb.KIND_CONVERTER: Kind.CONVERTER,
}

Redact = Callable[[str], str]
_MAX_ACTIONS: Final = 100

_MAX_ACTION_CHARS: Final = 500
"""Limits of the actions that Apply reports: each is logged as a line."""

_MAX_RECOMMENDED: Final = 1000
_MAX_RECOMMENDED_CHARS: Final = 1000
"""Bounds of the values that a form offers for a key (invariant 12)."""

_MAX_TYPE_CHARS: Final = 500
"""Longest type of a column that is shown; a struct may have thousands of fields."""


@dataclass(frozen=True, slots=True)
class SourceCapabilities:
    """Optional features of a source."""

    needs_commit: bool = False
    alter_offsets: bool = False
    replayable: bool = False
    """Whether it reads the same rows again from each of its offsets."""


@dataclass(frozen=True, slots=True)
class SinkCapabilities:
    """Optional features of a sink."""

    alter_offsets: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """One connector of a plugin, as Describe returns it."""

    name: str
    kind: Kind | None
    """None: a kind that this host does not know."""
    title: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    keys: tuple[KeyDefinition, ...] = ()
    source: SourceCapabilities = SourceCapabilities()
    sink: SinkCapabilities = SinkCapabilities()
    enforces_reach: bool = False
    """Whether the connector keeps to the folders and hosts that the host allows it."""

    @property
    def alters_offsets(self) -> bool:
        """Whether AlterOffsets is called before a user sets its offsets."""
        return self.source.alter_offsets or self.sink.alter_offsets


@dataclass(frozen=True, slots=True)
class PluginDescription:
    """A plugin and the connectors that it serves."""

    name: str
    version: str
    sdk: str = ""
    connectors: tuple[ConnectorSpec, ...] = ()
    memory_file: str = ""
    """A `penstock.api.record.v1.MemoryFile` in base64; set when the memory files of the plugin can
    be read here, and those of this process there."""

    def connector(self, name: str) -> ConnectorSpec | None:
        """Return the connector of this name; None when the plugin does not serve it."""
        return next((spec for spec in self.connectors if spec.name == name), None)


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The validation of one key."""

    name: str
    value: str | None = None
    """None for sensitive keys."""
    visible: bool = True
    recommended_values: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Validation:
    """The validation of a configuration."""

    values: tuple[ConfigValue, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The findings that make the configuration unusable, those of keys first."""
        found = (*(d for value in self.values for d in value.diagnostics), *self.diagnostics)
        return tuple(d for d in found if d.severity in {Severity.ERROR, Severity.UNSPECIFIED})


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The work of a connector: tasks, or partitions that the host spreads over tasks."""

    tasks: tuple[TaskPlan, ...] = ()
    partitions: tuple[Partition, ...] = ()
    monitor: bool = False
    """Whether the host runs Monitor while the connector runs."""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The changes that Apply made in external systems, one line each."""

    actions: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckStep:
    """One step of a connection check."""

    step: str
    ok: bool
    duration_s: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row that could not be read, as bytes, with columns to set before they are read."""

    partition_id: str
    dataset: str
    raw: bytes
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedRow:
    """What a source made of the bytes of a row: a batch of exactly this row, still encoded, with
    its schema; or why it is none.
    """

    schema: StreamSchema | None = None
    frame: record_pb2.Batch | None = None
    reason: Diagnostic | None = None


def description_from_proto(message: plugin_pb.DescribeResponse) -> PluginDescription:
    """Return the description of a plugin."""
    return PluginDescription(
        name=message.name,
        version=message.version,
        sdk=message.sdk,
        connectors=tuple(_spec(spec) for spec in message.connectors),
        memory_file=_memory_file(message),
    )


def _memory_file(message: plugin_pb.DescribeResponse) -> str:
    file = message.memory_file
    if not (message.HasField("memory_file") and can_read(file)):
        return ""
    return base64.b64encode(file.SerializeToString()).decode()


def _spec(message: plugin_pb.ConnectorSpec) -> ConnectorSpec:
    source, sink = message.source, message.sink
    return ConnectorSpec(
        name=message.name,
        kind=_KINDS.get(message.kind),
        title=message.title,
        description=message.description,
        aliases=tuple(message.aliases),
        keys=tuple(map(KEY.from_proto, message.config_keys)),
        source=SourceCapabilities(source.needs_commit, source.alter_offsets, source.replayable),
        sink=SinkCapabilities(sink.alter_offsets),
        enforces_reach=message.enforces_reach,
    )


def validation_from_proto(message: pb.ValidateConfigResponse, redact: Redact) -> Validation:
    """Return the result of ValidateConfig."""
    return Validation(
        values=tuple(
            ConfigValue(
                name=value.name,
                value=value.value if value.HasField("value") else None,
                visible=value.visible,
                recommended_values=_recommended_values(value, redact),
                diagnostics=diagnostics_from_proto(value.diagnostics, redact),
            )
            for value in message.values
        ),
        diagnostics=diagnostics_from_proto(message.diagnostics, redact),
    )


def _recommended_values(message: pb.ConfigValue, redact: Redact) -> tuple[str, ...]:
    """Return the first of them, without those that are too long or contain a secret: a shortened
    or redacted one would not be a valid value.
    """
    given = message.recommended_values[:_MAX_RECOMMENDED]
    return tuple(
        text for text in given if len(text) <= _MAX_RECOMMENDED_CHARS and redact(text) == text
    )


def plan_from_proto(message: pb.PlanResponse) -> PlanResult:
    """Return the result of Plan.

    Raises:
        InternalError: `plugin.protocol.partition_id`: the id of a partition is not that of its key.
    """
    for partition in (*message.partitions, *(p for t in message.tasks for p in t.partitions)):
        _check_partition_id(partition)
    return PlanResult(
        tasks=tuple(map(PLAN.from_proto, message.tasks)),
        partitions=partitions_from_proto(message.partitions),
        monitor=message.monitor,
    )


def _check_partition_id(partition: record_pb2.Partition) -> None:
    check_partition_id(partition.partition_id)
    key = key_from_proto(partition)
    if key and partition_id(key) != partition.partition_id:
        raise protocol_violation(
            "partition_id",
            f"a partition has the id {escape_text(partition.partition_id, 200)!r}; the id of its "
            f"key is {escape_text(partition_id(key), 200)!r}",
        )


def apply_result_from_proto(message: pb.ApplyResponse, redact: Redact) -> ApplyResult:
    """Return the result of Apply."""
    actions = (
        escape_text(redact(one), _MAX_ACTION_CHARS) for one in message.actions[:_MAX_ACTIONS]
    )
    return ApplyResult(tuple(actions), diagnostics_from_proto(message.diagnostics, redact))


def partitions_from_proto(messages: Iterable[record_pb2.Partition]) -> tuple[Partition, ...]:
    """Return partitions with their offsets."""
    return tuple(map(record_wire.partition_from_proto, messages))


def check_step_from_proto(message: pb.CheckConnectionResponse, redact: Redact) -> CheckStep:
    """Return one step of CheckConnection."""
    return CheckStep(
        step=message.step,
        ok=message.ok,
        duration_s=message.took.ToTimedelta().total_seconds(),
        diagnostics=diagnostics_from_proto(message.diagnostics, redact),
    )


def dataset_from_proto(message: pb.Dataset, schema: StreamSchema | None, redact: Redact) -> Dataset:
    """Return a dataset whose columns are those of `schema`."""
    columns = () if schema is None else _dataset_columns(schema, redact)
    problem = (
        clean_diagnostic(DIAGNOSTIC.from_proto(message.problem), redact)
        if message.HasField("problem")
        else None
    )
    return Dataset(
        redact(message.name), redact(message.dataset), columns, message.selected, problem
    )


def _dataset_columns(schema: StreamSchema, redact: Redact) -> tuple[DatasetColumn, ...]:
    return tuple(
        DatasetColumn(
            redact(field.name),
            escape_text(redact(str(field.type)), _MAX_TYPE_CHARS),
            field.nullable,
            field.name in schema.key_columns,
        )
        for field in schema.arrow
    )


def raw_row_to_proto(row: RawRow) -> source_pb.RawRow:
    """Return the message for a row as bytes."""
    return source_pb.RawRow(
        partition_id=row.partition_id,
        dataset=row.dataset,
        raw=row.raw,
        set_json=json.dumps(dict(row.changes)) if row.changes else "",
    )


def parsed_row_from_proto(message: source_pb.ParsedRow, redact: Redact) -> ParsedRow:
    """Return what a source made of a row.

    Raises:
        InternalError: `plugin.protocol.parsed_row`, `plugin.protocol.bad_schema`.
    """
    if message.HasField("reason"):
        reason = clean_diagnostic(DIAGNOSTIC.from_proto(message.reason), redact)
        return ParsedRow(reason=reason)
    if message.row.rows != 1 or message.row.HasField("memory_file") or message.row.more_chunks:
        raise protocol_violation(
            "parsed_row", "ParseRows returned neither exactly one row in one piece, nor a reason"
        )
    return ParsedRow(schema_from_proto(message.schema), message.row)


def diagnostics_from_proto(
    messages: Iterable[diagnostic_pb2.Diagnostic], redact: Redact
) -> tuple[Diagnostic, ...]:
    """Return findings with their texts bounded, escaped and redacted."""
    return tuple(clean_diagnostic(DIAGNOSTIC.from_proto(message), redact) for message in messages)
