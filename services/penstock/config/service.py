"""The gRPC surface of the config service: messages in, values through, messages out."""

# ruff: noqa: N802, ARG002 - names and arguments of methods are those of the wire

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.api.config.v1 import config_service_pb2_grpc as grpc_api
from penstock.config.connectors import Connectors
from penstock.config.stored import CONNECTORS, Stored, name_of
from penstock.config.taskplans import TaskPlans
from penstock.store import Store
from penstock.wire.config import connector_from_proto, connector_to_proto, state_from_proto


class ConfigService(grpc_api.ConfigServiceServicer):
    """Serves `penstock.api.config.v1.ConfigService` from a store, which its maker closes."""

    def __init__(self, store: Store) -> None:
        """Serve `store`."""
        self._store = store
        self._connectors = Connectors(store)
        self._plans = TaskPlans(store, self._connectors)

    async def CreateConnector(
        self, request: pb.CreateConnectorRequest, context: Any
    ) -> pb.CreateConnectorResponse:
        """Store a new connector."""
        stored = await self._connectors.create(connector_from_proto(request.connector))
        return pb.CreateConnectorResponse(connector=_message(stored))

    async def PutConnector(
        self, request: pb.PutConnectorRequest, context: Any
    ) -> pb.PutConnectorResponse:
        """Store a new revision, or the first."""
        wanted = connector_from_proto(request.connector)
        stored, changed = await self._connectors.put(wanted, request.expected_revision)
        return pb.PutConnectorResponse(connector=_message(stored), changed=changed)

    async def GetConnector(
        self, request: pb.GetConnectorRequest, context: Any
    ) -> pb.GetConnectorResponse:
        """Read one."""
        return pb.GetConnectorResponse(connector=_message(await self._connectors.get(request.name)))

    async def ListConnectors(
        self, request: pb.ListConnectorsRequest, context: Any
    ) -> pb.ListConnectorsResponse:
        """Read all."""
        stored, revision = await self._connectors.list()
        return pb.ListConnectorsResponse(
            connectors=[_message(one) for one in stored], revision=revision
        )

    async def DeleteConnector(
        self, request: pb.DeleteConnectorRequest, context: Any
    ) -> pb.DeleteConnectorResponse:
        """Remove one with its plans."""
        await self._connectors.delete(request.name, request.expected_revision)
        return pb.DeleteConnectorResponse()

    async def SetTargetState(
        self, request: pb.SetTargetStateRequest, context: Any
    ) -> pb.SetTargetStateResponse:
        """Say whether one should run."""
        state = state_from_proto(request.target_state)
        stored = await self._connectors.set_target_state(request.name, state)
        return pb.SetTargetStateResponse(connector=_message(stored))

    async def PutTaskPlans(
        self, request: pb.PutTaskPlansRequest, context: Any
    ) -> pb.PutTaskPlansResponse:
        """Store the plans of a generation."""
        task_ids = [plan.task_id for plan in request.plans]
        body = request.SerializeToString()
        epoch = await self._plans.put(request.name, request.generation, task_ids, body)
        return pb.PutTaskPlansResponse(epoch=epoch)

    async def ListTaskPlans(
        self, request: pb.ListTaskPlansRequest, context: Any
    ) -> pb.ListTaskPlansResponse:
        """Read the plans of a generation."""
        stored = await self._plans.list(request.name, request.generation)
        plans = pb.PutTaskPlansRequest.FromString(stored.body).plans
        ordered = sorted(plans, key=lambda plan: _number(plan.task_id))
        return pb.ListTaskPlansResponse(
            plans=[pb.StoredTaskPlan(plan=plan, epoch=stored.epoch) for plan in ordered]
        )

    async def WatchConnectors(
        self, request: pb.WatchConnectorsRequest, context: Any
    ) -> AsyncIterator[pb.WatchConnectorsResponse]:
        """Tell that something changed. The first metadata says that the watch stands."""
        changes = self._store.watch(CONNECTORS, request.after_revision)
        await context.send_initial_metadata(())
        async for change in changes:
            names = [name_of(key) for key in change.keys]
            yield pb.WatchConnectorsResponse(revision=change.revision, names=names)


def _message(stored: Stored) -> pb.Connector:
    return connector_to_proto(stored.connector, stored.updated_at)


def _number(task_id: str) -> int:
    return int(task_id.rpartition("-")[2])
