"""The gRPC surface of the offset service: messages in, values through, messages out.

Offsets and prepared transactions are stored as they came: what they mean is for their ends.
"""

# ruff: noqa: N802, ARG002 - names and arguments of methods are those of the wire

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.api.offset.v1 import offset_service_pb2_grpc as grpc_api
from penstock.offset import messages, rules
from penstock.offset.bulk import Bulk
from penstock.offset.commits import Commits
from penstock.offset.compaction import Folder
from penstock.offset.edits import Edits
from penstock.offset.leftovers import KEPT, Leftovers
from penstock.offset.owner import ConnectorReader, Owner, TaskReader
from penstock.offset.rules import Commit
from penstock.offset.view import View
from penstock.rpc import stepwise, within
from penstock.store import Store

QUICK: Final = 15.0
"""Seconds for a call whose caller names no deadline. A commit waits at most for a fold, which takes
a few; a longer wait means that the store is broken, and the task had better know."""

SLOW: Final = 600.0
"""Seconds for a change of every offset. A million of them take one minute on a slow disk."""


class OffsetService(grpc_api.OffsetServiceServicer):
    """Serves `penstock.api.offset.v1.OffsetService` from a store, which its maker closes.

    `start` goes on with what an earlier life left; `close` ends the work in the background.
    """

    def __init__(
        self,
        store: Store,
        connectors: ConnectorReader,
        tasks: TaskReader,
        clock: Callable[[], float] = time.time,
        kept: float = KEPT,
    ) -> None:
        """`connectors` is a client of the config service: it tells what is to be stopped; `tasks`
        tells what has. `kept`: how long offsets of deleted connectors stay, in seconds.
        """
        owner = Owner(connectors, tasks)
        view = View(store)
        self._folder = Folder(store, view, clock)
        self._commits = Commits(store, view, self._folder, clock)
        self._edits = Edits(store, owner, view, self._folder, clock)
        self._bulk = Bulk(store, owner, view, self._folder, clock)
        self._leftovers = Leftovers(store, owner, self._bulk, kept)

    async def start(self) -> None:
        """Fold and sweep what an earlier life and deleted connectors left, in the background."""
        await self._folder.resume()
        self._leftovers.start()

    async def close(self) -> None:
        """End the work in the background, before the store is closed. Idempotent."""
        await self._leftovers.close()
        await self._folder.close()

    @within(QUICK)
    async def ClaimTask(self, request: pb.ClaimTaskRequest, context: Any) -> pb.ClaimTaskResponse:
        """Fence older epochs, and say where the task stands."""
        record = await self._commits.claim(request.generation, request.task_id, request.epoch)
        floor = await self._commits.floor(request.generation)
        if record.prepared is None:
            return pb.ClaimTaskResponse(floor=floor, claim=record.claim)
        last = sink_pb.PreparedTxn.FromString(record.prepared.body)
        return pb.ClaimTaskResponse(
            last_prepared=last, recover=record.recover, floor=floor, claim=record.claim
        )

    @within(QUICK)
    async def CommitOffsets(
        self, request: pb.CommitOffsetsRequest, context: Any
    ) -> pb.CommitOffsetsResponse:
        """Move a task forward."""
        commit = Commit(
            request.generation,
            request.task_id,
            request.epoch,
            messages.committed_bodies(request.offsets),
            messages.prepared(request),
            request.applied_txn_id,
            request.claim,
        )
        return pb.CommitOffsetsResponse(revision=await self._commits.commit(commit))

    @within(QUICK)
    async def GetOffsets(
        self, request: pb.GetOffsetsRequest, context: Any
    ) -> pb.GetOffsetsResponse:
        """Read the offsets of partitions."""
        found = await self._edits.get(request.generation, request.partition_ids)
        return pb.GetOffsetsResponse(offsets=messages.offsets(found))

    @stepwise(QUICK)
    async def ListOffsets(
        self, request: pb.ListOffsetsRequest, context: Any
    ) -> AsyncIterator[pb.ListOffsetsResponse]:
        """Stream the offsets of a generation."""
        async for page in self._edits.list(request.generation, request.prefix):
            for answer in messages.pages(page):
                yield answer

    @within(QUICK)
    async def GetOffsetHistory(
        self, request: pb.GetOffsetHistoryRequest, context: Any
    ) -> pb.GetOffsetHistoryResponse:
        """Read the offsets that a partition had."""
        versions = await self._edits.history(request.generation, request.partition_id)
        return pb.GetOffsetHistoryResponse(versions=map(messages.version, versions))

    @within(QUICK)
    async def CheckAlterable(
        self, request: pb.CheckAlterableRequest, context: Any
    ) -> pb.CheckAlterableResponse:
        """Tell whether offsets could be altered now."""
        await self._edits.check_alterable(request.connector, request.generation)
        return pb.CheckAlterableResponse()

    @within(QUICK)
    async def AlterOffsets(
        self, request: pb.AlterOffsetsRequest, context: Any
    ) -> pb.AlterOffsetsResponse:
        """Set or remove offsets by hand."""
        bodies = messages.altered_bodies(request)
        revision = await self._edits.alter(request.connector, request.generation, bodies)
        return pb.AlterOffsetsResponse(revision=revision)

    @within(SLOW)
    async def ResetOffsets(
        self, request: pb.ResetOffsetsRequest, context: Any
    ) -> pb.ResetOffsetsResponse:
        """Remove all offsets of a generation."""
        revision = await self._bulk.reset(
            request.connector, request.generation, forget=request.forget
        )
        return pb.ResetOffsetsResponse(revision=revision)

    @stepwise(SLOW)
    async def RewindOffsets(
        self, request: pb.RewindOffsetsRequest, context: Any
    ) -> AsyncIterator[pb.RewindOffsetsResponse]:
        """Set all offsets of a generation to what they were."""
        to = rules.milliseconds(request.to_time.ToNanoseconds())
        steps = self._bulk.rewind(
            request.connector, request.generation, to, request.prefix, dry_run=request.dry_run
        )
        async for progress in steps:
            for answer in messages.progress(progress):
                yield answer
