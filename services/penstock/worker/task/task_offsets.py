"""The offsets of one task: the offset service that stores them, and where a run starts to read."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from penstock.client.offset import OffsetClient
from penstock.model.connector import CommitMode, Partition, TaskPlan
from penstock.model.errors import ConfigError
from penstock.model.stream import Offsets, PreparedTxn, WriteOpened
from penstock_values.identity import parse_canonical, partition_key
from penstock_values.partition_ranges import PartitionRange


@dataclass(frozen=True, slots=True)
class Claim:
    """The state of a claimed task in the offset service. `recover`: `last_prepared` must be
    committed at the sink before the run starts.
    """

    last_prepared: PreparedTxn | None
    recover: bool


class OffsetWriter(Protocol):
    """The part of the offset service that commits need."""

    async def commit(
        self, offsets: Offsets, prepared: PreparedTxn | None, applied_txn_id: int
    ) -> None:
        """Store offsets and prepared state in one fenced write."""


class TaskOffsets(OffsetWriter, Protocol):
    """The offset service, as one run of a task sees it."""

    async def claim(self) -> Claim:
        """Claim the task, which fences older epochs."""

    async def get(self, partition_ids: list[str]) -> dict[str, Mapping[str, Any]]:
        """Return the offsets of partitions. A partition without a commit is absent."""

    async def get_all(self, ranges: Sequence[PartitionRange]) -> dict[str, Mapping[str, Any]]:
        """Return the offsets of the generation in these ranges; without ranges, all offsets."""


@dataclass(slots=True)
class StoredOffsets:
    """`TaskOffsets` through a client of the offset service. Each run of a task has its own."""

    client: OffsetClient
    generation: str
    task_id: str
    epoch: int
    _claim: int = 0

    async def claim(self) -> Claim:
        """Claim the task, which fences older epochs and commits that earlier runs still have in
        flight.
        """
        claim = await self.client.claim(self.generation, self.task_id, self.epoch)
        self._claim = claim.number
        return Claim(claim.last_prepared, claim.recover)

    async def get(self, partition_ids: list[str]) -> dict[str, Mapping[str, Any]]:
        """Return the offsets of partitions. A partition without a commit is absent."""
        return dict(await self.client.get(self.generation, partition_ids))

    async def get_all(self, ranges: Sequence[PartitionRange]) -> dict[str, Mapping[str, Any]]:
        """Return the offsets of the generation in these ranges; without ranges, all offsets."""
        listed = self.client.list(self.generation, ranges=ranges)
        return {id_: offset async for id_, offset in listed}

    async def commit(
        self, offsets: Offsets, prepared: PreparedTxn | None, applied_txn_id: int
    ) -> None:
        """Store offsets and prepared state in one fenced write."""
        await self.client.commit(
            self.generation,
            self.task_id,
            self.epoch,
            offsets,
            prepared,
            applied_txn_id,
            self._claim,
        )


async def resolve_start_offsets(
    plan: TaskPlan, opened: WriteOpened, claim: Claim, stored: TaskOffsets, epoch: int
) -> TaskPlan:
    """Return the plan with the offsets at which to start.

    The offset service decides, except where a sink stores offsets itself and its last transaction
    is not the stored one: a crash came between the two commits, or the sink's database was restored
    from a backup. Then the sink decides. When both transactions are equal, the stored offsets
    count: an operator may have altered them since, or another task may have had the partitions.

    Offsets from the sink are stored before the run starts. The sink's next transaction may be of
    other partitions, and after a crash nothing else would know these offsets.
    """
    own = plan.own_partitions
    planned = {partition.id for partition in plan.partitions}
    offsets: Offsets = {}
    if plan.finds_others:
        listed = await stored.get_all(plan.ranges if own.ranges is not None else ())
        # again: an offset service of an earlier version knows no ranges
        offsets = {id_: offset for id_, offset in listed.items() if id_ in own}
    offsets = {**offsets, **await stored.get(sorted(planned - offsets.keys()))}
    token, last = opened.committed, claim.last_prepared
    known = token is not None and last is not None and token.txn_id == last.txn_id
    if opened.commit_mode is CommitMode.SINK and token is not None and not known:
        ours = parse_canonical(token.token.decode())
        ours = {id_: offset for id_, offset in ours.items() if id_ in own}
        newer = last is None or token.txn_id > last.txn_id
        await stored.commit(ours, PreparedTxn(token.txn_id, epoch) if newer else None, token.txn_id)
        offsets = {**offsets, **ours}
    # a task may have found a million partitions, and the loop renews the worker's lease
    return await asyncio.to_thread(_with_offsets, plan, planned, offsets)


def _with_offsets(plan: TaskPlan, planned: Container[str], offsets: Offsets) -> TaskPlan:
    partitions = [_at(partition, offsets) for partition in plan.partitions]
    if plan.finds_others:
        found = sorted(id_ for id_ in offsets if id_ not in planned)
        partitions += (Partition(partition_key(id_), offsets[id_], known_id=id_) for id_ in found)
    return replace(plan, partitions=tuple(partitions))


def check_commit_mode(requested: CommitMode, opened: WriteOpened) -> None:
    """Refuse a weaker commit mode than the requested one: there is no silent downgrade (rule R13).

    Raises:
        ConfigError: `delivery.not_available`.
    """
    if requested is not CommitMode.UNSPECIFIED and opened.commit_mode is not requested:
        raise ConfigError(
            "delivery.not_available",
            f"`delivery` requests commit mode {requested.name}, the sink commits in "
            f"{opened.commit_mode.name} mode",
            fix="Choose a sink that supports the mode, or remove `delivery`.",
            config_path="delivery",
        )


def _at(partition: Partition, offsets: Offsets) -> Partition:
    offset = offsets.get(partition.id)
    return partition if offset is None else replace(partition, offset=offset)
