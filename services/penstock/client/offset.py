"""OffsetClient: how far."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.api.offset.v1 import offset_service_pb2_grpc as grpc_api
from penstock.client.call import DEADLINE, Caller
from penstock.model.stream import Offsets, PreparedTxn
from penstock.wire.connector import prepared_from_proto, prepared_to_proto
from penstock.wire.offset import offsets_from_proto, offsets_to_proto


@dataclass(frozen=True, slots=True)
class Claim:
    """Where a claimed task stands. `recover`: the sink must apply `last_prepared` again."""

    last_prepared: PreparedTxn | None
    recover: bool


class OffsetClient(Caller):
    """The offset service. Every method may raise PenstockError."""

    def __init__(self, address: str, deadline: float = DEADLINE) -> None:
        """`address` is `unix:/path` or `host:port`."""
        super().__init__(address, deadline)
        self._stub = grpc_api.OffsetServiceStub(self._channel)

    async def claim(self, generation: str, task_id: str, epoch: int) -> Claim:
        """Fence all older epochs of a task, and say where it stands."""
        request = pb.ClaimTaskRequest(generation=generation, task_id=task_id, epoch=epoch)
        answer = await self._call("offset.claim", self._stub.ClaimTask, request)
        has = answer.HasField("last_prepared")
        return Claim(prepared_from_proto(answer.last_prepared) if has else None, answer.recover)

    async def commit(
        self,
        generation: str,
        task_id: str,
        epoch: int,
        offsets: Offsets,
        prepared: PreparedTxn | None = None,
        applied_txn_id: int = 0,
    ) -> int:
        """Store offsets and prepared state in one fenced write; returns its revision.

        Raises:
            FencedError: `offset.stale_epoch`: a newer epoch owns the task or a partition.
        """
        request = pb.CommitOffsetsRequest(
            generation=generation,
            task_id=task_id,
            epoch=epoch,
            offsets=offsets_to_proto(offsets),
            prepared=None if prepared is None else prepared_to_proto(prepared),
            applied_txn_id=applied_txn_id,
        )
        answer = await self._call("offset.commit", self._stub.CommitOffsets, request)
        return answer.revision

    async def get(self, generation: str, partition_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Read the offsets of partitions; those never committed are absent."""
        request = pb.GetOffsetsRequest(generation=generation, partition_ids=partition_ids)
        answer = await self._call("offset.get", self._stub.GetOffsets, request)
        return {id_: o for id_, o in offsets_from_proto(answer.offsets).items() if o is not None}

    async def list(
        self, generation: str, prefix: str = ""
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Iterate over partition ids and offsets, ordered by id."""
        request = pb.ListOffsetsRequest(generation=generation, prefix=prefix)
        async for page in self._stream("offset.list", self._stub.ListOffsets(request)):
            for id_, offset in offsets_from_proto(page.offsets).items():
                if offset is not None:
                    yield id_, offset

    async def alter(
        self, connector: str, generation: str, offsets: Mapping[str, Mapping[str, Any] | None]
    ) -> int:
        """Set offsets by hand, or remove those that are None; refused unless STOPPED."""
        request = pb.AlterOffsetsRequest(
            connector=connector, generation=generation, offsets=offsets_to_proto(offsets)
        )
        answer = await self._call("offset.alter", self._stub.AlterOffsets, request)
        return answer.revision

    async def reset(self, connector: str, generation: str) -> int:
        """Remove all offsets of a generation; refused unless STOPPED."""
        request = pb.ResetOffsetsRequest(connector=connector, generation=generation)
        answer = await self._call("offset.reset", self._stub.ResetOffsets, request)
        return answer.revision
