"""OffsetClient: the offsets of tasks, and what their sinks have prepared."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.api.offset.v1 import offset_service_pb2_grpc as grpc_api
from penstock.client.service_client import DEFAULT_TIMEOUT_S, ServiceClient
from penstock.model.errors import ConfigError, RetriableError
from penstock.model.offset import Claim, OffsetVersion, RewindProgress
from penstock.model.stream import Offsets, PreparedTxn
from penstock.rpc.channels import MAX_MESSAGE_BYTES, Dial, ServiceAddress, open_channel
from penstock.wire.connector import PREPARED
from penstock.wire.offset import CLAIM, OFFSET_VERSION, REWIND_PROGRESS
from penstock.wire.record import add_offsets, offsets_from_proto
from penstock_values.messages import fill_range
from penstock_values.partition_ranges import PartitionRange

BULK_TIMEOUT_S: Final = 600.0
"""Seconds for a change of all offsets of a connector."""

MAX_PARTITIONS_PER_READ: Final = 10_000
"""Partitions of one `GetOffsets` call. The service refuses more."""


class OffsetClient(ServiceClient):
    """The offset service. Every method may raise PenstockError."""

    def __init__(
        self, place: ServiceAddress, timeout_s: float = DEFAULT_TIMEOUT_S, dial: Dial = open_channel
    ) -> None:
        """`place` is `unix:/path` or `host:port`, or finds such addresses; see `ServiceClient`."""
        super().__init__(place, timeout_s, dial)
        self._stub = grpc_api.OffsetServiceStub(self._channel)

    async def claim(self, generation: str, task_id: str, epoch: int) -> Claim:
        """Fence all older epochs of a task and end its earlier claims. Returns its state."""
        request = pb.ClaimTaskRequest(generation=generation, task_id=task_id, epoch=epoch)
        answer = await self._call("offset.claim", self._stub.ClaimTask, request)
        return CLAIM.from_proto(answer)

    async def commit(
        self,
        generation: str,
        task_id: str,
        epoch: int,
        offsets: Offsets,
        prepared: PreparedTxn | None = None,
        applied_txn_id: int = 0,
        claim: int = 0,
    ) -> int:
        """Store offsets and prepared state in one fenced write. Returns the revision of the write.

        `claim` is the number of the claim that the commit belongs to; 0: not compared.

        Raises:
            RetriableError: `offset.claimed_again`.
            FencedError: `offset.stale_epoch`: a newer epoch owns the task or a partition.
            ConfigError: `offset.commit_too_large`.
        """
        request = pb.CommitOffsetsRequest(
            generation=generation,
            task_id=task_id,
            epoch=epoch,
            prepared=None if prepared is None else PREPARED.to_proto(prepared),
            applied_txn_id=applied_txn_id,
            claim=claim,
        )
        add_offsets(request.offsets, offsets)
        if request.ByteSize() > MAX_MESSAGE_BYTES:
            raise _too_large(task_id, len(offsets), request.ByteSize())
        answer = await self._call("offset.commit", self._stub.CommitOffsets, request)
        return answer.revision

    async def get(self, generation: str, partition_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the offsets of partitions. Partitions without a committed offset are absent.

        Any number of partitions is allowed: the client reads them in several calls.
        """
        found: dict[str, dict[str, Any]] = {}
        size, begin = MAX_PARTITIONS_PER_READ, 0
        while begin < len(partition_ids):
            part = partition_ids[begin : begin + size]
            try:
                found |= await self._get(generation, part)
            except RetriableError as error:
                if error.code != "rpc.exhausted" or len(part) == 1:
                    raise
                size = len(part) // 2  # the offsets are too large for one message
            else:
                begin += len(part)
        return found

    async def _get(
        self, generation: str, partition_ids: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        request = pb.GetOffsetsRequest(generation=generation, partition_ids=partition_ids)
        answer = await self._call("offset.get", self._stub.GetOffsets, request)
        return {id_: o for id_, o in offsets_from_proto(answer.offsets).items() if o is not None}

    async def list(
        self, generation: str, prefix: str = "", ranges: Iterable[PartitionRange] = ()
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Iterate over the partition ids and offsets of a generation, ordered by id: all, or those
        that are in a range.
        """
        request = pb.ListOffsetsRequest(generation=generation, prefix=prefix)
        for one in ranges:
            fill_range(request.ranges.add(), one)
        async for page in self._stream("offset.list", self._stub.ListOffsets(request)):
            for id_, offset in offsets_from_proto(page.offsets).items():
                if offset is not None:
                    yield id_, offset

    async def check_alterable(self, connector: str, generation: str) -> None:
        """Raise the error that `alter` would raise now, if any."""
        request = pb.CheckAlterableRequest(connector=connector, generation=generation)
        await self._call("offset.check_alterable", self._stub.CheckAlterable, request)

    async def alter(
        self, connector: str, generation: str, offsets: Mapping[str, Mapping[str, Any] | None]
    ) -> int:
        """Set offsets, or remove those that are None. Returns the revision of the write.

        The service refuses it unless the connector is STOPPED.
        """
        request = pb.AlterOffsetsRequest(connector=connector, generation=generation)
        add_offsets(request.offsets, offsets)
        answer = await self._call("offset.alter", self._stub.AlterOffsets, request)
        return answer.revision

    async def reset(self, connector: str, generation: str, *, forget: bool = False) -> int:
        """Remove all offsets of a generation; with `forget` also their history.

        The service refuses it unless the connector is STOPPED.
        """
        request = pb.ResetOffsetsRequest(connector=connector, generation=generation, forget=forget)
        method = self._stub.ResetOffsets
        answer = await self._call("offset.reset", method, request, timeout_s=BULK_TIMEOUT_S)
        return answer.revision

    async def list_history(self, generation: str, partition_id: str) -> tuple[OffsetVersion, ...]:
        """Return the offsets that a partition had, newest first."""
        request = pb.GetOffsetHistoryRequest(generation=generation, partition_id=partition_id)
        answer = await self._call("offset.history", self._stub.GetOffsetHistory, request)
        return tuple(map(OFFSET_VERSION.from_proto, answer.versions))

    async def rewind(
        self,
        connector: str,
        generation: str,
        to_time: datetime,
        *,
        dry_run: bool = False,
        prefix: str = "",
    ) -> AsyncGenerator[RewindProgress, None]:
        """Set partitions to the offsets that they had at a time. Iterates over the progress.

        The service refuses it unless the connector is STOPPED. A caller that stops iterating before
        the revision arrives has changed nothing.
        """
        request = pb.RewindOffsetsRequest(
            connector=connector, generation=generation, dry_run=dry_run, prefix=prefix
        )
        request.to_time.FromDatetime(to_time.astimezone(UTC))
        answers = self._stub.RewindOffsets(request, timeout=BULK_TIMEOUT_S)
        async for answer in self._stream("offset.rewind", answers):
            yield REWIND_PROGRESS.from_proto(answer)


def _too_large(task_id: str, partitions: int, size: int) -> ConfigError:
    """The error that replaces the one of gRPC, which looks as if a later attempt could succeed."""
    return ConfigError(
        "offset.commit_too_large",
        f"one checkpoint of task {task_id} has offsets of {partitions} partitions, together {size} "
        f"bytes; the limit of a commit is {MAX_MESSAGE_BYTES} bytes",
        fix="Raise `tasks.max`, so that a task has fewer partitions; or have the source send "
        "checkpoints more often, each with only the partitions that changed.",
        config_path="tasks.max",
    )
