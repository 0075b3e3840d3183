"""Messages of the wire ↔ offsets as they are stored: an offset is kept as the bytes it came in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.api.record.v1 import record_pb2
from penstock.model.errors import ConfigError
from penstock.offset.bulk import Change, Progress
from penstock.offset.history import Version
from penstock.offset.rules import Prepared
from penstock.wire.offset import json_from_proto

MOST_PAGE_BYTES: Final = 1 << 20
"""Bytes of one message of a stream, beside a single offset."""


def committed_bodies(offsets: Iterable[pb.PartitionOffset]) -> dict[str, bytes]:
    """Return the offsets of a commit by partition id.

    Raises:
        ConfigError: `offset.invalid`: one has none.
    """
    bodies = {message.partition_id: _body(message) for message in offsets}
    present = {id_: body for id_, body in bodies.items() if body is not None}
    if len(present) < len(bodies):
        raise ConfigError(
            "offset.invalid",
            "a commit names a partition without its offset",
            fix="Leave partitions out that did not move.",
        )
    return present


def altered_bodies(request: pb.AlterOffsetsRequest) -> dict[str, bytes | None]:
    """Return the wanted offsets of an alteration by partition id.

    Raises:
        ConfigError: `offset.partition_id`, `offset.shape`, `offset.partition_twice`.
    """
    bodies = {message.partition_id: _body(message) for message in request.offsets}
    for message in request.json_offsets:
        id_, offset = json_from_proto(message)
        bodies[id_] = None if offset is None else offset.SerializeToString()
    if len(bodies) < len(request.offsets) + len(request.json_offsets):
        raise ConfigError(
            "offset.partition_twice",
            "the alteration names a partition more than once",
            fix="Name each partition once.",
        )
    return bodies


def prepared(request: pb.CommitOffsetsRequest) -> Prepared | None:
    """Return what the sink prepared."""
    if not request.HasField("prepared"):
        return None
    txn = request.prepared
    return Prepared(txn.txn_id, txn.SerializeToString(), len(txn.state), request.epoch)


def offsets(bodies: Mapping[str, bytes]) -> Iterator[pb.PartitionOffset]:
    """Return messages for offsets by partition id."""
    for id_, body in bodies.items():
        yield pb.PartitionOffset(partition_id=id_, offset=record_pb2.Offset.FromString(body))


def pages(bodies: Mapping[str, bytes]) -> Iterator[pb.ListOffsetsResponse]:
    """Return messages of bounded size for offsets by partition id."""
    answer, size = pb.ListOffsetsResponse(), 0
    for id_, body in bodies.items():
        size += len(id_) + len(body)
        if size > MOST_PAGE_BYTES and answer.offsets:
            yield answer
            answer, size = pb.ListOffsetsResponse(), len(id_) + len(body)
        message = answer.offsets.add(partition_id=id_)
        message.offset.MergeFromString(body)
        message.offset.SetInParent()  # an empty offset is one, too
    if answer.offsets:
        yield answer


def version(one: Version) -> pb.OffsetVersion:
    """Return the message for a version."""
    message = pb.OffsetVersion(epoch=one.epoch, written_at=_timestamp(one.time))
    if one.body is not None:
        message.offset.CopyFrom(record_pb2.Offset.FromString(one.body))
    return message


def progress(step: Progress) -> Iterator[pb.RewindOffsetsResponse]:
    """Return messages of bounded size for a step of a rewind; the last has its numbers."""
    answer, size = pb.RewindOffsetsResponse(), 0
    for change in step.changes:
        message = _change(change)
        size += message.ByteSize()
        if size > MOST_PAGE_BYTES and answer.changes:
            yield answer
            answer, size = pb.RewindOffsetsResponse(), message.ByteSize()
        answer.changes.append(message)
    answer.seen, answer.changed, answer.removed = step.seen, step.changed, step.removed
    answer.revision = step.revision
    yield answer


def _change(change: Change) -> pb.OffsetChange:
    message = pb.OffsetChange(partition_id=change.partition_id)
    if change.before is not None:
        message.before.CopyFrom(record_pb2.Offset.FromString(change.before))
    if change.after is not None:
        message.after.CopyFrom(record_pb2.Offset.FromString(change.after))
        message.after_written_at.CopyFrom(_timestamp(change.since))
    return message


def _body(message: pb.PartitionOffset) -> bytes | None:
    return message.offset.SerializeToString() if message.HasField("offset") else None


def _timestamp(milliseconds: int) -> Timestamp:
    made = Timestamp()
    made.FromMilliseconds(milliseconds)
    return made
