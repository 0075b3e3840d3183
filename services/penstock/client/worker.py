"""WorkerClient: calls that need a process with the plugins, and the tasks and logs of a worker."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2_grpc as grpc_api
from penstock.client.service_client import ServiceClient
from penstock.model.admin import (
    AlteredOffsets,
    AppliedConnector,
    CheckedStep,
    PlannedConnector,
    Signal,
    ValidatedConnector,
)
from penstock.model.config_def import ConnectorDefinition
from penstock.model.connector import ApplyAction, Connector, TaskStatus
from penstock.model.datasets import DatasetPart
from penstock.model.dead_letter_queue import DeadLetterQuery, DeadLetterResult
from penstock.model.inspection import InspectedRows, InspectRules, PreviewRequest, PreviewResult
from penstock.model.logs import LogFilter, LoggerLevel, LogLines
from penstock.model.plugins import BuiltInPlugin, InstalledPlugin, ReloadedPlugins
from penstock.rpc.channels import Dial, ServiceAddress, open_channel
from penstock.wire import worker, worker_rows
from penstock.wire.config import CONNECTOR
from penstock.wire.record import add_offsets, offsets_from_proto

WORKER_TIMEOUT_S = 60.0
"""Seconds for a call. A plugin may have to start, and may read the tables of a database."""


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
        return list(map(worker.INSTALLED_PLUGIN.from_proto, answer.plugins))

    async def list_built_in(self) -> list[BuiltInPlugin]:
        """Return the transforms, predicates and converters that need no plugin."""
        request = pb.ListPluginsRequest()
        answer = await self._call("worker.list_plugins", self._stub.ListPlugins, request)
        return list(map(worker.BUILT_IN_PLUGIN.from_proto, answer.built_in))

    async def reload_plugins(self) -> ReloadedPlugins:
        """Have the worker scan its plugin folders again."""
        request = pb.ReloadPluginsRequest()
        answer = await self._call("worker.reload_plugins", self._stub.ReloadPlugins, request)
        return worker.RELOADED_PLUGINS.from_proto(answer)

    async def validate(self, connector: Connector) -> ValidatedConnector:
        """Validate a configuration by the plugins that it names."""
        request = pb.ValidateConnectorRequest(connector=CONNECTOR.to_proto(connector))
        answer = await self._call("worker.validate", self._stub.ValidateConnector, request)
        return worker.VALIDATED.from_proto(answer)

    async def describe(self, name: str, version: str = "") -> ConnectorDefinition:
        """Return the keys of a connector, a transform or a converter."""
        request = pb.DescribeConnectorRequest(name=name, version=version)
        answer = await self._call("worker.describe", self._stub.DescribeConnector, request)
        return worker.definition_from_proto(answer)

    async def plan(self, connector: Connector) -> PlannedConnector:
        """Split a connector into task plans."""
        request = pb.PlanConnectorRequest(connector=CONNECTOR.to_proto(connector))
        answer = await self._call("worker.plan", self._stub.PlanConnector, request)
        return worker.PLANNED.from_proto(answer)

    async def apply(
        self, connector: Connector, action: ApplyAction, last: Connector | None = None
    ) -> AppliedConnector:
        """Have the plugins create, change or delete what the connector owns in external systems.

        `last` has the configuration that was applied last.
        """
        request = pb.ApplyConnectorRequest(
            connector=CONNECTOR.to_proto(connector),
            action=int(action),  # type: ignore[arg-type] # enums share numbers
            last_applied=CONNECTOR.to_proto(last) if last else None,
        )
        answer = await self._call("worker.apply", self._stub.ApplyConnector, request)
        return worker.APPLIED.from_proto(answer)

    async def alter_offsets(
        self,
        connector: Connector,
        offsets: Mapping[str, Mapping[str, Any] | None],
        *,
        dry_run: bool = False,
    ) -> AlteredOffsets:
        """Have the plugin accept, refuse or normalize offsets of a user; None removes one."""
        request = pb.AlterOffsetsRequest(connector=CONNECTOR.to_proto(connector), dry_run=dry_run)
        add_offsets(request.offsets, offsets)
        answer = await self._call("worker.alter_offsets", self._stub.AlterOffsets, request)
        return AlteredOffsets(answer.checked, offsets_from_proto(answer.offsets))

    async def send_signal(self, connector: Connector, signal: Signal) -> str:
        """Have the source of a connector write a signal. Returns where it was written."""
        request = pb.SignalConnectorRequest(
            connector=CONNECTOR.to_proto(connector),
            id=signal.id,
            type=signal.type,
            data=signal.data,
        )
        answer = await self._call("worker.signal", self._stub.SignalConnector, request)
        return answer.written_to

    async def check_connection(self, connector: Connector) -> AsyncGenerator[CheckedStep, None]:
        """Iterate over the steps of a connection check, as the plugins complete them."""
        request = pb.CheckConnectionRequest(connector=CONNECTOR.to_proto(connector))
        answers = self._stub.CheckConnection(request, timeout=self._timeout_s)
        async for answer in self._stream("worker.check", answers):
            yield worker.CHECKED_STEP.from_proto(answer)

    async def list_datasets(
        self, connector: Connector, limit: int = 0
    ) -> AsyncGenerator[DatasetPart, None]:
        """Iterate over the datasets that a source can read; 0: the default limit."""
        request = pb.ListDatasetsRequest(connector=CONNECTOR.to_proto(connector), limit=limit)
        answers = self._stub.ListDatasets(request, timeout=self._timeout_s)
        async for answer in self._stream("worker.list_datasets", answers):
            yield worker.DATASET_PART.from_proto(answer)

    async def preview_rows(self, connector: Connector, given: PreviewRequest) -> PreviewResult:
        """Return what the transforms make of rows. Neither the source nor the sink is opened."""
        request = worker_rows.preview_request_to_proto(connector, given)
        method = self._stub.PreviewRows
        # the engine may have to start
        answer = await self._call(
            "worker.preview_rows", method, request, timeout_s=WORKER_TIMEOUT_S
        )
        return worker_rows.PREVIEW.from_proto(answer)

    async def watch_tasks(self, interval_s: float = 0.0) -> AsyncGenerator[TaskStatus, None]:
        """Iterate over statuses: all tasks first, then changes, and metrics each `interval_s`."""
        answers = self._stub.WatchTasks(pb.WatchTasksRequest(every_ms=round(interval_s * 1000)))
        async for answer in self._stream("worker.watch_tasks", answers):
            yield worker.TASK_STATUS.from_proto(answer.task)

    async def inspect_rows(
        self, task_id: str, rules: InspectRules | None = None
    ) -> AsyncGenerator[InspectedRows, None]:
        """Iterate over live rows of a task, until the limit of rows or of seconds is reached."""
        answers = self._stub.InspectRows(
            worker_rows.inspect_request_to_proto(task_id, rules or InspectRules())
        )
        async for answer in self._stream("worker.inspect", answers):
            yield worker_rows.INSPECTED_ROWS.from_proto(answer)

    async def watch_logs(self, rules: LogFilter) -> AsyncGenerator[LogLines, None]:
        """Iterate over the log lines of the worker: the last ones, and with `follow` new ones."""
        answers = self._stub.WatchLogs(worker_rows.LOG_FILTER.to_proto(rules))
        async for answer in self._stream("worker.logs", answers):
            yield worker_rows.LOG_LINES.from_proto(answer)

    async def read_dead_letters(
        self, query: DeadLetterQuery
    ) -> AsyncGenerator[DeadLetterResult, None]:
        """Iterate over dead letters of a topic: first their counts, then some of them."""
        answers = self._stub.ReadDeadLetters(
            worker_rows.dead_letter_query_to_proto(query), timeout=self._timeout_s
        )
        async for answer in self._stream("worker.read_letters", answers):
            yield worker_rows.DEAD_LETTERS.from_proto(answer)

    async def set_log_level(self, logger: str, level: str) -> None:
        """Set the level of a logger in this process only. An empty level removes it."""
        request = pb.SetLogLevelRequest(logger=logger, level=level)
        await self._call("worker.set_log_level", self._stub.SetLogLevel, request)

    async def list_log_levels(self) -> list[LoggerLevel]:
        """Return the loggers of the process that have a level."""
        request = pb.ListLogLevelsRequest()
        answer = await self._call("worker.log_levels", self._stub.ListLogLevels, request)
        return list(map(worker.LOGGER_LEVEL.from_proto, answer.levels))
