"""penstock.api.record.v1 ↔ partitions; penstock.api.offset.v1 ↔ offsets by partition id.

Written by hand: a value has the type of its content, and offsets are on the way of each commit,
which may have ten thousand of them. They are filled in place (`penstock_values.messages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from penstock.api.offset.v1 import offset_service_pb2 as offset_pb
from penstock.api.record.v1 import record_pb2 as pb
from penstock.model.connector import Partition
from penstock.model.errors import ConfigError
from penstock.wire.codec import CustomCodec
from penstock_values.identity import partition_id, partition_key
from penstock_values.messages import (
    fill_key,
    fill_offset,
    fill_range,
    key_from_proto,
    offset_from_proto,
    offset_to_proto,
    range_from_proto,
)


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
    """Return the partition of a message. If the message has only an id, the key is read from it."""
    key = key_from_proto(message)
    id_ = partition_id(key)
    if message.partition_id and id_ != message.partition_id:
        key, id_ = partition_key(message.partition_id), ""
    return Partition(
        key=key,
        offset=offset_from_proto(message.offset) if message.HasField("offset") else None,
        payload=message.payload,
        datasets=tuple(message.datasets),
        weight=message.weight or 1.0,
        bounded=message.bounded,
        finds_others=message.finds_others,
        range=range_from_proto(message.range) if message.HasField("range") else None,
        known_id=id_,
    )


OFFSET: Final = CustomCodec(dict, pb.Offset, offset_to_proto, offset_from_proto)

PARTITION: Final = CustomCodec(Partition, pb.Partition, partition_to_proto, partition_from_proto)


class MutableOffsets(Protocol):
    """The repeated field of a message that offsets are added to."""

    def add(self, *, partition_id: str) -> offset_pb.PartitionOffset:
        """Add an element and return it."""


def add_offsets(messages: MutableOffsets, offsets: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Add the messages for offsets by partition id; None is a partition without an offset.

    Raises:
        ConfigError: `offset.shape`: an offset is not a mapping of names to values.
    """
    for id_, offset in offsets.items():
        message = messages.add(partition_id=id_)
        if offset is not None:
            message.offset.SetInParent()  # also when it is empty
            _fill_checked(message.offset, id_, offset)


def offsets_bytes(offsets: Mapping[str, Mapping[str, Any] | None]) -> int:
    """Return the size of offsets in a message, in bytes.

    Raises:
        ConfigError: `offset.shape`: an offset is not a mapping of names to values.
    """
    message = offset_pb.CommitOffsetsRequest()
    add_offsets(message.offsets, offsets)
    return message.ByteSize()


def offsets_from_proto(
    messages: Iterable[offset_pb.PartitionOffset],
) -> dict[str, dict[str, Any] | None]:
    """Return the offsets of messages by partition id; None where a message has no offset."""
    return {
        message.partition_id: (
            offset_from_proto(message.offset) if message.HasField("offset") else None
        )
        for message in messages
    }


def _fill_checked(message: pb.Offset, id_: str, value: Any) -> None:
    try:
        if isinstance(value, Mapping):
            return fill_offset(message, value)
        problem = "it is not an object"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        problem = str(error)
    raise ConfigError(
        "offset.shape",
        f"the offset of {id_[:200]} cannot be stored: {problem[:200]}",
        fix="Write a JSON object of names and values, as a list of offsets shows it; null removes "
        "the offset.",
    )
