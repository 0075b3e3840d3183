"""WorkerClient: what only a machine with the plugins can do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2_grpc as grpc_api
from penstock.client.call import Caller
from penstock.model.connector import Connector, ConnectorKind, TaskPlan, TaskStatus
from penstock.model.errors import Diagnostic
from penstock.wire import error
from penstock.wire.config import connector_to_proto
from penstock.wire.connector import plan_from_proto, plan_to_proto
from penstock.wire.worker import InstalledPlugin, plugin_from_proto, status_from_proto

DEADLINE = 60.0
"""Seconds for a call: a plugin may have to be started, and may ask a database for its tables."""


@dataclass(frozen=True, slots=True)
class ValidatedConnector:
    """The findings about a configuration, and the kind that its plugin gives it."""

    diagnostics: tuple[Diagnostic, ...]
    kind: ConnectorKind


@dataclass(frozen=True, slots=True)
class PlannedConnector:
    """A connector's tasks, with warnings."""

    plans: tuple[TaskPlan, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


class WorkerClient(Caller):
    """A worker. Every method may raise PenstockError."""

    def __init__(self, address: str, deadline: float = DEADLINE) -> None:
        """`address` is `unix:/path` or `host:port`."""
        super().__init__(address, deadline)
        self._stub = grpc_api.WorkerServiceStub(self._channel)

    async def list_plugins(self) -> list[InstalledPlugin]:
        """Tell what is installed there."""
        request = pb.ListPluginsRequest()
        answer = await self._call("worker.list_plugins", self._stub.ListPlugins, request)
        return [plugin_from_proto(plugin) for plugin in answer.plugins]

    async def validate(self, connector: Connector) -> ValidatedConnector:
        """Check a configuration against its plugins."""
        request = pb.ValidateConnectorRequest(connector=connector_to_proto(connector))
        answer = await self._call("worker.validate", self._stub.ValidateConnector, request)
        diagnostics = tuple(error.from_proto(d) for d in answer.diagnostics)
        return ValidatedConnector(diagnostics, ConnectorKind(answer.kind))

    async def plan(self, connector: Connector) -> PlannedConnector:
        """Split a connector into tasks."""
        request = pb.PlanConnectorRequest(connector=connector_to_proto(connector))
        answer = await self._call("worker.plan", self._stub.PlanConnector, request)
        return PlannedConnector(
            tuple(plan_from_proto(plan) for plan in answer.plans),
            tuple(error.from_proto(d) for d in answer.diagnostics),
        )

    async def start_task(self, connector: Connector, plan: TaskPlan, epoch: int) -> None:
        """Run a task at an epoch; the same epoch again changes nothing."""
        request = pb.StartTaskRequest(
            connector=connector_to_proto(connector), plan=plan_to_proto(plan), epoch=epoch
        )
        await self._call("worker.start_task", self._stub.StartTask, request)

    async def stop_task(self, task_id: str, epoch: int) -> None:
        """Drain a task and release it; returns when it has stopped."""
        request = pb.StopTaskRequest(task_id=task_id, epoch=epoch)
        await self._call("worker.stop_task", self._stub.StopTask, request)

    async def list_tasks(self) -> list[TaskStatus]:
        """Tell how the tasks there are, ordered by id."""
        request = pb.ListTasksRequest()
        answer = await self._call("worker.list_tasks", self._stub.ListTasks, request)
        return [status_from_proto(task) for task in answer.tasks]

    async def watch_tasks(self, every: float = 0.0) -> AsyncIterator[TaskStatus]:
        """Iterate over status: every task first, then changes, and numbers each `every` seconds."""
        answers = self._stub.WatchTasks(pb.WatchTasksRequest(every_ms=round(every * 1000)))
        async for answer in self._stream("worker.watch_tasks", answers):
            yield status_from_proto(answer.task)
