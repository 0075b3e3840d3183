"""penstock.api.offset.v1 ↔ offsets by partition id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.wire import record


def offsets_to_proto(
    offsets: Mapping[str, Mapping[str, Any] | None],
) -> list[pb.PartitionOffset]:
    """Return the messages for offsets by partition id; None is a partition without one."""
    return [
        pb.PartitionOffset(
            partition_id=id_,
            offset=None if offset is None else record.offset_to_proto(offset),
        )
        for id_, offset in offsets.items()
    ]


def offsets_from_proto(
    messages: Iterable[pb.PartitionOffset],
) -> dict[str, dict[str, Any] | None]:
    """Return the offsets of messages by partition id; None where a message has none."""
    return {
        message.partition_id: (
            record.offset_from_proto(message.offset) if message.HasField("offset") else None
        )
        for message in messages
    }
