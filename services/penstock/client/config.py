"""ConfigClient: what should be."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.api.config.v1 import config_service_pb2_grpc as grpc_api
from penstock.client.call import DEADLINE, Caller
from penstock.client.plans import plan_uploads
from penstock.client.worker import ValidatedConnector
from penstock.model.connector import (
    Connector,
    ConnectorKind,
    Difference,
    LogLevel,
    Restart,
    Revision,
    TargetState,
    TaskPlan,
)
from penstock.model.errors import RetriableError
from penstock.rpc.channels import Dial, open_channel
from penstock.rpc.route import Place
from penstock.wire.config import (
    connector_from_proto,
    connector_to_proto,
    difference_from_proto,
    log_level_from_proto,
    restart_from_proto,
    revision_from_proto,
)
from penstock.wire.connector import plan_from_proto
from penstock.wire.error import from_proto as error_from_proto

PLANS: Final = 60.0
"""Seconds for plans of a hundred thousand tasks."""

READS: Final = 4
"""Times that plans are read again when they were replaced in between."""


@dataclass(frozen=True, slots=True)
class ConnectorList:
    """All connectors, ordered by name, at one revision: where a watch starts."""

    connectors: tuple[Connector, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class FoundConnector:
    """A connector, or none, and the revision that was read at: no epoch that was given out before
    is newer.
    """

    connector: Connector | None
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

    @property
    def list_again(self) -> bool:
        """Whether changes were missed, by compaction for instance (invariant 7)."""
        return not self.names


class ConfigClient(Caller):
    """The config service. Every method may raise PenstockError."""

    def __init__(self, place: Place, deadline: float = DEADLINE, dial: Dial = open_channel) -> None:
        """`place` is `unix:/path` or `host:port`, or finds such addresses; see `Caller`."""
        super().__init__(place, deadline, dial)
        self._stub = grpc_api.ConfigServiceStub(self._channel)

    async def create(self, connector: Connector) -> Connector:
        """Store a new connector; refused when the name exists."""
        request = pb.CreateConnectorRequest(connector=connector_to_proto(connector))
        method = self._stub.CreateConnector
        answer = await self._call("config.create", method, request, idempotent=False)
        return connector_from_proto(answer.connector)

    async def validate(self, connector: Connector) -> ValidatedConnector:
        """Check a configuration by the rules of the service and by a worker that has the plugin."""
        request = pb.ValidateConnectorRequest(connector=connector_to_proto(connector))
        answer = await self._call(
            "config.validate", self._stub.ValidateConnector, request, deadline=PLANS
        )
        diagnostics = tuple(map(error_from_proto, answer.diagnostics))
        kind = ConnectorKind(answer.kind)
        return ValidatedConnector(diagnostics, kind, secret_keys=tuple(answer.secret_keys))

    async def patch(
        self, name: str, changes: Mapping[str, str | None], expected_revision: int = 0
    ) -> tuple[Connector, bool]:
        """Set keys, and remove those that are None; returns what is stored, and whether that
        changed.
        """
        request = pb.PatchConnectorRequest(
            name=name,
            set={key: value for key, value in changes.items() if value is not None},
            remove=[key for key, value in changes.items() if value is None],
            expected_revision=expected_revision,
        )
        answer = await self._call("config.patch", self._stub.PatchConnector, request)
        return connector_from_proto(answer.connector), answer.changed

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

    async def find_generation(self, generation: str) -> FoundConnector:
        """Read the living connector of a generation."""
        request = pb.GetConnectorRequest(generation=generation)
        answer = await self._call("config.get", self._stub.GetConnector, request)
        has = answer.HasField("connector")
        return FoundConnector(
            connector_from_proto(answer.connector) if has else None, answer.revision
        )

    async def list(self, prefix: str = "") -> ConnectorList:
        """Read all, or those whose names start with a prefix."""
        found: list[Connector] = []
        revision = 0
        async for page in self.pages(prefix):
            found += page.connectors
            revision = revision or page.revision
        return ConnectorList(tuple(found), revision)

    async def pages(self, prefix: str = "", size: int = 0) -> AsyncIterator[ConnectorList]:
        """Iterate over pages of connectors; a watch starts at the revision of the first."""
        request = pb.ListConnectorsRequest(prefix=prefix, page_size=size)
        while True:
            answer = await self._call("config.list", self._stub.ListConnectors, request)
            connectors = tuple(connector_from_proto(c) for c in answer.connectors)
            yield ConnectorList(connectors, answer.revision)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    async def delete(self, name: str, expected_revision: int = 0) -> None:
        """Remove one with its plans; its offsets stay."""
        request = pb.DeleteConnectorRequest(name=name, expected_revision=expected_revision)
        await self._call("config.delete", self._stub.DeleteConnector, request, idempotent=False)

    async def set_target_state(self, name: str, state: TargetState) -> Connector:
        """Say whether a connector should run."""
        request = pb.SetTargetStateRequest(name=name, target_state=int(state))  # type: ignore[arg-type] # enums share numbers
        answer = await self._call("config.set_target_state", self._stub.SetTargetState, request)
        return connector_from_proto(answer.connector)

    async def restart(
        self,
        name: str,
        *,
        include_tasks: bool = False,
        only_failed: bool = False,
        task_id: str = "",
    ) -> Restart:
        """Ask for a restart: the scheduler acts on it. Not repeated when the answer is lost."""
        request = pb.RequestRestartRequest(
            name=name, include_tasks=include_tasks, only_failed=only_failed, task_id=task_id
        )
        method = self._stub.RequestRestart
        answer = await self._call("config.restart", method, request, idempotent=False)
        return restart_from_proto(answer.restart)

    async def revisions(self, name: str) -> tuple[Revision, ...]:
        """Read the history of a configuration, newest first, without the configurations."""
        request = pb.ListRevisionsRequest(name=name)
        answer = await self._call("config.revisions", self._stub.ListRevisions, request)
        return tuple(map(revision_from_proto, answer.revisions))

    async def revision(self, name: str, version: int) -> Revision:
        """Read one version, with its configuration."""
        request = pb.GetRevisionRequest(name=name, version=version)
        answer = await self._call("config.revision", self._stub.GetRevision, request)
        return revision_from_proto(answer.revision)

    async def diff(
        self, name: str, before: int, after: int = 0, sensitive: Collection[str] = ()
    ) -> tuple[Difference, ...]:
        """Tell what differs between two versions, 0 for the newest; secrets are ***."""
        request = pb.DiffRevisionsRequest(
            name=name, from_version=before, to_version=after, sensitive_keys=sensitive
        )
        answer = await self._call("config.diff", self._stub.DiffRevisions, request)
        return tuple(map(difference_from_proto, answer.differences))

    async def rollback(
        self, name: str, version: int, expected_revision: int = 0
    ) -> tuple[Connector, bool]:
        """Make a new version out of an earlier one; returns what is stored, and whether that
        changed.
        """
        request = pb.RollbackConnectorRequest(
            name=name, version=version, expected_revision=expected_revision
        )
        answer = await self._call("config.rollback", self._stub.RollbackConnector, request)
        return connector_from_proto(answer.connector), answer.changed

    async def put_plans(self, name: str, generation: str, plans: Sequence[TaskPlan]) -> int:
        """Store the plans of a generation, all or none; returns their epoch.

        Repeating it is harmless: the last epoch that was returned is the one that counts.
        """

        def _upload(
            request: Sequence[TaskPlan], *, timeout: float
        ) -> Awaitable[pb.UploadTaskPlansResponse]:
            requests = plan_uploads(name, generation, request)  # anew for each attempt
            return self._stub.UploadTaskPlans(requests, timeout=timeout)

        answer = await self._call("config.put_plans", _upload, plans, deadline=PLANS)
        return answer.epoch

    async def list_plans(self, name: str, generation: str) -> tuple[StoredTaskPlan, ...]:
        """Read the plans of a generation, ordered by task number."""
        request = pb.StreamTaskPlansRequest(name=name, generation=generation)
        for attempt in range(1, READS + 1):
            answers = self._stub.StreamTaskPlans(request, timeout=PLANS)
            found: list[StoredTaskPlan] = []
            try:
                async for answer in self._stream("config.list_plans", answers):
                    found += map(_stored_plan, answer.plans)
            except RetriableError as error:  # replaced while they were read
                if error.code != "config.contended" or attempt == READS:
                    raise
            else:
                return tuple(found)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def watch(self, after_revision: int = 0) -> AsyncGenerator[ConnectorsChanged, None]:
        """Iterate over hints that something changed; ends with an error when the service ends."""
        answers = self._stub.WatchConnectors(
            pb.WatchConnectorsRequest(after_revision=after_revision)
        )
        async for answer in self._stream("config.watch", answers):
            yield ConnectorsChanged(answer.revision, tuple(answer.names))

    async def note_topics(self, generation: str, topics: Sequence[str]) -> None:
        """Tell that a connector has rows of topics."""
        request = pb.NoteTopicsRequest(generation=generation, topics=topics)
        await self._call("config.note_topics", self._stub.NoteTopics, request)

    async def topics(self, name: str) -> tuple[str, ...]:
        """Read the topics that a connector has rows of, since it was made or they were reset."""
        request = pb.ListTopicsRequest(name=name)
        answer = await self._call("config.topics", self._stub.ListTopics, request)
        return tuple(answer.topics)

    async def reset_topics(self, name: str) -> None:
        """Forget the topics of a connector."""
        request = pb.ResetTopicsRequest(name=name)
        await self._call("config.reset_topics", self._stub.ResetTopics, request)

    async def set_log_level(self, service: str, logger: str, level: str) -> None:
        """Set the level of a logger in every instance of a service; empty takes it away."""
        request = pb.SetLogLevelRequest(service=service, logger=logger, level=level)
        await self._call("config.set_log_level", self._stub.SetLogLevel, request)

    async def log_levels(self, service: str = "") -> tuple[LogLevel, ...]:
        """Read the levels of a service, or of all."""
        request = pb.ListLogLevelsRequest(service=service)
        answer = await self._call("config.log_levels", self._stub.ListLogLevels, request)
        return tuple(map(log_level_from_proto, answer.levels))

    async def watch_log_levels(
        self, service: str = ""
    ) -> AsyncGenerator[tuple[LogLevel, ...], None]:
        """Iterate over the levels of a service as they are, and again whenever they changed."""
        answers = self._stub.WatchLogLevels(pb.WatchLogLevelsRequest(service=service))
        async for answer in self._stream("config.watch_log_levels", answers):
            yield tuple(map(log_level_from_proto, answer.levels))


def _stored_plan(message: pb.StoredTaskPlan) -> StoredTaskPlan:
    return StoredTaskPlan(plan_from_proto(message.plan), message.epoch)
