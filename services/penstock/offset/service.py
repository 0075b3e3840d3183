"""The gRPC service of the offset service: converts messages to values, calls the operation, and
converts the result back.

Offsets and prepared transactions are stored as the bytes in which they came. Only sources and sinks
know what they mean.
"""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.api.offset.v1 import offset_service_pb2_grpc as grpc_api
from penstock.api.record.v1 import record_pb2
from penstock.model.errors import ConfigError
from penstock.offset.admin import BulkAdmin, OffsetAdmin, OffsetChange, RewindProgress
from penstock.offset.commits import Commits
from penstock.offset.compaction import Compactor
from penstock.offset.history import OffsetVersion
from penstock.offset.retention import DEFAULT_RETENTION_S, OffsetRetention
from penstock.offset.rules import Commit, PreparedTransaction, rewind_time_ms
from penstock.offset.stop_guard import ConnectorReader, StopGuard, TaskReader
from penstock.offset.view import OffsetView
from penstock.rpc.deadlines import streaming_deadline, unary_deadline
from penstock.store.port import Store
from penstock_values.messages import range_from_proto

CALL_TIMEOUT_S: Final = 15.0
"""Seconds for a call without a deadline of its caller. A commit waits at most for a compaction,
which takes a few; a longer wait means that the store is broken, and the task should know."""

BULK_TIMEOUT_S: Final = 600.0
"""Seconds for a change of every offset. A million of them take one minute on a slow disk."""

MAX_MESSAGE_BYTES: Final = 1 << 20
"""Bytes of one message of a stream. A single offset may be larger."""


class OffsetService(grpc_api.OffsetServiceServicer):
    """Serves `penstock.api.offset.v1.OffsetService` from a store, which the caller closes.

    `start` continues what earlier processes left; `close` ends the work in the background.
    """

    def __init__(
        self,
        store: Store,
        connectors: ConnectorReader,
        tasks: TaskReader,
        clock: Callable[[], float] = time.time,
        retention_s: float = DEFAULT_RETENTION_S,
    ) -> None:
        """`connectors` is a client of the config service, which knows what should run; `tasks` a
        client of the scheduler, which knows what runs. `retention_s`: how long offsets of deleted
        connectors are kept, in seconds.
        """
        guard = StopGuard(connectors, tasks)
        view = OffsetView(store)
        self._compactor = Compactor(store, view, clock)
        self._commits = Commits(store, view, self._compactor, clock)
        self._admin = OffsetAdmin(store, guard, view, self._compactor, clock)
        self._bulk = BulkAdmin(store, guard, view, self._compactor, clock)
        self._retention = OffsetRetention(store, guard, self._bulk, retention_s)

    async def start(self) -> None:
        """Start the work in the background: compaction, and deletion of what is no longer used."""
        await self._compactor.resume()
        self._retention.start()

    async def close(self) -> None:
        """End the work in the background, before the store is closed. Idempotent."""
        await self._retention.close()
        await self._compactor.close()

    @unary_deadline(CALL_TIMEOUT_S)
    async def ClaimTask(self, request: pb.ClaimTaskRequest, context: Any) -> pb.ClaimTaskResponse:
        """Fence older epochs of a task, and return its commit state."""
        record = await self._commits.claim(request.generation, request.task_id, request.epoch)
        floor = await self._commits.read_floor(request.generation)
        if record.prepared is None:
            return pb.ClaimTaskResponse(floor=floor, claim=record.claim)
        last = sink_pb.PreparedTxn.FromString(record.prepared.body)
        return pb.ClaimTaskResponse(
            last_prepared=last, recover=record.needs_recovery, floor=floor, claim=record.claim
        )

    @unary_deadline(CALL_TIMEOUT_S)
    async def CommitOffsets(
        self, request: pb.CommitOffsetsRequest, context: Any
    ) -> pb.CommitOffsetsResponse:
        """Commit offsets of a task, with the transaction that its sink prepared."""
        commit = Commit(
            request.generation,
            request.task_id,
            request.epoch,
            _committed_offsets(request.offsets),
            _prepared_transaction(request),
            request.applied_txn_id,
            request.claim,
        )
        return pb.CommitOffsetsResponse(revision=await self._commits.commit(commit))

    @unary_deadline(CALL_TIMEOUT_S)
    async def GetOffsets(
        self, request: pb.GetOffsetsRequest, context: Any
    ) -> pb.GetOffsetsResponse:
        """Return the offsets of partitions."""
        bodies = await self._admin.get(request.generation, request.partition_ids)
        return pb.GetOffsetsResponse(offsets=_offsets_to_proto(bodies))

    @streaming_deadline(CALL_TIMEOUT_S)
    async def ListOffsets(
        self, request: pb.ListOffsetsRequest, context: Any
    ) -> AsyncIterator[pb.ListOffsetsResponse]:
        """Stream the offsets of a generation."""
        ranges = list(map(range_from_proto, request.ranges))
        async for page in self._admin.list(request.generation, request.prefix, ranges):
            for response in _page_to_proto(page):
                yield response

    @unary_deadline(CALL_TIMEOUT_S)
    async def GetOffsetHistory(
        self, request: pb.GetOffsetHistoryRequest, context: Any
    ) -> pb.GetOffsetHistoryResponse:
        """Return the offsets that a partition had."""
        versions = await self._admin.list_history(request.generation, request.partition_id)
        return pb.GetOffsetHistoryResponse(versions=map(_version_to_proto, versions))

    @unary_deadline(CALL_TIMEOUT_S)
    async def CheckAlterable(
        self, request: pb.CheckAlterableRequest, context: Any
    ) -> pb.CheckAlterableResponse:
        """Fail as `AlterOffsets` would fail now."""
        await self._admin.check_alterable(request.connector, request.generation)
        return pb.CheckAlterableResponse()

    @unary_deadline(CALL_TIMEOUT_S)
    async def AlterOffsets(
        self, request: pb.AlterOffsetsRequest, context: Any
    ) -> pb.AlterOffsetsResponse:
        """Set or remove offsets of a stopped connector."""
        bodies = _altered_offsets(request)
        revision = await self._admin.alter(request.connector, request.generation, bodies)
        return pb.AlterOffsetsResponse(revision=revision)

    @unary_deadline(BULK_TIMEOUT_S)
    async def ResetOffsets(
        self, request: pb.ResetOffsetsRequest, context: Any
    ) -> pb.ResetOffsetsResponse:
        """Remove all offsets of a generation."""
        revision = await self._bulk.reset(
            request.connector, request.generation, forget=request.forget
        )
        return pb.ResetOffsetsResponse(revision=revision)

    @streaming_deadline(BULK_TIMEOUT_S)
    async def RewindOffsets(
        self, request: pb.RewindOffsetsRequest, context: Any
    ) -> AsyncIterator[pb.RewindOffsetsResponse]:
        """Set all offsets of a generation to those that they were at a time."""
        to_ms = rewind_time_ms(request.to_time.ToNanoseconds())
        steps = self._bulk.rewind(
            request.connector, request.generation, to_ms, request.prefix, dry_run=request.dry_run
        )
        async for progress in steps:
            for response in _progress_to_proto(progress):
                yield response


