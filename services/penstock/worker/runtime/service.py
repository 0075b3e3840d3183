"""The gRPC service of the worker: a thin layer that converts messages."""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2_grpc as grpc_api
from penstock.model.admin import CheckedStep, Signal
from penstock.model.connector import ApplyAction
from penstock.model.errors import ConfigError, nearest_names
from penstock.model.plugins import InstalledConnector, InstalledPlugin, ReloadedPlugins
from penstock.telemetry.log_levels import PROCESS_LEVELS
from penstock.telemetry.logs import RECENT_LOGS
from penstock.wire import worker as wire
from penstock.wire import worker_rows
from penstock.wire.config import CONNECTOR
from penstock.wire.record import add_offsets, offsets_from_proto
from penstock.worker.admin.built_ins import find_built_in, list_built_ins
from penstock.worker.admin.connector_plugins import (
    describe_connector,
)
from penstock.worker.runtime.worker import Worker


class WorkerService(grpc_api.WorkerServiceServicer):
    """Serves `penstock.api.worker.v1.WorkerService` from a worker, which the caller closes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def ListPlugins(
        self, request: pb.ListPluginsRequest, context: Any
    ) -> pb.ListPluginsResponse:
        """List the installed plugins and the built-ins."""
        return pb.ListPluginsResponse(
            plugins=map(wire.INSTALLED_PLUGIN.to_proto, self._plugins()),
            built_in=map(wire.BUILT_IN_PLUGIN.to_proto, list_built_ins()),
        )

    async def ReloadPlugins(
        self, request: pb.ReloadPluginsRequest, context: Any
    ) -> pb.ReloadPluginsResponse:
        """Reload the installed plugins."""
        changed = await self._worker.host.reload_async()
        problems = tuple(self._worker.host.registry.problems)
        return wire.RELOADED_PLUGINS.to_proto(ReloadedPlugins(self._plugins(), changed, problems))

    async def ValidateConnector(
        self, request: pb.ValidateConnectorRequest, context: Any
    ) -> pb.ValidateConnectorResponse:
        """Validate a configuration."""
        connector = CONNECTOR.from_proto(request.connector)
        return wire.VALIDATED.to_proto(await self._worker.admin.validator.validate(connector))

    async def DescribeConnector(
        self, request: pb.DescribeConnectorRequest, context: Any
    ) -> pb.DescribeConnectorResponse:
        """Return the keys of a connector."""
        host = self._worker.host
        try:
            found = await describe_connector(host, request.name, request.version)
        except ConfigError as error:
            own = find_built_in(request.name)
            if error.code != "plugin.not_installed" or own is None:
                raise
            found = own
        return wire.definition_to_proto(found)

    async def PlanConnector(
        self, request: pb.PlanConnectorRequest, context: Any
    ) -> pb.PlanConnectorResponse:
        """Split a connector into tasks."""
        connector = CONNECTOR.from_proto(request.connector)
        return wire.PLANNED.to_proto(await self._worker.admin.planner.plan(connector))

    async def AlterOffsets(
        self, request: pb.AlterOffsetsRequest, context: Any
    ) -> pb.AlterOffsetsResponse:
        """Let a plugin check offsets that an operator alters."""
        found = await self._worker.admin.offset_alterer.alter(
            CONNECTOR.from_proto(request.connector),
            offsets_from_proto(request.offsets),
            dry_run=request.dry_run,
        )
        answer = pb.AlterOffsetsResponse(checked=found.plugin_called)
        add_offsets(answer.offsets, found.offsets)
        return answer

    async def ApplyConnector(
        self, request: pb.ApplyConnectorRequest, context: Any
    ) -> pb.ApplyConnectorResponse:
        """Let plugins change the external state of a connector."""
        action = _parse_action(request.action)
        connector = CONNECTOR.from_proto(request.connector)
        known = request.HasField("last_applied")
        last = CONNECTOR.from_proto(request.last_applied) if known else None
        applied = await self._worker.admin.state_applier.apply(connector, action, last)
        return wire.APPLIED.to_proto(applied)

    async def SignalConnector(
        self, request: pb.SignalConnectorRequest, context: Any
    ) -> pb.SignalConnectorResponse:
        """Let the plugin of a source write a signal."""
        connector = CONNECTOR.from_proto(request.connector)
        signal = Signal(request.id, request.type, request.data)
        place = await self._worker.admin.signals.send(connector, signal)
        return pb.SignalConnectorResponse(written_to=place)

    async def CheckConnection(
        self, request: pb.CheckConnectionRequest, context: Any
    ) -> AsyncIterator[pb.CheckConnectionResponse]:
        """Run the steps of a connection check."""
        connector = CONNECTOR.from_proto(request.connector)
        async with aclosing(self._worker.admin.validator.check(connector)) as steps:
            async for end, step in steps:
                yield wire.CHECKED_STEP.to_proto(
                    CheckedStep(end, step.step, step.ok, step.duration_s, step.diagnostics)
                )

    async def ListDatasets(
        self, request: pb.ListDatasetsRequest, context: Any
    ) -> AsyncIterator[pb.ListDatasetsResponse]:
        """Stream the datasets that a source can read."""
        connector = CONNECTOR.from_proto(request.connector)
        parts = self._worker.admin.datasets.list_datasets(connector, request.limit)
        async with aclosing(parts):
            async for part in parts:
                yield wire.DATASET_PART.to_proto(part)

    async def PreviewRows(
        self, request: pb.PreviewRowsRequest, context: Any
    ) -> pb.PreviewRowsResponse:
        """Return what the chain makes of sample rows."""
        connector = CONNECTOR.from_proto(request.connector)
        given = worker_rows.PREVIEW_REQUEST.from_proto(request)
        return worker_rows.PREVIEW.to_proto(
            await self._worker.admin.previews.preview(connector, given)
        )

    async def WatchTasks(
        self, request: pb.WatchTasksRequest, context: Any
    ) -> AsyncIterator[pb.WatchTasksResponse]:
        """Stream the statuses of tasks."""
        async for statuses in self._worker.task_registry.watch(request.every_ms / 1000):
            for status in statuses:
                yield pb.WatchTasksResponse(task=wire.TASK_STATUS.to_proto(status))

    async def InspectRows(
        self, request: pb.InspectRowsRequest, context: Any
    ) -> AsyncIterator[pb.InspectRowsResponse]:
        """Stream live rows of a task."""
        task = self._worker.task_registry.task(request.task_id)
        if task is None:
            raise self._task_not_found(request.task_id)
        with task.inspections.open(worker_rows.inspect_request_from_proto(request)) as inspection:
            async for rows in inspection.read():
                yield worker_rows.INSPECTED_ROWS.to_proto(rows)

    async def WatchLogs(
        self, request: pb.WatchLogsRequest, context: Any
    ) -> AsyncIterator[pb.WatchLogsResponse]:
        """Stream lines of the log."""
        async with aclosing(
            RECENT_LOGS.read(worker_rows.LOG_FILTER.from_proto(request))
        ) as answers:
            async for lines in answers:
                yield worker_rows.LOG_LINES.to_proto(lines)

    async def ReadDeadLetters(
        self, request: pb.ReadDeadLettersRequest, context: Any
    ) -> AsyncIterator[pb.ReadDeadLettersResponse]:
        """Stream dead letters."""
        async with aclosing(
            self._worker.admin.dead_letters.read(worker_rows.dead_letter_query_from_proto(request))
        ) as answers:
            async for result in answers:
                yield worker_rows.DEAD_LETTERS.to_proto(result)

    async def SetLogLevel(
        self, request: pb.SetLogLevelRequest, context: Any
    ) -> pb.SetLogLevelResponse:
        """Set a log level of this process."""
        PROCESS_LEVELS.set(request.logger, request.level)
        return pb.SetLogLevelResponse()

    async def ListLogLevels(
        self, request: pb.ListLogLevelsRequest, context: Any
    ) -> pb.ListLogLevelsResponse:
        """List the log levels of this process."""
        levels = map(wire.LOGGER_LEVEL.to_proto, PROCESS_LEVELS.list())
        return pb.ListLogLevelsResponse(levels=levels)

    def _plugins(self) -> tuple[InstalledPlugin, ...]:
        return tuple(
            InstalledPlugin(
                manifest.name,
                manifest.version,
                tuple(
                    InstalledConnector(e.name, e.kind.value, e.title, e.aliases)
                    for e in manifest.connectors
                ),
            )
            for manifest in self._worker.host.list_plugins()
        )

    def _task_not_found(self, task_id: str) -> ConfigError:
        task_ids = [status.task_id for status in self._worker.task_registry.statuses()]
        near = nearest_names(task_id, task_ids)
        return ConfigError(
            "worker.not_found",
            f"the task {task_id[:200]!r} does not run on this worker",
            fix=f"Did you mean {' or '.join(near)}?"
            if near
            else "Find its worker with `penstock connector status`.",
        )


def _parse_action(number: int) -> ApplyAction:
    if number not in set(ApplyAction):
        known = ", ".join(f"{one.value} ({one.name})" for one in ApplyAction)
        raise ConfigError(
            "worker.unknown_action", f"unknown action {number}", fix=f"Send one of {known}."
        )
    return ApplyAction(number)
