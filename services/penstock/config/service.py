"""The gRPC surface of the config service: messages in, values through, messages out."""

# ruff: noqa: N802, ARG002 - names and arguments of methods are those of the wire

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.api.config.v1 import config_service_pb2_grpc as grpc_api
from penstock.config import messages, rules
from penstock.config.connectors import Connectors
from penstock.config.departures import Applier, Departures
from penstock.config.log_levels import LogLevels
from penstock.config.revisions import Revisions
from penstock.config.stored import CONNECTORS, name_of
from penstock.config.sweeping import sweep_all
from penstock.config.task_plans import TaskPlans
from penstock.config.topics import Topics
from penstock.config.validation import Validator, validated
from penstock.rpc import stepwise, within
from penstock.store import Store
from penstock.wire import config as wire

QUICK: Final = 15.0
"""Seconds for a call whose caller names no deadline. Every store answers in milliseconds; one that
needs longer is broken, and the caller had better know."""

SLOW: Final = 60.0
"""Seconds for plans of a hundred thousand tasks, and for a worker that has to start a plugin."""


class Worker(Validator, Applier, Protocol):
    """What is needed of a worker; its client has it."""


class ConfigService(grpc_api.ConfigServiceServicer):
    """Serves `penstock.api.config.v1.ConfigService` from a store, which its maker closes.

    `start` goes on with what an earlier life left.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Serve `store`; `worker` checks configurations, and removes what deleted connectors own
        outside; `clock` tells seconds since the epoch.
        """
        self._store, self._worker = store, worker
        self._connectors = Connectors(store, clock)
        self._plans = TaskPlans(store, self._connectors, clock)
        self._revisions = Revisions(store, self._connectors)
        self._levels = LogLevels(store, clock)
        self._topics = Topics(store, self._connectors)
        self._departures = Departures(store, worker)

    async def start(self) -> None:
        """Sweep what deleted connectors left when a crash came between."""
        for connector in await sweep_all(self._store):
            await self._departures.begin(connector)

    async def close(self) -> None:
        """End what runs beside calls; the next start goes on with it."""
        await self._departures.close()

    @within(SLOW)
    async def ValidateConnector(
        self, request: pb.ValidateConnectorRequest, context: Any
    ) -> pb.ValidateConnectorResponse:
        """Check a configuration."""
        found = await validated(wire.connector_from_proto(request.connector), self._worker)
        return messages.validated(found)

    @within(QUICK)
    async def CreateConnector(
        self, request: pb.CreateConnectorRequest, context: Any
    ) -> pb.CreateConnectorResponse:
        """Store a new connector."""
        rules.check_target_state(request.connector.target_state, unset=True)
        stored = await self._connectors.create(wire.connector_from_proto(request.connector))
        return pb.CreateConnectorResponse(connector=messages.connector(stored))

    @within(QUICK)
    async def PutConnector(
        self, request: pb.PutConnectorRequest, context: Any
    ) -> pb.PutConnectorResponse:
        """Store a new revision, or the first."""
        wanted = wire.connector_from_proto(request.connector)
        stored, changed = await self._connectors.put(wanted, request.expected_revision)
        created = changed and stored.connector.version == 1
        message = messages.connector(stored)
        return pb.PutConnectorResponse(connector=message, changed=changed, created=created)

    @within(QUICK)
    async def PatchConnector(
        self, request: pb.PatchConnectorRequest, context: Any
    ) -> pb.PatchConnectorResponse:
        """Set and remove single keys."""
        stored, changed = await self._connectors.patch(
            request.name, request.set, set(request.remove), request.expected_revision
        )
        return pb.PatchConnectorResponse(connector=messages.connector(stored), changed=changed)

    @within(QUICK)
    async def GetConnector(
        self, request: pb.GetConnectorRequest, context: Any
    ) -> pb.GetConnectorResponse:
        """Read one, by name or by generation."""
        if request.generation and not request.name:
            found, revision = await self._connectors.find_generation(request.generation)
            message = None if found is None else messages.connector(found)
            return pb.GetConnectorResponse(connector=message, revision=revision)
        stored, revision = await self._connectors.get_at(request.name)
        return pb.GetConnectorResponse(connector=messages.connector(stored), revision=revision)

    @within(QUICK)
    async def ListConnectors(
        self, request: pb.ListConnectorsRequest, context: Any
    ) -> pb.ListConnectorsResponse:
        """Read a page."""
        page = await self._connectors.page(
            request.prefix, messages.place(request.page_token), messages.size(request.page_size)
        )
        return messages.page(page)

    @within(QUICK)
    async def DeleteConnector(
        self, request: pb.DeleteConnectorRequest, context: Any
    ) -> pb.DeleteConnectorResponse:
        """Remove one with its plans and its history."""
        deleted = await self._connectors.delete(request.name, request.expected_revision)
        await self._departures.begin(deleted)
        return pb.DeleteConnectorResponse()

    @within(QUICK)
    async def SetTargetState(
        self, request: pb.SetTargetStateRequest, context: Any
    ) -> pb.SetTargetStateResponse:
        """Say whether one should run."""
        rules.check_target_state(request.target_state, unset=False)
        state = wire.state_from_proto(request.target_state)
        stored = await self._connectors.set_target_state(request.name, state)
        return pb.SetTargetStateResponse(connector=messages.connector(stored))

    @within(QUICK)
    async def RequestRestart(
        self, request: pb.RequestRestartRequest, context: Any
    ) -> pb.RequestRestartResponse:
        """Note that something is to be started anew."""
        stored = await self._connectors.restart(request.name, messages.restart(request))
        newest = wire.restart_to_proto(stored.connector.restarts[-1])
        return pb.RequestRestartResponse(restart=newest, generation=stored.connector.generation)

    @within(QUICK)
    async def ListRevisions(
        self, request: pb.ListRevisionsRequest, context: Any
    ) -> pb.ListRevisionsResponse:
        """Read the history of a configuration."""
        found, generation = await self._revisions.list(request.name)
        revisions = map(wire.revision_to_proto, found)
        return pb.ListRevisionsResponse(revisions=revisions, generation=generation)

    @within(QUICK)
    async def GetRevision(
        self, request: pb.GetRevisionRequest, context: Any
    ) -> pb.GetRevisionResponse:
        """Read one version."""
        found = await self._revisions.get(request.name, request.version)
        return pb.GetRevisionResponse(revision=wire.revision_to_proto(found))

    @within(QUICK)
    async def DiffRevisions(
        self, request: pb.DiffRevisionsRequest, context: Any
    ) -> pb.DiffRevisionsResponse:
        """Tell what differs."""
        found, to = await self._revisions.diff(
            request.name, request.from_version, request.to_version, set(request.sensitive_keys)
        )
        differences = map(wire.difference_to_proto, found)
        return pb.DiffRevisionsResponse(differences=differences, to_version=to)

    @within(QUICK)
    async def RollbackConnector(
        self, request: pb.RollbackConnectorRequest, context: Any
    ) -> pb.RollbackConnectorResponse:
        """Take an earlier version again."""
        stored, changed = await self._revisions.rollback(
            request.name, request.version, request.expected_revision
        )
        return pb.RollbackConnectorResponse(connector=messages.connector(stored), changed=changed)

    @within(SLOW)
    async def UploadTaskPlans(
        self, requests: AsyncIterator[pb.UploadTaskPlansRequest], context: Any
    ) -> pb.UploadTaskPlansResponse:
        """Store the plans of a generation, however large."""
        name, generation, tasks = await messages.uploaded_tasks(requests)
        return pb.UploadTaskPlansResponse(epoch=await self._plans.put(name, generation, tasks))

    @stepwise(QUICK)
    async def StreamTaskPlans(
        self, request: pb.StreamTaskPlansRequest, context: Any
    ) -> AsyncIterator[pb.StreamTaskPlansResponse]:
        """Read the plans of a generation, however large."""
        epoch, found = await self._plans.read(request.name, request.generation)
        async for answer in messages.plan_pages(found, epoch):
            yield answer

    async def WatchConnectors(
        self, request: pb.WatchConnectorsRequest, context: Any
    ) -> AsyncIterator[pb.WatchConnectorsResponse]:
        """Tell that something changed. The first metadata says that the watch stands."""
        changes = self._store.watch(CONNECTORS, request.after_revision)
        await context.send_initial_metadata(())
        async for change in changes:
            names = [name_of(key) for key in change.keys]
            yield pb.WatchConnectorsResponse(
                revision=change.revision, names=names, list_again=not names
            )

    @within(QUICK)
    async def NoteTopics(
        self, request: pb.NoteTopicsRequest, context: Any
    ) -> pb.NoteTopicsResponse:
        """Keep topics that a connector has rows of."""
        await self._topics.note(request.generation, request.topics)
        return pb.NoteTopicsResponse()

    @within(QUICK)
    async def ListTopics(
        self, request: pb.ListTopicsRequest, context: Any
    ) -> pb.ListTopicsResponse:
        """Tell the topics of a connector."""
        return pb.ListTopicsResponse(topics=await self._topics.of(request.name))

    @within(QUICK)
    async def ResetTopics(
        self, request: pb.ResetTopicsRequest, context: Any
    ) -> pb.ResetTopicsResponse:
        """Forget the topics of a connector."""
        await self._topics.reset(request.name)
        return pb.ResetTopicsResponse()

    @within(QUICK)
    async def SetLogLevel(
        self, request: pb.SetLogLevelRequest, context: Any
    ) -> pb.SetLogLevelResponse:
        """Set a level, or take it away."""
        revision = await self._levels.set(request.service, request.logger, request.level)
        return pb.SetLogLevelResponse(revision=revision)

    @within(QUICK)
    async def ListLogLevels(
        self, request: pb.ListLogLevelsRequest, context: Any
    ) -> pb.ListLogLevelsResponse:
        """Read the levels that were set."""
        levels, revision = await self._levels.list(request.service)
        found = map(wire.log_level_to_proto, levels)
        return pb.ListLogLevelsResponse(levels=found, revision=revision)

    async def WatchLogLevels(
        self, request: pb.WatchLogLevelsRequest, context: Any
    ) -> AsyncIterator[pb.WatchLogLevelsResponse]:
        """Send the levels, and again whenever they changed."""
        async for levels, revision in self._levels.watch(request.service):
            found = map(wire.log_level_to_proto, levels)
            yield pb.WatchLogLevelsResponse(levels=found, revision=revision)
