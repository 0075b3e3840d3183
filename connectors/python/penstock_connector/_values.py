"""Partitions and transactions, and their messages.

A key or an offset is a dict of plain values: None, bool, int, float, str, bytes, Decimal, date,
datetime, lists and dicts of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.record.v1 import record_pb2 as pb
from penstock_values.identity import partition_id, partition_key
from penstock_values.messages import (
    fill_key,
    fill_offset,
    fill_range,
    key_from_proto,
    offset_from_proto,
    range_from_proto,
)
from penstock_values.partition_ranges import PartitionRange


class Op(IntEnum):
    """The change a row stands for. Numbers equal penstock.api.record.v1.Op."""

    UNSPECIFIED = 0
    CREATE = 1
    UPDATE = 2
    DELETE = 3
    SNAPSHOT = 4
    UPSERT = 5
    PATCH = 6
    TRUNCATE = 7


class CommitMode(IntEnum):
    """Who is the authority for "written up to". Numbers equal
    penstock.api.connector.v1.CommitMode.
    """

    UNSPECIFIED = 0
    HOST = 1
    SINK = 2
    TWO_PHASE = 3
    IDEMPOTENT = 4


@dataclass(frozen=True, slots=True)
class Partition:
    """A unit of work with an offset of its own.

    Attributes:
        key: Its identity, for instance `{"path": "/data/a.jsonl"}`.
        offset: Where to go on; None means from the beginning.
        payload: What the connector needs to read it; the host does not look into it.
        datasets: Datasets it yields, when known.
        weight: Its cost, relative to the other partitions.
        bounded: It ends.
        finds_others: Its task finds further partitions by itself. A plan with such a one has one
            task, which is given back what it found before.
        range: Its task finds those in this range by itself, and is given back what it found before:
            how several tasks share what nobody enumerates (`divide_range`).
    """

    key: Mapping[str, Any]
    offset: Mapping[str, Any] | None = None
    payload: bytes = b""
    datasets: tuple[str, ...] = ()
    weight: float = 1.0
    bounded: bool = False
    finds_others: bool = False
    range: PartitionRange | None = None

    @property
    def id(self) -> str:
        """Canonical JSON of the key."""
        return partition_id(self.key)


@dataclass(frozen=True, slots=True)
class PreparedTxn:
    """A transaction that was prepared: `state` is the sink's own (at most 64 KiB), `token` is what
    the host wants back.
    """

    txn_id: int
    epoch: int
    state: bytes = b""
    token: bytes = b""


def partition_to_proto(partition: Partition) -> pb.Partition:
    """Return the message for a partition."""
    message = pb.Partition(
        partition_id=partition.id,
        payload=partition.payload,
        datasets=partition.datasets,
        weight=partition.weight,
        bounded=partition.bounded,
        finds_others=partition.finds_others,
    )
    if partition.range is not None:
        fill_range(message.range, partition.range)
    fill_key(message, partition.key)
    if partition.offset is not None:
        message.offset.SetInParent()  # also when it is empty
        fill_offset(message.offset, partition.offset)
    return message


def partition_from_proto(message: pb.Partition) -> Partition:
    """Return the partition of a message; one named by id alone gets its key from the id."""
    key = key_from_proto(message)
    if message.partition_id and partition_id(key) != message.partition_id:
        key = partition_key(message.partition_id)
    return Partition(
        key=key,
        offset=offset_from_proto(message.offset) if message.HasField("offset") else None,
        payload=message.payload,
        datasets=tuple(message.datasets),
        weight=message.weight or 1.0,
        bounded=message.bounded,
        finds_others=message.finds_others,
        range=range_from_proto(message.range) if message.HasField("range") else None,
    )


def prepared_to_proto(txn: PreparedTxn) -> sink_pb.PreparedTxn:
    """Return the message for a prepared transaction."""
    return sink_pb.PreparedTxn(txn_id=txn.txn_id, epoch=txn.epoch, state=txn.state, token=txn.token)


def prepared_from_proto(message: sink_pb.PreparedTxn) -> PreparedTxn:
    """Return the prepared transaction of a message."""
    return PreparedTxn(message.txn_id, message.epoch, message.state, message.token)
