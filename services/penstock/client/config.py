"""ConfigClient: connectors and their target states, log levels."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Final

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.api.config.v1 import config_service_pb2_grpc as grpc_api
from penstock.client.service_client import DEFAULT_TIMEOUT_S, ServiceClient
from penstock.model.admin import ValidatedConnector
from penstock.model.config_redaction import ConfigDifference
from penstock.model.connector import (
    Connector,
    ConnectorList,
    ConnectorsChanged,
    FoundConnector,
    KeptOffsets,
    RestartRequest,
    Revision,
    TargetState,
)
from penstock.model.logs import LogLevel
from penstock.rpc.channels import Dial, ServiceAddress, open_channel
from penstock.wire.config import (
    CONNECTOR,
    CONNECTOR_LIST,
    CONNECTORS_CHANGED,
    DIFFERENCE,
    FOUND_CONNECTOR,
    KEPT_OFFSETS,
    LOG_LEVEL,
    RESTART,
    REVISION,
    VALIDATED,
)

VALIDATE_TIMEOUT_S: Final = 60.0
"""Seconds for a validation: a worker may have to start a plugin, which may read a database."""


class ConfigClient(ServiceClient):
    """The config service. Every method may raise PenstockError."""

    def __init__(
        self, place: ServiceAddress, timeout_s: float = DEFAULT_TIMEOUT_S, dial: Dial = open_channel
    ) -> None:
        """`place` is `unix:/path` or `host:port`, or finds such addresses; see `ServiceClient`."""
        super().__init__(place, timeout_s, dial)
        self._stub = grpc_api.ConfigServiceStub(self._channel)

    async def create(self, connector: Connector) -> Connector:
        """Store a new connector. Returns what is stored.

        Raises:
            ConfigError: `config.exists`: the name is taken.
        """
        request = pb.CreateConnectorRequest(connector=CONNECTOR.to_proto(connector))
        method = self._stub.CreateConnector
        answer = await self._call("config.create", method, request, idempotent=False)
        return CONNECTOR.from_proto(answer.connector)

    async def validate(self, connector: Connector) -> ValidatedConnector:
        """Validate a configuration by the rules of the service and by a worker with the plugin."""
        request = pb.ValidateConnectorRequest(connector=CONNECTOR.to_proto(connector))
        answer = await self._call(
            "config.validate", self._stub.ValidateConnector, request, timeout_s=VALIDATE_TIMEOUT_S
        )
        return VALIDATED.from_proto(answer)

    async def patch(
        self, name: str, changes: Mapping[str, str | None], expected_revision: int = 0
    ) -> tuple[Connector, bool]:
        """Set keys, and remove those that are None.

        Returns what is stored, and whether it changed.
        """
        request = pb.PatchConnectorRequest(
            name=name,
            set={key: value for key, value in changes.items() if value is not None},
            remove=[key for key, value in changes.items() if value is None],
            expected_revision=expected_revision,
        )
        answer = await self._call("config.patch", self._stub.PatchConnector, request)
        return CONNECTOR.from_proto(answer.connector), answer.changed

    async def put(self, connector: Connector, expected_revision: int = 0) -> tuple[Connector, bool]:
        """Create or replace a connector. Returns what is stored, and whether it changed."""
        request = pb.PutConnectorRequest(
            connector=CONNECTOR.to_proto(connector), expected_revision=expected_revision
        )
        answer = await self._call("config.put", self._stub.PutConnector, request)
        return CONNECTOR.from_proto(answer.connector), answer.changed

    async def get(self, name: str) -> Connector:
        """Return a connector.

        Raises:
            ConfigError: `config.not_found`.
        """
        request = pb.GetConnectorRequest(name=name)
        answer = await self._call("config.get", self._stub.GetConnector, request)
        return CONNECTOR.from_proto(answer.connector)

    async def find_generation(self, generation: str) -> FoundConnector:
        """Return the connector of a generation, unless it was deleted."""
        request = pb.GetConnectorRequest(generation=generation)
        answer = await self._call("config.get", self._stub.GetConnector, request)
        return FOUND_CONNECTOR.from_proto(answer)

    async def list(self, prefix: str = "") -> ConnectorList:
        """Return all connectors, or those whose names start with a prefix."""
        found: list[Connector] = []
        revision = 0
        async for page in self.list_pages(prefix):
            found += page.connectors
            revision = revision or page.revision
        return ConnectorList(tuple(found), revision)

    async def list_pages(self, prefix: str = "", size: int = 0) -> AsyncIterator[ConnectorList]:
        """Iterate over pages of connectors. A watch starts at the revision of the first page."""
        request = pb.ListConnectorsRequest(prefix=prefix, page_size=size)
        while True:
            answer = await self._call("config.list", self._stub.ListConnectors, request)
            yield CONNECTOR_LIST.from_proto(answer)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    async def delete(
        self, name: str, expected_revision: int = 0, *, keep_offsets: bool = False
    ) -> None:
        """Delete a connector. With `keep_offsets` the next one of its name goes on from them."""
        request = pb.DeleteConnectorRequest(
            name=name, expected_revision=expected_revision, keep_offsets=keep_offsets
        )
        await self._call("config.delete", self._stub.DeleteConnector, request, idempotent=False)

    async def list_kept_offsets(self) -> tuple[KeptOffsets, ...]:
        """Return the deleted connectors whose offsets are kept, ordered by name."""
        answer = await self._call(
            "config.list_kept", self._stub.ListKeptOffsets, pb.ListKeptOffsetsRequest()
        )
        return tuple(map(KEPT_OFFSETS.from_proto, answer.kept))

    async def purge_kept_offsets(self, name: str) -> None:
        """Let the next connector of a name begin anew.

        Raises:
            ConfigError: `config.nothing_kept`.
        """
        request = pb.PurgeKeptOffsetsRequest(name=name)
        method = self._stub.PurgeKeptOffsets
        await self._call("config.purge_kept", method, request, idempotent=False)

    async def set_target_state(self, name: str, state: TargetState) -> Connector:
        """Set whether a connector should run. Returns what is stored."""
        request = pb.SetTargetStateRequest(name=name, target_state=int(state))  # type: ignore[arg-type] # enums share numbers
        answer = await self._call("config.set_target_state", self._stub.SetTargetState, request)
        return CONNECTOR.from_proto(answer.connector)

    async def request_restart(
        self,
        name: str,
        *,
        include_tasks: bool = False,
        only_failed: bool = False,
        task_id: str = "",
    ) -> RestartRequest:
        """Request a restart; the scheduler carries it out. Not repeated when the answer is lost."""
        request = pb.RequestRestartRequest(
            name=name, include_tasks=include_tasks, only_failed=only_failed, task_id=task_id
        )
        method = self._stub.RequestRestart
        answer = await self._call("config.restart", method, request, idempotent=False)
        return RESTART.from_proto(answer.restart)

    async def list_revisions(self, name: str) -> tuple[Revision, ...]:
        """Return the versions of a configuration, newest first, without the configurations."""
        request = pb.ListRevisionsRequest(name=name)
        answer = await self._call("config.revisions", self._stub.ListRevisions, request)
        return tuple(map(REVISION.from_proto, answer.revisions))

    async def get_revision(self, name: str, version: int) -> Revision:
        """Return one version, with its configuration."""
        request = pb.GetRevisionRequest(name=name, version=version)
        answer = await self._call("config.revision", self._stub.GetRevision, request)
        return REVISION.from_proto(answer.revision)

    async def diff_revisions(
        self, name: str, before: int, after: int = 0
    ) -> tuple[ConfigDifference, ...]:
        """Return the keys that differ between two versions, 0 for the newest. Secrets are `***`."""
        request = pb.DiffRevisionsRequest(name=name, from_version=before, to_version=after)
        answer = await self._call("config.diff", self._stub.DiffRevisions, request)
        return tuple(map(DIFFERENCE.from_proto, answer.differences))

    async def rollback(
        self, name: str, version: int, expected_revision: int = 0
    ) -> tuple[Connector, bool]:
        """Store an earlier version as a new one. Returns what is stored, and whether it changed."""
        request = pb.RollbackConnectorRequest(
            name=name, version=version, expected_revision=expected_revision
        )
        answer = await self._call("config.rollback", self._stub.RollbackConnector, request)
        return CONNECTOR.from_proto(answer.connector), answer.changed

    async def watch(self, after_revision: int = 0) -> AsyncGenerator[ConnectorsChanged, None]:
        """Iterate over hints that connectors changed. Ends with an error when the service stops."""
        answers = self._stub.WatchConnectors(
            pb.WatchConnectorsRequest(after_revision=after_revision)
        )
        async for answer in self._stream("config.watch", answers):
            yield CONNECTORS_CHANGED.from_proto(answer)

    async def record_topics(self, generation: str, topics: Sequence[str]) -> None:
        """Record topics that a connector has rows of."""
        request = pb.TrackTopicsRequest(generation=generation, topics=topics)
        await self._call("config.track_topics", self._stub.TrackTopics, request)

    async def list_topics(self, name: str) -> tuple[str, ...]:
        """Return the topics that a connector had rows of since its creation or the last reset."""
        request = pb.ListTopicsRequest(name=name)
        answer = await self._call("config.topics", self._stub.ListTopics, request)
        return tuple(answer.topics)

    async def reset_topics(self, name: str) -> None:
        """Remove the recorded topics of a connector."""
        request = pb.ResetTopicsRequest(name=name)
        await self._call("config.reset_topics", self._stub.ResetTopics, request)

    async def set_log_level(self, service: str, logger: str, level: str) -> None:
        """Set the level of a logger in every instance of a service. An empty level removes it."""
        request = pb.SetLogLevelRequest(service=service, logger=logger, level=level)
        await self._call("config.set_log_level", self._stub.SetLogLevel, request)

    async def list_log_levels(self, service: str = "") -> tuple[LogLevel, ...]:
        """Return the log levels that are set for a service, or for all services."""
        request = pb.ListLogLevelsRequest(service=service)
        answer = await self._call("config.log_levels", self._stub.ListLogLevels, request)
        return tuple(map(LOG_LEVEL.from_proto, answer.levels))

    async def watch_log_levels(
        self, service: str = ""
    ) -> AsyncGenerator[tuple[LogLevel, ...], None]:
        """Iterate over the log levels of a service: the present ones, then those of each change."""
        answers = self._stub.WatchLogLevels(pb.WatchLogLevelsRequest(service=service))
        async for answer in self._stream("config.watch_log_levels", answers):
            yield tuple(map(LOG_LEVEL.from_proto, answer.levels))
