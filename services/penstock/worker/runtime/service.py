"""The gRPC surface of the worker, thin: messages in, calls to the worker, messages out."""

# ruff: noqa: N802, ARG002 - names and arguments of methods are those of the wire

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2_grpc as grpc_api
from penstock.model.connector import ApplyAction
from penstock.model.errors import ConfigError, nearest
from penstock.telemetry.levels import PROCESS
from penstock.telemetry.recent import RECENT
from penstock.wire import built_in, letters, logs, rehearsal
from penstock.wire import error as error_wire
from penstock.wire.config import connector_from_proto
from penstock.wire.connector import plan_to_proto
from penstock.wire.offset import add_offsets, offsets_from_proto
from penstock.wire.worker import (
    CheckedStep,
    InstalledConnector,
    InstalledPlugin,
    described_to_proto,
    look_from_proto,
    looked_to_proto,
    plugin_to_proto,
    status_to_proto,
    step_to_proto,
    value_to_proto,
)
from penstock.worker.admin.definitions import described, find_built_in, list_built_in
from penstock.worker.runtime.worker import Worker


class WorkerService(grpc_api.WorkerServiceServicer):
    """Serves `penstock.api.worker.v1.WorkerService` from a worker, which its maker closes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def ListPlugins(
        self, request: pb.ListPluginsRequest, context: Any
    ) -> pb.ListPluginsResponse:
        """Tell what is installed here."""
        own = map(built_in.to_proto, list_built_in())
        return pb.ListPluginsResponse(plugins=self._plugins(), built_in=own)

    async def ReloadPlugins(
        self, request: pb.ReloadPluginsRequest, context: Any
    ) -> pb.ReloadPluginsResponse:
        """Look again at what is installed here."""
        changed = await self._worker.host.refresh()
        problems = [error_wire.to_proto(p) for p in self._worker.host.registry.problems]
        return pb.ReloadPluginsResponse(plugins=self._plugins(), changed=changed, problems=problems)

    async def ValidateConnector(
        self, request: pb.ValidateConnectorRequest, context: Any
    ) -> pb.ValidateConnectorResponse:
        """Check a configuration."""
        connector = connector_from_proto(request.connector)
        found = await self._worker.asked.validator.validate(connector)
        return pb.ValidateConnectorResponse(
            diagnostics=[error_wire.to_proto(d) for d in found.diagnostics],
            kind=int(found.kind),  # type: ignore[arg-type] # enums share numbers
            values=map(value_to_proto, found.values),
            secret_keys=found.secret_keys,
        )

    async def DescribeConnector(
        self, request: pb.DescribeConnectorRequest, context: Any
    ) -> pb.DescribeConnectorResponse:
        """Tell what a connector can be told."""
        host = self._worker.host
        try:
            found = await described(host, request.name, request.version)
        except ConfigError as error:
            own = find_built_in(request.name)
            if error.code != "plugin.not_installed" or own is None:
                raise
            found = own
        return described_to_proto(found)

    async def PlanConnector(
        self, request: pb.PlanConnectorRequest, context: Any
    ) -> pb.PlanConnectorResponse:
        """Split a connector into tasks."""
        planned = await self._worker.asked.planner.plan(connector_from_proto(request.connector))
        plans = [plan_to_proto(plan) for plan in planned.plans]
        return pb.PlanConnectorResponse(plans=plans, monitor=planned.monitor)

    async def AlterOffsets(
        self, request: pb.AlterOffsetsRequest, context: Any
    ) -> pb.AlterOffsetsResponse:
        """Ask a plugin about offsets that a person wants."""
        found = await self._worker.asked.alterer.alter(
            connector_from_proto(request.connector),
            offsets_from_proto(request.offsets),
            dry_run=request.dry_run,
        )
        answer = pb.AlterOffsetsResponse(asked=found.asked)
        add_offsets(answer.offsets, found.offsets)
        return answer

    async def ApplyConnector(
        self, request: pb.ApplyConnectorRequest, context: Any
    ) -> pb.ApplyConnectorResponse:
        """Have plugins change what a connector owns outside."""
        action = _action(request.action)
        connector = connector_from_proto(request.connector)
        known = request.HasField("last_applied")
        last = connector_from_proto(request.last_applied) if known else None
        applied = await self._worker.asked.applier.apply(connector, action, last)
        diagnostics = map(error_wire.to_proto, applied.diagnostics)
        return pb.ApplyConnectorResponse(actions=applied.actions, diagnostics=diagnostics)

    async def CheckConnection(
        self, request: pb.CheckConnectionRequest, context: Any
    ) -> AsyncIterator[pb.CheckConnectionResponse]:
        """Run the steps of a connection check."""
        connector = connector_from_proto(request.connector)
        async with aclosing(self._worker.asked.validator.check(connector)) as steps:
            async for end, step in steps:
                yield step_to_proto(
                    CheckedStep(end, step.step, step.ok, step.took, step.diagnostics)
                )

    async def RehearseRows(
        self, request: pb.RehearseRowsRequest, context: Any
    ) -> pb.RehearseRowsResponse:
        """Tell what becomes of rows that are given."""
        connector = connector_from_proto(request.connector)
        given = rehearsal.given_from_proto(request)
        return rehearsal.rehearsed_to_proto(
            await self._worker.asked.rehearsals.of(connector, given)
        )

    async def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:
        """Tell how the tasks here are."""
        statuses = self._worker.holdings.statuses()
        brief = error_wire.Brief()
        return pb.ListTasksResponse(tasks=[status_to_proto(status, brief) for status in statuses])

    async def WatchTasks(
        self, request: pb.WatchTasksRequest, context: Any
    ) -> AsyncIterator[pb.WatchTasksResponse]:
        """Stream status."""
        async for statuses in self._worker.holdings.watch(request.every_ms / 1000):
            for status in statuses:
                yield pb.WatchTasksResponse(task=status_to_proto(status))

    async def InspectRows(
        self, request: pb.InspectRowsRequest, context: Any
    ) -> AsyncIterator[pb.InspectRowsResponse]:
        """Show live rows of a task."""
        task = self._worker.holdings.task(request.task_id)
        if task is None:
            raise self._not_here(request.task_id)
        with task.looks.open(look_from_proto(request)) as look:
            async for looked in look.words():
                yield looked_to_proto(looked)

    async def WatchLogs(
        self, request: pb.WatchLogsRequest, context: Any
    ) -> AsyncIterator[pb.WatchLogsResponse]:
        """Stream lines of the log."""
        async with aclosing(RECENT.read(logs.rules_from_proto(request))) as answers:
            async for logged in answers:
                yield logs.logged_to_proto(logged)

    async def ReadLetters(
        self, request: pb.ReadLettersRequest, context: Any
    ) -> AsyncIterator[pb.ReadLettersResponse]:
        """Tell of dead letters."""
        async with aclosing(
            self._worker.asked.letters.read(letters.query_from_proto(request))
        ) as answers:
            async for told in answers:
                yield letters.told_to_proto(told)

    async def SetLogLevel(
        self, request: pb.SetLogLevelRequest, context: Any
    ) -> pb.SetLogLevelResponse:
        """Set a level in this process."""
        PROCESS.set(request.logger, request.level)
        return pb.SetLogLevelResponse()

    async def ListLogLevels(
        self, request: pb.ListLogLevelsRequest, context: Any
    ) -> pb.ListLogLevelsResponse:
        """Tell the levels of this process."""
        levels = [
            pb.ProcessLogLevel(logger=one.logger, level=one.level, own=one.own)
            for one in PROCESS.list()
        ]
        return pb.ListLogLevelsResponse(levels=levels)

    def _plugins(self) -> list[pb.InstalledPlugin]:
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
        return [plugin_to_proto(plugin) for plugin in plugins]

    def _not_here(self, task_id: str) -> ConfigError:
        held = [status.task_id for status in self._worker.holdings.statuses()]
        near = nearest(task_id, held)
        return ConfigError(
            "worker.not_found",
            f"the task {task_id[:200]!r} does not run on this worker",
            fix=f"Did you mean {' or '.join(near)}?" if near else "Ask the scheduler who has it.",
        )


def _action(number: int) -> ApplyAction:
    if number not in set(ApplyAction):
        known = ", ".join(f"{one.value} ({one.name})" for one in ApplyAction)
        raise ConfigError(
            "worker.unknown_action", f"there is no action {number}", fix=f"Send one of {known}."
        )
    return ApplyAction(number)
