"""ConfigClient: what should be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.api.config.v1 import config_service_pb2_grpc as grpc_api
from penstock.client.call import DEADLINE, Caller
from penstock.model.connector import Connector, TargetState, TaskPlan
from penstock.wire.config import connector_from_proto, connector_to_proto
from penstock.wire.connector import plan_from_proto, plan_to_proto


@dataclass(frozen=True, slots=True)
class ConnectorList:
    """All connectors, ordered by name, at one revision: where a watch starts."""

    connectors: tuple[Connector, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class StoredTaskPlan:
    """A plan with the epoch that may run it."""

    plan: TaskPlan
    epoch: int


@dataclass(frozen=True, slots=True)
class ConnectorsChanged:
    """A hint: these connectors changed or went; no names: list again."""

    revision: int
    names: tuple[str, ...]


class ConfigClient(Caller):
    """The config service. Every method may raise PenstockError."""

    def __init__(self, address: str, deadline: float = DEADLINE) -> None:
        """`address` is `unix:/path` or `host:port`."""
        super().__init__(address, deadline)
        self._stub = grpc_api.ConfigServiceStub(self._channel)

    async def create(self, connector: Connector) -> Connector:
        """Store a new connector; refused when the name exists."""
        request = pb.CreateConnectorRequest(connector=connector_to_proto(connector))
        method = self._stub.CreateConnector
        answer = await self._call("config.create", method, request, idempotent=False)
        return connector_from_proto(answer.connector)

    async def put(self, connector: Connector, expected_revision: int = 0) -> tuple[Connector, bool]:
        """Store a revision, or the first; returns what is stored, and whether that changed."""
        request = pb.PutConnectorRequest(
            connector=connector_to_proto(connector), expected_revision=expected_revision
        )
        answer = await self._call("config.put", self._stub.PutConnector, request)
        return connector_from_proto(answer.connector), answer.changed

    async def get(self, name: str) -> Connector:
        """Read one."""
        request = pb.GetConnectorRequest(name=name)
        answer = await self._call("config.get", self._stub.GetConnector, request)
        return connector_from_proto(answer.connector)

    async def list(self) -> ConnectorList:
        """Read all."""
        request = pb.ListConnectorsRequest()
        answer = await self._call("config.list", self._stub.ListConnectors, request)
        connectors = tuple(connector_from_proto(c) for c in answer.connectors)
        return ConnectorList(connectors, answer.revision)

    async def delete(self, name: str, expected_revision: int = 0) -> None:
        """Remove one with its plans; its offsets stay."""
        request = pb.DeleteConnectorRequest(name=name, expected_revision=expected_revision)
        await self._call("config.delete", self._stub.DeleteConnector, request, idempotent=False)

    async def set_target_state(self, name: str, state: TargetState) -> Connector:
        """Say whether a connector should run."""
        request = pb.SetTargetStateRequest(name=name, target_state=int(state))  # type: ignore[arg-type] # enums share numbers
        answer = await self._call("config.set_target_state", self._stub.SetTargetState, request)
        return connector_from_proto(answer.connector)

    async def put_plans(self, name: str, generation: str, plans: Sequence[TaskPlan]) -> int:
        """Store the plans of a generation, all or none; returns their epoch.

        Repeating it is harmless: the last epoch that was returned is the one that counts.
        """
        request = pb.PutTaskPlansRequest(
            name=name, generation=generation, plans=[plan_to_proto(p) for p in plans]
        )
        answer = await self._call("config.put_plans", self._stub.PutTaskPlans, request)
        return answer.epoch

    async def list_plans(self, name: str, generation: str) -> tuple[StoredTaskPlan, ...]:
        """Read the plans of a generation, ordered by task id."""
        request = pb.ListTaskPlansRequest(name=name, generation=generation)
        answer = await self._call("config.list_plans", self._stub.ListTaskPlans, request)
        return tuple(StoredTaskPlan(plan_from_proto(s.plan), s.epoch) for s in answer.plans)

    async def watch(self, after_revision: int = 0) -> AsyncIterator[ConnectorsChanged]:
        """Iterate over hints that something changed; ends with an error when the service ends."""
        answers = self._stub.WatchConnectors(
            pb.WatchConnectorsRequest(after_revision=after_revision)
        )
        async for answer in self._stream("config.watch", answers):
            yield ConnectorsChanged(answer.revision, tuple(answer.names))
