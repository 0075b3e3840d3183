"""penstock.api.worker.v1 ↔ task statuses with their metrics, installed plugins, results of admin
operations, datasets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.admin import AppliedConnector, CheckedStep, PlannedConnector, ValidatedConnector
from penstock.model.config_def import ConnectorDefinition
from penstock.model.connector import TaskStatus
from penstock.model.datasets import Dataset, DatasetColumn, DatasetPart
from penstock.model.logs import LoggerLevel
from penstock.model.metrics import DatasetRows, MinMeanMax, PluginMetric, TaskMetrics, TimeShares
from penstock.model.plugins import (
    BuiltInPlugin,
    InstalledConnector,
    InstalledPlugin,
    ReloadedPlugins,
)
from penstock.wire.codec import Codec, Converter
from penstock.wire.connector import KEY, PLAN, VALUE
from penstock.wire.error import DIAGNOSTIC
from penstock.wire.message_budget import MessageBudget

TASK_STATUS: Final = Codec(
    TaskStatus,
    pb.TaskStatus,
    parts=[
        DIAGNOSTIC,
        Codec(
            TaskMetrics,
            pb.TaskMetrics,
            parts=[Codec(MinMeanMax, pb.MinMeanMax), Codec(TimeShares, pb.TimeShares)],
        ),
        Codec(DatasetRows, pb.DatasetRows),
        Codec(PluginMetric, pb.PluginMetric, names={"role": "end"}),
    ],
    names={"metrics": "work"},
)


def status_to_proto(status: TaskStatus, budget: MessageBudget) -> pb.TaskStatus:
    """Return the message for the status of a task, one of many in one message."""
    diagnostic = budget.cut_texts(status.diagnostic)
    message = TASK_STATUS.to_proto(replace(status, diagnostic=diagnostic))
    budget.limit_metrics(message)
    return message


_KINDS: Final = {
    plugin_pb.KIND_SOURCE: "source",
    plugin_pb.KIND_SINK: "sink",
    plugin_pb.KIND_TRANSFORM: "transform",
    plugin_pb.KIND_CONVERTER: "converter",
}

_KIND_NUMBERS: Final = {word: number for number, word in _KINDS.items()}

INSTALLED_PLUGIN: Final = Codec(
    InstalledPlugin,
    pb.InstalledPlugin,
    parts=[
        Codec(
            InstalledConnector,
            plugin_pb.ConnectorSpec,
            converters={
                "kind": Converter(
                    lambda word: _KIND_NUMBERS.get(word, plugin_pb.KIND_UNSPECIFIED),
                    lambda number: _KINDS.get(number, ""),
                )
            },
            only_in_message=["description", "config_keys", "source", "sink", "enforces_reach"],
        )
    ],
)

BUILT_IN_PLUGIN: Final = Codec(BuiltInPlugin, pb.BuiltIn)

RELOADED_PLUGINS: Final = Codec(
    ReloadedPlugins, pb.ReloadPluginsResponse, parts=[INSTALLED_PLUGIN, DIAGNOSTIC]
)

VALIDATED: Final = Codec(
    ValidatedConnector, pb.ValidateConnectorResponse, parts=[DIAGNOSTIC, VALUE, KEY]
)

PLANNED: Final = Codec(PlannedConnector, pb.PlanConnectorResponse, parts=[PLAN, DIAGNOSTIC])

APPLIED: Final = Codec(AppliedConnector, pb.ApplyConnectorResponse, parts=[DIAGNOSTIC])

CHECKED_STEP: Final = Codec(CheckedStep, pb.CheckConnectionResponse, parts=[DIAGNOSTIC])

DATASET_PART: Final = Codec(
    DatasetPart,
    pb.ListDatasetsResponse,
    parts=[Codec(Dataset, pb.Dataset, parts=[Codec(DatasetColumn, pb.DatasetColumn), DIAGNOSTIC])],
)

LOGGER_LEVEL: Final = Codec(LoggerLevel, pb.ProcessLogLevel)


def definition_to_proto(described: ConnectorDefinition) -> pb.DescribeConnectorResponse:
    """Return the message for the definition of a connector: its keys, and those of the runtime."""
    return pb.DescribeConnectorResponse(
        plugin=described.plugin,
        version=described.version,
        connector=plugin_pb.ConnectorSpec(
            name=described.name,
            kind=_KIND_NUMBERS.get(described.kind, plugin_pb.KIND_UNSPECIFIED),
            config_keys=map(KEY.to_proto, described.keys),
        ),
        framework_keys=map(KEY.to_proto, described.framework_keys),
    )


def definition_from_proto(message: pb.DescribeConnectorResponse) -> ConnectorDefinition:
    """Return the definition of a connector in a message."""
    return ConnectorDefinition(
        message.connector.name,
        _KINDS.get(message.connector.kind, ""),
        message.plugin,
        message.version,
        tuple(map(KEY.from_proto, message.connector.config_keys)),
        tuple(map(KEY.from_proto, message.framework_keys)),
    )
