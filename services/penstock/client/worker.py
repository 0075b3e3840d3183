"""WorkerClient: calls that need a process with the plugins, and the tasks and logs of a worker."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2_grpc as grpc_api
from penstock.client.service_client import ServiceClient
from penstock.model.config_def import ConfigValue, ConnectorDefinition
from penstock.model.connector import ApplyAction, Connector, ConnectorKind, TaskPlan, TaskStatus
from penstock.model.dead_letter_queue import DeadLetterQuery, DeadLetterResult
from penstock.model.errors import Diagnostic
from penstock.model.inspection import InspectedRows, InspectRules, PreviewRequest, PreviewResult
from penstock.model.logs import LogFilter, LogLines
from penstock.rpc.channels import Dial, ServiceAddress, open_channel
from penstock.telemetry.log_levels import LoggerLevel
from penstock.wire import error, worker_rows
from penstock.wire.config import connector_to_proto
from penstock.wire.connector import plan_from_proto
from penstock.wire.record import add_offsets, offsets_from_proto
from penstock.wire.worker import (
    BuiltInPlugin,
    CheckedStep,
    InstalledPlugin,
    built_in_from_proto,
    definition_from_proto,
    plugin_from_proto,
    status_from_proto,
    step_from_proto,
    value_from_proto,
)

WORKER_TIMEOUT_S = 60.0
"""Seconds for a call. A plugin may have to start, and may read the tables of a database."""


@dataclass(frozen=True, slots=True)
class ValidatedConnector:
    """The findings about a configuration, and the kind of connector that its plugin makes of it.

    Only a worker fills `values`: what the plugins make of their keys. `secret_keys` are the keys
    that the plugins declare as secrets.
    """

    diagnostics: tuple[Diagnostic, ...]
    kind: ConnectorKind
    values: tuple[ConfigValue, ...] = ()
    secret_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedConnector:
    """The task plans of a connector, with warnings, and whether it has a monitor."""

    plans: tuple[TaskPlan, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    monitor: bool = False


@dataclass(frozen=True, slots=True)
class AlteredOffsets:
    """Offsets to store, by partition id; None removes one.

    `plugin_called`: the plugin has the capability `alter_offsets` and was called.
    """

    plugin_called: bool
    offsets: Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class ReloadedPlugins:
    """The installed plugins, whether they changed, and the problems of skipped plugins."""

    plugins: tuple[InstalledPlugin, ...]
    changed: bool
    problems: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class AppliedConnector:
    """The warnings of plugins that changed what a connector owns in external systems."""

    diagnostics: tuple[Diagnostic, ...] = ()


class WorkerClient(ServiceClient):
    """A worker. Every method may raise PenstockError."""

    def __init__(
        self, place: ServiceAddress, timeout_s: float = WORKER_TIMEOUT_S, dial: Dial = open_channel
    ) -> None:
        """`place` is `unix:/path` or `host:port`, or finds such addresses; see `ServiceClient`."""
        super().__init__(place, timeout_s, dial)
        self._stub = grpc_api.WorkerServiceStub(self._channel)

    async def list_plugins(self) -> list[InstalledPlugin]:
        """Return the plugins that are installed on the worker."""
        request = pb.ListPluginsRequest()
        answer = await self._call("worker.list_plugins", self._stub.ListPlugins, request)
        return [plugin_from_proto(plugin) for plugin in answer.plugins]

    async def list_built_in(self) -> list[BuiltInPlugin]:
        """Return the transforms, predicates and converters that need no plugin."""
        request = pb.ListPluginsRequest()
        answer = await self._call("worker.list_plugins", self._stub.ListPlugins, request)
        return [built_in_from_proto(one) for one in answer.built_in]

    async def reload_plugins(self) -> ReloadedPlugins:
        """Have the worker scan its plugin folders again."""
        request = pb.ReloadPluginsRequest()
        answer = await self._call("worker.reload_plugins", self._stub.ReloadPlugins, request)
        return ReloadedPlugins(
            tuple(plugin_from_proto(plugin) for plugin in answer.plugins),
            answer.changed,
            tuple(error.from_proto(problem) for problem in answer.problems),
        )

    async def validate(self, connector: Connector) -> ValidatedConnector:
        """Validate a configuration by the plugins that it names."""
        request = pb.ValidateConnectorRequest(connector=connector_to_proto(connector))
        answer = await self._call("worker.validate", self._stub.ValidateConnector, request)
        diagnostics = tuple(error.from_proto(d) for d in answer.diagnostics)
        values = tuple(value_from_proto(value) for value in answer.values)
        kind = ConnectorKind(answer.kind)
        return ValidatedConnector(diagnostics, kind, values, tuple(answer.secret_keys))

    async def describe(self, name: str, version: str = "") -> ConnectorDefinition:
        """Return the keys of a connector, a transform or a converter."""
        request = pb.DescribeConnectorRequest(name=name, version=version)
        answer = await self._call("worker.describe", self._stub.DescribeConnector, request)
        return definition_from_proto(answer)

    async def plan(self, connector: Connector) -> PlannedConnector:
        """Split a connector into task plans."""
        request = pb.PlanConnectorRequest(connector=connector_to_proto(connector))
        answer = await self._call("worker.plan", self._stub.PlanConnector, request)
        return PlannedConnector(
            tuple(plan_from_proto(plan) for plan in answer.plans),
            tuple(error.from_proto(d) for d in answer.diagnostics),
            answer.monitor,
        )

    async def apply(
        self, connector: Connector, action: ApplyAction, last: Connector | None = None
    ) -> AppliedConnector:
        """Have the plugins create, change or delete what the connector owns in external systems.

        `last` has the configuration that was applied last.
        """
        request = pb.ApplyConnectorRequest(
            connector=connector_to_proto(connector),
            action=int(action),  # type: ignore[arg-type] # enums share numbers
            last_applied=connector_to_proto(last) if last else None,
        )
        answer = await self._call("worker.apply", self._stub.ApplyConnector, request)
        findings = tuple(error.from_proto(d) for d in answer.diagnostics)
        return AppliedConnector(findings)

    async def alter_offsets(
        self,
        connector: Connector,
        offsets: Mapping[str, Mapping[str, Any] | None],
        *,
        dry_run: bool = False,
    ) -> AlteredOffsets:
        """Have the plugin accept, refuse or normalize offsets of a user; None removes one."""
        request = pb.AlterOffsetsRequest(connector=connector_to_proto(connector), dry_run=dry_run)
        add_offsets(request.offsets, offsets)
        answer = await self._call("worker.alter_offsets", self._stub.AlterOffsets, request)
        return AlteredOffsets(answer.checked, offsets_from_proto(answer.offsets))

    async def check_connection(self, connector: Connector) -> AsyncGenerator[CheckedStep, None]:
        """Iterate over the steps of a connection check, as the plugins complete them."""
        request = pb.CheckConnectionRequest(connector=connector_to_proto(connector))
        answers = self._stub.CheckConnection(request, timeout=self._timeout_s)
        async for answer in self._stream("worker.check", answers):
            yield step_from_proto(answer)

    async def preview_rows(self, connector: Connector, given: PreviewRequest) -> PreviewResult:
        """Return what the transforms make of rows. Neither the source nor the sink is opened."""
        request = worker_rows.preview_request_to_proto(connector, given)
        method = self._stub.PreviewRows
        # the engine may have to start
        answer = await self._call(
            "worker.preview_rows", method, request, timeout_s=WORKER_TIMEOUT_S
        )
        return worker_rows.preview_from_proto(answer)

    async def watch_tasks(self, interval_s: float = 0.0) -> AsyncIterator[TaskStatus]:
        """Iterate over statuses: all tasks first, then changes, and metrics each `interval_s`."""
        answers = self._stub.WatchTasks(pb.WatchTasksRequest(every_ms=round(interval_s * 1000)))
        async for answer in self._stream("worker.watch_tasks", answers):
            yield status_from_proto(answer.task)

    async def inspect_rows(
        self, task_id: str, rules: InspectRules | None = None
    ) -> AsyncGenerator[InspectedRows, None]:
        """Iterate over live rows of a task, until the limit of rows or of seconds is reached."""
        answers = self._stub.InspectRows(
            worker_rows.inspect_request_to_proto(task_id, rules or InspectRules())
        )
        async for answer in self._stream("worker.inspect", answers):
            yield worker_rows.inspected_rows_from_proto(answer)

    async def watch_logs(self, rules: LogFilter) -> AsyncGenerator[LogLines, None]:
        """Iterate over the log lines of the worker: the last ones, and with `follow` new ones."""
        answers = self._stub.WatchLogs(worker_rows.log_filter_to_proto(rules))
        async for answer in self._stream("worker.logs", answers):
            yield worker_rows.log_lines_from_proto(answer)

    async def read_dead_letters(
        self, query: DeadLetterQuery
    ) -> AsyncGenerator[DeadLetterResult, None]:
        """Iterate over dead letters of a topic: first their counts, then some of them."""
        answers = self._stub.ReadDeadLetters(
            worker_rows.dead_letter_query_to_proto(query), timeout=self._timeout_s
        )
        async for answer in self._stream("worker.read_letters", answers):
            yield worker_rows.dead_letters_from_proto(answer)

    async def set_log_level(self, logger: str, level: str) -> None:
        """Set the level of a logger in this process only. An empty level removes it."""
        request = pb.SetLogLevelRequest(logger=logger, level=level)
        await self._call("worker.set_log_level", self._stub.SetLogLevel, request)

    async def list_log_levels(self) -> list[LoggerLevel]:
        """Return the loggers of the process that have a level."""
        request = pb.ListLogLevelsRequest()
        answer = await self._call("worker.log_levels", self._stub.ListLogLevels, request)
        return [LoggerLevel(one.logger, one.level, one.own) for one in answer.levels]
