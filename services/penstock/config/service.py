"""The gRPC service of the config service: converts messages to values, calls the operation, and
converts the result back.

It also validates configurations without storing them: by the rules of this service, then by a
worker that has the plugin.
"""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.api.config.v1 import config_service_pb2_grpc as grpc_api
from penstock.config import rules
from penstock.config.connectors import MAX_PAGE_SIZE, ConnectorPage, Connectors, Revisions
from penstock.config.deletions import ChangeApplier, ResourceRemover, resume_deletions
from penstock.config.kept_offsets import list_kept_offsets
from penstock.config.log_levels import LogLevels
from penstock.config.records import CONNECTOR_PREFIX, StoredConnector, connector_name
from penstock.config.topics import Topics
from penstock.connector_config.validation import Validator
from penstock.model.admin import ValidatedConnector
from penstock.model.connector import Connector, RestartRequest
from penstock.model.errors import ConfigError, RetriableError
from penstock.rpc.deadlines import unary_deadline
from penstock.store.port import Store
from penstock.wire import config as wire

CALL_TIMEOUT_S: Final = 15.0
"""Seconds for a call without a deadline of its caller. Every store answers in milliseconds; one
that needs longer is broken, and the caller should know."""

LONG_CALL_TIMEOUT_S: Final = 60.0
"""Seconds for a worker that must start a plugin."""

_MAX_PAGE_TOKEN_LENGTH: Final = 256


async def validate_config(connector: Connector, worker: Validator | None) -> ValidatedConnector:
    """Check a configuration. When the rules of this service refuse it, no worker is called.

    Raises:
        RetriableError: `config.no_worker`.
    """
    try:
        rules.check_name(connector.name)
        rules.check_config(connector.name, connector.config)
    except ConfigError as refused:
        return ValidatedConnector((refused.diagnostic,), connector.kind)
    if worker is None:
        raise RetriableError(
            "config.no_worker",
            "no worker is known that could check the configuration",
            fix="Start a worker that has the plugin of the connector.",
        )
    return await worker.validate(connector)


class Worker(Validator, ChangeApplier, Protocol):
    """The part of the worker's client that is needed here."""


