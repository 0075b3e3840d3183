"""WorkerClient: what only a machine with the plugins can do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.client.shown import DEADLINE, ShownWorker
from penstock.model.connector import ApplyAction, Connector, ConnectorKind, TaskPlan
from penstock.model.described import DescribedConnector, KeyValue
from penstock.model.errors import Diagnostic
from penstock.model.preview_rows import Given, Rehearsed
from penstock.wire import built_in, error
from penstock.wire.config import connector_to_proto
from penstock.wire.connector import plan_from_proto
from penstock.wire.offset import add_offsets, offsets_from_proto
from penstock.wire.rehearsal import rehearsed_from_proto, request_to_proto
from penstock.wire.worker import (
    CheckedStep,
    InstalledPlugin,
    described_from_proto,
    plugin_from_proto,
    step_from_proto,
    value_from_proto,
)


@dataclass(frozen=True, slots=True)
class ValidatedConnector:
    """The findings about a configuration, and the kind that its plugin gives it; asked of a worker,
    also what the plugins make of their keys. `secret_keys`: those that are secrets to the plugins.
    """

    diagnostics: tuple[Diagnostic, ...]
    kind: ConnectorKind
    values: tuple[KeyValue, ...] = ()
    secret_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedConnector:
    """A connector's tasks, with warnings, and whether it has a monitor."""

    plans: tuple[TaskPlan, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    monitor: bool = False


@dataclass(frozen=True, slots=True)
class AlteredOffsets:
    """Offsets to store, by partition id, None for none; `asked`: a plugin had a say in them."""

    asked: bool
    offsets: Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class ReloadedPlugins:
    """What is installed now, whether that is news, and what is left out."""

    plugins: tuple[InstalledPlugin, ...]
    changed: bool
    problems: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class AppliedConnector:
    """What plugins did outside, one line each, and what they warn of."""

    actions: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class WorkerClient(ShownWorker):
    """A worker, asked for what only it can do. Every method may raise PenstockError."""

    async def list_plugins(self) -> list[InstalledPlugin]:
        """Tell what is installed there."""
        request = pb.ListPluginsRequest()
        answer = await self._call("worker.list_plugins", self._stub.ListPlugins, request)
        return [plugin_from_proto(plugin) for plugin in answer.plugins]

    async def list_built_in(self) -> list[built_in.BuiltIn]:
        """Tell what is there without a plugin."""
        request = pb.ListPluginsRequest()
        answer = await self._call("worker.list_plugins", self._stub.ListPlugins, request)
        return [built_in.from_proto(one) for one in answer.built_in]

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
        values = tuple(value_from_proto(value) for value in answer.values)
        kind = ConnectorKind(answer.kind)
        return ValidatedConnector(diagnostics, kind, values, tuple(answer.secret_keys))

    async def describe(self, name: str, version: str = "") -> DescribedConnector:
        """Tell what a connector, a transform or a converter there can be told."""
        request = pb.DescribeConnectorRequest(name=name, version=version)
        answer = await self._call("worker.describe", self._stub.DescribeConnector, request)
        return described_from_proto(answer)

    async def plan(self, connector: Connector) -> PlannedConnector:
        """Split a connector into tasks."""
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
        """Have its plugins change what it owns outside. `last` has the configuration that was
        applied last.
        """
        request = pb.ApplyConnectorRequest(
            connector=connector_to_proto(connector),
            action=int(action),  # type: ignore[arg-type] # enums share numbers
            last_applied=connector_to_proto(last) if last else None,
        )
        answer = await self._call("worker.apply", self._stub.ApplyConnector, request)
        findings = tuple(error.from_proto(d) for d in answer.diagnostics)
        return AppliedConnector(tuple(answer.actions), findings)

    async def alter_offsets(
        self,
        connector: Connector,
        offsets: Mapping[str, Mapping[str, Any] | None],
        *,
        dry_run: bool = False,
    ) -> AlteredOffsets:
        """Ask its plugin about offsets that a person wants; None takes one away."""
        request = pb.AlterOffsetsRequest(connector=connector_to_proto(connector), dry_run=dry_run)
        add_offsets(request.offsets, offsets)
        answer = await self._call("worker.alter_offsets", self._stub.AlterOffsets, request)
        return AlteredOffsets(answer.asked, offsets_from_proto(answer.offsets))

    async def check(self, connector: Connector) -> AsyncGenerator[CheckedStep, None]:
        """Iterate over the steps by which its plugins reach what it names, as they are done."""
        request = pb.CheckConnectionRequest(connector=connector_to_proto(connector))
        answers = self._stub.CheckConnection(request, timeout=self._deadline)
        async for answer in self._stream("worker.check", answers):
            yield step_from_proto(answer)

    async def rehearse(self, connector: Connector, given: Given) -> Rehearsed:
        """Tell what its transforms make of rows; its ends stay closed."""
        request = request_to_proto(connector, given)
        method = self._stub.RehearseRows
        # the engine may not be warm yet
        answer = await self._call("worker.rehearse", method, request, deadline=DEADLINE)
        return rehearsed_from_proto(answer)
