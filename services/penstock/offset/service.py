"""The gRPC surface of the offset service: messages in, values through, messages out.

Offsets and prepared transactions are stored as they came: what they mean is for their ends.
"""

# ruff: noqa: N802, ARG002 - names and arguments of methods are those of the wire

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.api.offset.v1 import offset_service_pb2_grpc as grpc_api
from penstock.api.record.v1 import record_pb2
from penstock.model.errors import ConfigError
from penstock.offset.commits import Commits
from penstock.offset.edits import ConnectorReader, Edits
from penstock.offset.rules import Commit, Prepared
from penstock.store import Store

MOST_PAGE_BYTES: Final = 1 << 20
"""Bytes of one message of a list."""


class OffsetService(grpc_api.OffsetServiceServicer):
    """Serves `penstock.api.offset.v1.OffsetService` from a store, which its maker closes."""

    def __init__(self, store: Store, connectors: ConnectorReader) -> None:
        """`connectors` is a client of the config service: it tells what is stopped."""
        self._commits = Commits(store)
        self._edits = Edits(store, connectors)

    async def ClaimTask(self, request: pb.ClaimTaskRequest, context: Any) -> pb.ClaimTaskResponse:
        """Fence older epochs, and say where the task stands."""
        record = await self._commits.claim(request.generation, request.task_id, request.epoch)
        if record.prepared is None:
            return pb.ClaimTaskResponse()
        last = sink_pb.PreparedTxn.FromString(record.prepared.body)
        return pb.ClaimTaskResponse(last_prepared=last, recover=record.recover)

    async def CommitOffsets(
        self, request: pb.CommitOffsetsRequest, context: Any
    ) -> pb.CommitOffsetsResponse:
        """Move a task forward."""
        commit = Commit(
            request.generation,
            request.task_id,
            request.epoch,
            _present(_bodies(request.offsets)),
            _prepared(request),
            request.applied_txn_id,
        )
        return pb.CommitOffsetsResponse(revision=await self._commits.commit(commit))

    async def GetOffsets(
        self, request: pb.GetOffsetsRequest, context: Any
    ) -> pb.GetOffsetsResponse:
        """Read the offsets of partitions."""
        found = await self._edits.get(request.generation, request.partition_ids)
        return pb.GetOffsetsResponse(offsets=_messages(found))

    async def ListOffsets(
        self, request: pb.ListOffsetsRequest, context: Any
    ) -> AsyncIterator[pb.ListOffsetsResponse]:
        """Stream the offsets of a generation."""
        async for page in self._edits.list(request.generation, request.prefix):
            answer, size = pb.ListOffsetsResponse(), 0
            for message in _messages(page):
                answer.offsets.append(message)
                size += message.ByteSize()
                if size >= MOST_PAGE_BYTES:
                    yield answer
                    answer, size = pb.ListOffsetsResponse(), 0
            if answer.offsets:
                yield answer

    async def AlterOffsets(
        self, request: pb.AlterOffsetsRequest, context: Any
    ) -> pb.AlterOffsetsResponse:
        """Set or remove offsets by hand."""
        bodies = _bodies(request.offsets)
        revision = await self._edits.alter(request.connector, request.generation, bodies)
        return pb.AlterOffsetsResponse(revision=revision)

    async def ResetOffsets(
        self, request: pb.ResetOffsetsRequest, context: Any
    ) -> pb.ResetOffsetsResponse:
        """Remove all offsets of a generation."""
        revision = await self._edits.reset(request.connector, request.generation)
        return pb.ResetOffsetsResponse(revision=revision)


def _bodies(messages: Iterable[pb.PartitionOffset]) -> dict[str, bytes | None]:
    return {
        message.partition_id: (
            message.offset.SerializeToString() if message.HasField("offset") else None
        )
        for message in messages
    }


def _present(bodies: Mapping[str, bytes | None]) -> dict[str, bytes]:
    present = {id_: body for id_, body in bodies.items() if body is not None}
    if len(present) < len(bodies):
        raise ConfigError(
            "offset.invalid",
            "a commit names a partition without its offset",
            fix="Leave partitions out that did not move.",
        )
    return present


def _prepared(request: pb.CommitOffsetsRequest) -> Prepared | None:
    if not request.HasField("prepared"):
        return None
    txn = request.prepared
    return Prepared(txn.txn_id, txn.SerializeToString(), len(txn.state), request.epoch)


def _messages(bodies: Mapping[str, bytes]) -> Iterable[pb.PartitionOffset]:
    for id_, body in bodies.items():
        yield pb.PartitionOffset(partition_id=id_, offset=record_pb2.Offset.FromString(body))
