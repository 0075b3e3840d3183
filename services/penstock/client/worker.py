"""WorkerClient: what only a machine with the plugins can do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2_grpc as grpc_api
from penstock.client.call import Caller
from penstock.model.connector import Connector, ConnectorKind, TaskPlan, TaskStatus
from penstock.model.errors import Diagnostic
from penstock.model.looks import Looked, LookRules
from penstock.rpc.route import Place
from penstock.telemetry.levels import LoggerLevel
from penstock.wire import error
from penstock.wire.config import connector_to_proto
from penstock.wire.connector import plan_from_proto
from penstock.wire.worker import (
    CheckedStep,
    InstalledPlugin,
    look_to_proto,
    looked_from_proto,
    plugin_from_proto,
    status_from_proto,
    step_from_proto,
)

DEADLINE = 60.0
"""Seconds for a call: a plugin may have to be started, and may ask a database for its tables."""


@dataclass(frozen=True, slots=True)
class ValidatedConnector:
    """The findings about a configuration, and the kind that its plugin gives it."""

    diagnostics: tuple[Diagnostic, ...]
    kind: ConnectorKind


@dataclass(frozen=True, slots=True)
class PlannedConnector:
    """A connector's tasks, with warnings, and whether it has a monitor."""

    plans: tuple[TaskPlan, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    monitor: bool = False


@dataclass(frozen=True, slots=True)
class ReloadedPlugins:
    """What is installed now, whether that is news, and what is left out."""

    plugins: tuple[InstalledPlugin, ...]
    changed: bool
    problems: tuple[Diagnostic, ...] = ()


class WorkerClient(Caller):
    """A worker. Every method may raise PenstockError."""

    def __init__(self, place: Place, deadline: float = DEADLINE) -> None:
        """`place` is `unix:/path` or `host:port`, or finds such addresses."""
        super().__init__(place, deadline)
        self._stub = grpc_api.WorkerServiceStub(self._channel)

    async def list_plugins(self) -> list[InstalledPlugin]:
        """Tell what is installed there."""
        request = pb.ListPluginsRequest()
        answer = await self._call("worker.list_plugins", self._stub.ListPlugins, request)
        return [plugin_from_proto(plugin) for plugin in answer.plugins]

    async def reload_plugins(self) -> ReloadedPlugins:
        """Let it look again at what is installed there."""
        request = pb.ReloadPluginsRequest()
        answer = await self._call("worker.reload_plugins", self._stub.ReloadPlugins, request)
        return ReloadedPlugins(
            tuple(plugin_from_proto(plugin) for plugin in answer.plugins),
            answer.changed,
            tuple(error.from_proto(problem) for problem in answer.problems),
        )

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
            answer.monitor,
        )

    async def check(self, connector: Connector) -> AsyncGenerator[CheckedStep, None]:
        """Iterate over the steps by which its plugins reach what it names, as they are done."""
        request = pb.CheckConnectionRequest(connector=connector_to_proto(connector))
        answers = self._stub.CheckConnection(request, timeout=self._deadline)
        async for answer in self._stream("worker.check", answers):
            yield step_from_proto(answer)

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

    async def inspect(
        self, task_id: str, rules: LookRules | None = None
    ) -> AsyncGenerator[Looked, None]:
        """Look at live rows of a task there, until so many rows or seconds are used up."""
        answers = self._stub.InspectRows(look_to_proto(task_id, rules or LookRules()))
        async for answer in self._stream("worker.inspect", answers):
            yield looked_from_proto(answer)

    async def set_log_level(self, logger: str, level: str) -> None:
        """Set the level of a logger in that process alone; empty takes it away."""
        request = pb.SetLogLevelRequest(logger=logger, level=level)
        await self._call("worker.set_log_level", self._stub.SetLogLevel, request)

    async def log_levels(self) -> list[LoggerLevel]:
        """Tell which loggers of that process have a level."""
        request = pb.ListLogLevelsRequest()
        answer = await self._call("worker.log_levels", self._stub.ListLogLevels, request)
        return [LoggerLevel(one.logger, one.level, one.own) for one in answer.levels]
