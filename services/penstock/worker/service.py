"""The gRPC surface of the worker, thin: messages in, calls to the worker, messages out."""

# ruff: noqa: N802, ARG002 - names and arguments of methods are those of the wire

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2_grpc as grpc_api
from penstock.wire import error as error_wire
from penstock.wire.config import connector_from_proto
from penstock.wire.connector import plan_from_proto, plan_to_proto
from penstock.wire.worker import (
    InstalledConnector,
    InstalledPlugin,
    plugin_to_proto,
    status_to_proto,
)
from penstock.worker.worker import Worker


class WorkerService(grpc_api.WorkerServiceServicer):
    """Serves `penstock.api.worker.v1.WorkerService` from a worker, which its maker closes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def ListPlugins(
        self, request: pb.ListPluginsRequest, context: Any
    ) -> pb.ListPluginsResponse:
        """Tell what is installed here."""
        plugins = [
            InstalledPlugin(
                manifest.name,
                manifest.version,
                tuple(
                    InstalledConnector(e.name, e.kind.value, e.title, e.aliases)
                    for e in manifest.connectors
                ),
            )
            for manifest in self._worker.host.list_plugins()
        ]
        return pb.ListPluginsResponse(plugins=[plugin_to_proto(plugin) for plugin in plugins])

    async def ValidateConnector(
        self, request: pb.ValidateConnectorRequest, context: Any
    ) -> pb.ValidateConnectorResponse:
        """Check a configuration."""
        connector = connector_from_proto(request.connector)
        findings, kind = await self._worker.planner.validate(connector)
        return pb.ValidateConnectorResponse(
            diagnostics=[error_wire.to_proto(d) for d in findings],
            kind=int(kind),  # type: ignore[arg-type] # enums share numbers
        )

    async def PlanConnector(
        self, request: pb.PlanConnectorRequest, context: Any
    ) -> pb.PlanConnectorResponse:
        """Split a connector into tasks."""
        plans = await self._worker.planner.plan(connector_from_proto(request.connector))
        return pb.PlanConnectorResponse(plans=[plan_to_proto(plan) for plan in plans])

    async def StartTask(self, request: pb.StartTaskRequest, context: Any) -> pb.StartTaskResponse:
        """Run a task at an epoch."""
        connector = connector_from_proto(request.connector)
        await self._worker.start_task(connector, plan_from_proto(request.plan), request.epoch)
        return pb.StartTaskResponse()

    async def StopTask(self, request: pb.StopTaskRequest, context: Any) -> pb.StopTaskResponse:
        """Drain and release a task."""
        await self._worker.tasks.stop(request.task_id, request.epoch)
        return pb.StopTaskResponse()

    async def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:
        """Tell how the tasks here are."""
        statuses = self._worker.tasks.statuses()
        return pb.ListTasksResponse(tasks=[status_to_proto(status) for status in statuses])

    async def WatchTasks(
        self, request: pb.WatchTasksRequest, context: Any
    ) -> AsyncIterator[pb.WatchTasksResponse]:
        """Stream status."""
        async for statuses in self._worker.tasks.watch(request.every_ms / 1000):
            for status in statuses:
                yield pb.WatchTasksResponse(task=status_to_proto(status))