def _committed_offsets(offsets: Iterable[pb.PartitionOffset]) -> dict[str, bytes]:
    """Return the offsets of a commit by partition id.

    Raises:
        ConfigError: `offset.invalid`: a partition has none.
    """
    bodies = {message.partition_id: _offset_body(message) for message in offsets}
    present = {id_: body for id_, body in bodies.items() if body is not None}
    if len(present) < len(bodies):
        missing = next(id_ for id_, body in bodies.items() if body is None)
        raise ConfigError(
            "offset.invalid",
            f"a commit names partition {missing[:200]} without its offset",
            fix="Leave out partitions whose offset did not change.",
        )
    return present


def _altered_offsets(request: pb.AlterOffsetsRequest) -> dict[str, bytes | None]:
    """Return the offsets of an alteration by partition id; None removes one.

    Raises:
        ConfigError: `offset.partition_twice`.
    """
    bodies = {message.partition_id: _offset_body(message) for message in request.offsets}
    if len(bodies) < len(request.offsets):
        raise ConfigError(
            "offset.partition_twice",
            "the alteration names a partition more than once",
            fix="Name each partition once.",
        )
    return bodies


def _prepared_transaction(request: pb.CommitOffsetsRequest) -> PreparedTransaction | None:
    if not request.HasField("prepared"):
        return None
    txn = request.prepared
    return PreparedTransaction(txn.txn_id, txn.SerializeToString(), len(txn.state), request.epoch)


def _offsets_to_proto(bodies: Mapping[str, bytes]) -> Iterator[pb.PartitionOffset]:
    for id_, body in bodies.items():
        yield pb.PartitionOffset(partition_id=id_, offset=record_pb2.Offset.FromString(body))


def _page_to_proto(bodies: Mapping[str, bytes]) -> Iterator[pb.ListOffsetsResponse]:
    """Yield messages of bounded size for a page of offsets."""
    response, size = pb.ListOffsetsResponse(), 0
    for id_, body in bodies.items():
        size += len(id_) + len(body)
        if size > MAX_MESSAGE_BYTES and response.offsets:
            yield response
            response, size = pb.ListOffsetsResponse(), len(id_) + len(body)
        message = response.offsets.add(partition_id=id_)
        message.offset.MergeFromString(body)
        message.offset.SetInParent()  # so that an empty offset is present, too
    if response.offsets:
        yield response


def _version_to_proto(version: OffsetVersion) -> pb.OffsetVersion:
    message = pb.OffsetVersion(epoch=version.epoch, written_at=_timestamp(version.time_ms))
    if version.body is not None:
        message.offset.CopyFrom(record_pb2.Offset.FromString(version.body))
    return message


def _progress_to_proto(progress: RewindProgress) -> Iterator[pb.RewindOffsetsResponse]:
    """Yield messages of bounded size for a step of a rewind. The last one has its counts."""
    response, size = pb.RewindOffsetsResponse(), 0
    for change in progress.changes:
        message = _change_to_proto(change)
        size += message.ByteSize()
        if size > MAX_MESSAGE_BYTES and response.changes:
            yield response
            response, size = pb.RewindOffsetsResponse(), message.ByteSize()
        response.changes.append(message)
    response.seen, response.changed = progress.seen, progress.changed
    response.removed, response.revision = progress.removed, progress.revision
    yield response


def _change_to_proto(change: OffsetChange) -> pb.OffsetChange:
    message = pb.OffsetChange(partition_id=change.partition_id)
    if change.before is not None:
        message.before.CopyFrom(record_pb2.Offset.FromString(change.before))
    if change.after is not None:
        message.after.CopyFrom(record_pb2.Offset.FromString(change.after))
        message.after_written_at.CopyFrom(_timestamp(change.after_written_at_ms))
    return message


def _offset_body(message: pb.PartitionOffset) -> bytes | None:
    return message.offset.SerializeToString() if message.HasField("offset") else None


def _timestamp(milliseconds: int) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromMilliseconds(milliseconds)
    return timestamp