class ConfigService(grpc_api.ConfigServiceServicer):
    """Serves `penstock.api.config.v1.ConfigService` from a store, which the caller closes.

    `start` continues what earlier processes left.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`worker` validates configurations, and removes the external resources of deleted
        connectors; `clock` returns seconds since the epoch.
        """
        self._store, self._worker = store, worker
        self._connectors = Connectors(store, clock)
        self._revisions = Revisions(store, self._connectors)
        self._levels = LogLevels(store, clock)
        self._topics = Topics(store, self._connectors)
        self._remover = ResourceRemover(store, worker)

    async def start(self) -> None:
        """Continue deletions that a crash interrupted."""
        for connector in await resume_deletions(self._store):
            await self._remover.start(connector)

    async def close(self) -> None:
        """End the work in the background. The next start continues it."""
        await self._remover.close()

    @unary_deadline(LONG_CALL_TIMEOUT_S)
    async def ValidateConnector(
        self, request: pb.ValidateConnectorRequest, context: Any
    ) -> pb.ValidateConnectorResponse:
        """Check a configuration without storing it."""
        connector = wire.CONNECTOR.from_proto(request.connector)
        return wire.VALIDATED.to_proto(await validate_config(connector, self._worker))

    @unary_deadline(CALL_TIMEOUT_S)
    async def CreateConnector(
        self, request: pb.CreateConnectorRequest, context: Any
    ) -> pb.CreateConnectorResponse:
        """Create a connector."""
        rules.check_target_state(request.connector.target_state, may_be_unset=True)
        stored = await self._connectors.create(wire.CONNECTOR.from_proto(request.connector))
        return pb.CreateConnectorResponse(connector=_connector_to_proto(stored))

    @unary_deadline(CALL_TIMEOUT_S)
    async def PutConnector(
        self, request: pb.PutConnectorRequest, context: Any
    ) -> pb.PutConnectorResponse:
        """Create a connector, or change its configuration."""
        new = wire.CONNECTOR.from_proto(request.connector)
        stored, changed = await self._connectors.put(new, request.expected_revision)
        return pb.PutConnectorResponse(connector=_connector_to_proto(stored), changed=changed)

    @unary_deadline(CALL_TIMEOUT_S)
    async def PatchConnector(
        self, request: pb.PatchConnectorRequest, context: Any
    ) -> pb.PatchConnectorResponse:
        """Set and remove single keys of a configuration."""
        stored, changed = await self._connectors.patch(
            request.name, request.set, set(request.remove), request.expected_revision
        )
        return pb.PatchConnectorResponse(connector=_connector_to_proto(stored), changed=changed)

    @unary_deadline(CALL_TIMEOUT_S)
    async def GetConnector(
        self, request: pb.GetConnectorRequest, context: Any
    ) -> pb.GetConnectorResponse:
        """Return a connector, by name or by generation."""
        if request.generation and not request.name:
            found, revision = await self._connectors.find_generation(request.generation)
            if found is None:
                kept = await self._connectors.is_kept(request.generation)
                return pb.GetConnectorResponse(revision=revision, kept=kept)
            return pb.GetConnectorResponse(connector=_connector_to_proto(found), revision=revision)
        stored, revision = await self._connectors.get_with_revision(request.name)
        return pb.GetConnectorResponse(connector=_connector_to_proto(stored), revision=revision)

    @unary_deadline(CALL_TIMEOUT_S)
    async def ListConnectors(
        self, request: pb.ListConnectorsRequest, context: Any
    ) -> pb.ListConnectorsResponse:
        """Return a page of connectors."""
        after = _checked_page_token(request.page_token)
        size = min(request.page_size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
        return _page_to_proto(await self._connectors.read_page(request.prefix, after, size))

    @unary_deadline(CALL_TIMEOUT_S)
    async def DeleteConnector(
        self, request: pb.DeleteConnectorRequest, context: Any
    ) -> pb.DeleteConnectorResponse:
        """Delete a connector with its versions, or keep its offsets for the next of its name."""
        if request.keep_offsets:
            await self._connectors.keep(request.name, request.expected_revision)
            return pb.DeleteConnectorResponse()
        deleted = await self._connectors.delete(request.name, request.expected_revision)
        await self._remover.start(deleted)
        return pb.DeleteConnectorResponse()

    @unary_deadline(CALL_TIMEOUT_S)
    async def ListKeptOffsets(
        self, request: pb.ListKeptOffsetsRequest, context: Any
    ) -> pb.ListKeptOffsetsResponse:
        """Return the deleted connectors whose offsets are kept."""
        found = await list_kept_offsets(self._store)
        return pb.ListKeptOffsetsResponse(kept=map(wire.KEPT_OFFSETS.to_proto, found))

    @unary_deadline(CALL_TIMEOUT_S)
    async def PurgeKeptOffsets(
        self, request: pb.PurgeKeptOffsetsRequest, context: Any
    ) -> pb.PurgeKeptOffsetsResponse:
        """Delete a connector whose offsets were kept for good."""
        purged = await self._connectors.purge(request.name)
        await self._remover.start(purged)
        return pb.PurgeKeptOffsetsResponse()

    @unary_deadline(CALL_TIMEOUT_S)
    async def SetTargetState(
        self, request: pb.SetTargetStateRequest, context: Any
    ) -> pb.SetTargetStateResponse:
        """Set whether a connector should run."""
        rules.check_target_state(request.target_state, may_be_unset=False)
        state = wire.state_from_proto(request.target_state)
        stored = await self._connectors.set_target_state(request.name, state)
        return pb.SetTargetStateResponse(connector=_connector_to_proto(stored))

    @unary_deadline(CALL_TIMEOUT_S)
    async def RequestRestart(
        self, request: pb.RequestRestartRequest, context: Any
    ) -> pb.RequestRestartResponse:
        """Request a restart of a connector or its tasks."""
        stored = await self._connectors.request_restart(request.name, _restart_request(request))
        newest = wire.RESTART.to_proto(stored.connector.restarts[-1])
        return pb.RequestRestartResponse(restart=newest)

    @unary_deadline(CALL_TIMEOUT_S)
    async def ListRevisions(
        self, request: pb.ListRevisionsRequest, context: Any
    ) -> pb.ListRevisionsResponse:
        """Return the versions of a configuration."""
        revisions = await self._revisions.list(request.name)
        return pb.ListRevisionsResponse(revisions=map(wire.REVISION.to_proto, revisions))

    @unary_deadline(CALL_TIMEOUT_S)
    async def GetRevision(
        self, request: pb.GetRevisionRequest, context: Any
    ) -> pb.GetRevisionResponse:
        """Return one version of a configuration."""
        revision = await self._revisions.get(request.name, request.version)
        return pb.GetRevisionResponse(revision=wire.REVISION.to_proto(revision))

    @unary_deadline(CALL_TIMEOUT_S)
    async def DiffRevisions(
        self, request: pb.DiffRevisionsRequest, context: Any
    ) -> pb.DiffRevisionsResponse:
        """Return the differences between two versions."""
        differences = await self._revisions.diff(
            request.name, request.from_version, request.to_version
        )
        return pb.DiffRevisionsResponse(differences=map(wire.DIFFERENCE.to_proto, differences))

    @unary_deadline(CALL_TIMEOUT_S)
    async def RollbackConnector(
        self, request: pb.RollbackConnectorRequest, context: Any
    ) -> pb.RollbackConnectorResponse:
        """Set the configuration of an earlier version."""
        stored, changed = await self._revisions.rollback(
            request.name, request.version, request.expected_revision
        )
        return pb.RollbackConnectorResponse(connector=_connector_to_proto(stored), changed=changed)

    async def WatchConnectors(
        self, request: pb.WatchConnectorsRequest, context: Any
    ) -> AsyncIterator[pb.WatchConnectorsResponse]:
        """Send the names of changed connectors. The initial metadata means that the watch has
        started.
        """
        changes = self._store.watch(CONNECTOR_PREFIX, request.after_revision)
        await context.send_initial_metadata(())
        async for change in changes:
            names = [connector_name(key) for key in change.keys]
            yield pb.WatchConnectorsResponse(revision=change.revision, names=names)

    @unary_deadline(CALL_TIMEOUT_S)
    async def TrackTopics(
        self, request: pb.TrackTopicsRequest, context: Any
    ) -> pb.TrackTopicsResponse:
        """Record topics of which a connector has rows."""
        await self._topics.record(request.generation, request.topics)
        return pb.TrackTopicsResponse()

    @unary_deadline(CALL_TIMEOUT_S)
    async def ListTopics(
        self, request: pb.ListTopicsRequest, context: Any
    ) -> pb.ListTopicsResponse:
        """Return the topics of a connector."""
        return pb.ListTopicsResponse(topics=await self._topics.get(request.name))

    @unary_deadline(CALL_TIMEOUT_S)
    async def ResetTopics(
        self, request: pb.ResetTopicsRequest, context: Any
    ) -> pb.ResetTopicsResponse:
        """Delete the topics of a connector."""
        await self._topics.reset(request.name)
        return pb.ResetTopicsResponse()

    @unary_deadline(CALL_TIMEOUT_S)
    async def SetLogLevel(
        self, request: pb.SetLogLevelRequest, context: Any
    ) -> pb.SetLogLevelResponse:
        """Set a log level, or remove it."""
        await self._levels.set(request.service, request.logger, request.level)
        return pb.SetLogLevelResponse()

    @unary_deadline(CALL_TIMEOUT_S)
    async def ListLogLevels(
        self, request: pb.ListLogLevelsRequest, context: Any
    ) -> pb.ListLogLevelsResponse:
        """Return the log levels that are set."""
        levels, _ = await self._levels.list(request.service)
        return pb.ListLogLevelsResponse(levels=map(wire.LOG_LEVEL.to_proto, levels))

    async def WatchLogLevels(
        self, request: pb.WatchLogLevelsRequest, context: Any
    ) -> AsyncIterator[pb.WatchLogLevelsResponse]:
        """Send the log levels, and again whenever they changed."""
        async for levels in self._levels.watch(request.service):
            yield pb.WatchLogLevelsResponse(levels=map(wire.LOG_LEVEL.to_proto, levels))


def _connector_to_proto(stored: StoredConnector) -> pb.Connector:
    return wire.CONNECTOR.to_proto(stored.connector)


def _page_to_proto(page: ConnectorPage) -> pb.ListConnectorsResponse:
    """Return the message for a page. The name of its last connector is the token of the next."""
    names = [stored.connector.name for stored in page.connectors]
    return pb.ListConnectorsResponse(
        connectors=map(_connector_to_proto, page.connectors),
        revision=page.revision,
        next_page_token=names[-1] if page.more and names else "",
    )


def _checked_page_token(token: str) -> str:
    """Return a page token: the name after which a page begins.

    Raises:
        ConfigError: `config.page_token`.
    """
    if len(token) > _MAX_PAGE_TOKEN_LENGTH:
        raise ConfigError(
            "config.page_token",
            f"the page token has {len(token)} characters, the limit is {_MAX_PAGE_TOKEN_LENGTH}",
            fix="Pass the next_page_token of the page before, or no token.",
        )
    return token


def _restart_request(request: pb.RequestRestartRequest) -> RestartRequest:
    """Return a restart request without a marker, which it gets when it is stored."""
    return RestartRequest(0, request.include_tasks, request.only_failed, request.task_id)
