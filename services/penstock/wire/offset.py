"""penstock.api.offset.v1 ↔ offsets by partition id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.api.record.v1 import record_pb2
from penstock.model.errors import ConfigError
from penstock.model.identity import parse_canonical, partition_id
from penstock.wire import record


class MutableOffsets(Protocol):
    """The repeated field of a message that offsets are put into."""

    def add(self, *, partition_id: str) -> pb.PartitionOffset:
        """Add one."""


def add_offsets(messages: MutableOffsets, offsets: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Add the messages for offsets by partition id; None is a partition without one.

    Raises:
        ConfigError: `offset.shape`: an offset is no mapping of names to values.
    """
    for id_, offset in offsets.items():
        message = messages.add(partition_id=id_)
        if offset is not None:
            message.offset.SetInParent()  # an empty offset is one, too
            _fill(message.offset, id_, offset)


def offsets_bytes(offsets: Mapping[str, Mapping[str, Any] | None]) -> int:
    """Return how many bytes of a message offsets take.

    Raises:
        ConfigError: `offset.shape`: an offset is no mapping of names to values.
    """
    message = pb.CommitOffsetsRequest()
    add_offsets(message.offsets, offsets)
    return message.ByteSize()


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


def json_from_proto(message: pb.JsonOffset) -> tuple[str, record_pb2.Offset | None]:
    """Return the partition id and the offset that a person wrote as JSON; None removes it.

    Raises:
        ConfigError: `offset.partition_id`, `offset.shape`.
    """
    key = _parsed(message.partition)
    if not isinstance(key, dict):
        raise ConfigError(
            "offset.partition_id",
            f"{message.partition[:200]!r} is not the key of a partition",
            fix='Write it as a JSON object, for instance {"table":"orders"}.',
        )
    id_ = partition_id(key)
    value = _parsed(message.offset) if message.offset.strip() else None
    if value is None:
        return id_, None
    made = record_pb2.Offset()
    _fill(made, id_, value)
    return id_, made


def _parsed(text: str) -> Any:
    """Return the value of a JSON text; what is none is returned as a type that is refused."""
    try:
        return parse_canonical(text)
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return ...


def _fill(message: record_pb2.Offset, id_: str, value: Any) -> None:
    try:
        if isinstance(value, Mapping):
            return record.fill_offset(message, value)
        problem = "it is no object"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        problem = str(error)
    raise ConfigError(
        "offset.shape",
        f"the offset of {id_[:200]} cannot be stored: {problem[:200]}",
        fix="Give a JSON object of names and values, as a list of offsets shows it; null removes "
        "the offset.",
    )
