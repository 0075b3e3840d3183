"""penstock.api.record.v1 ↔ values, offsets and partitions; penstock.api.offset.v1 ↔ offsets by
partition id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from penstock.api.offset.v1 import offset_service_pb2 as offset_pb
from penstock.api.record.v1 import record_pb2 as pb
from penstock.model.connector import Partition
from penstock.model.errors import ConfigError
from penstock.model.identity import partition_id, partition_key

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
_SCALARS: tuple[tuple[type, str], ...] = (
    (bool, "bool_value"),  # before int: a bool is one
    (int, "int_value"),
    (float, "double_value"),
    (str, "string_value"),
    (bytes, "bytes_value"),
)
_FIELDS = dict(_SCALARS)


def fill_value(message: pb.Value, value: Any) -> None:
    """Set a value in an empty message; None leaves its kind unset.

    It fills the message in place: a commit may have ten thousand offsets, and protobuf copies a
    message that is assigned to a field of another one.

    Raises:
        TypeError: the type has no form in the protocol.
    """
    field = _FIELDS.get(type(value)) or next(
        (field for kind, field in _SCALARS if isinstance(value, kind)), None
    )
    if field is not None:
        setattr(message, field, value)
        return
    match value:
        case None:
            pass
        case Decimal():
            message.decimal_value = str(value)
        case datetime():
            message.timestamp_us = (value.astimezone(UTC) - _EPOCH) // _MICROSECOND
        case date():
            message.date_days = value.toordinal() - _EPOCH_DAY
        case Mapping():
            message.struct_value.SetInParent()  # also when it is empty
            for name, item in value.items():
                fill_value(message.struct_value.fields[name], item)
        case list() | tuple():
            message.list_value.SetInParent()
            for item in value:
                fill_value(message.list_value.items.add(), item)
        case _:
            raise TypeError(f"{type(value).__name__} cannot be part of a key or an offset")


def value_to_proto(value: Any) -> pb.Value:
    """Return the message for a value; None is a message whose kind is unset."""
    message = pb.Value()
    fill_value(message, value)
    return message


def value_from_proto(message: pb.Value) -> Any:
    """Return the value of a message."""
    match message.WhichOneof("kind"):
        case None:
            return None
        case "decimal_value":
            return Decimal(message.decimal_value)
        case "timestamp_us":
            return _EPOCH + timedelta(microseconds=message.timestamp_us)
        case "date_days":
            return date.fromordinal(message.date_days + _EPOCH_DAY)
        case "list_value":
            return [value_from_proto(item) for item in message.list_value.items]
        case "struct_value":
            return {n: value_from_proto(v) for n, v in message.struct_value.fields.items()}
        case kind:
            return getattr(message, kind)


def fill_offset(message: pb.Offset, offset: Mapping[str, Any]) -> None:
    """Set an offset in an empty message. A single field `$opaque` has bytes of the connector."""
    if len(offset) == 1 and "$opaque" in offset:
        message.opaque = offset["$opaque"]
        return
    for name, value in offset.items():
        fill_value(message.fields[name], value)


def offset_to_proto(offset: Mapping[str, Any]) -> pb.Offset:
    """Return the message for an offset. A single field `$opaque` has bytes of the connector."""
    message = pb.Offset()
    fill_offset(message, offset)
    return message


def offset_from_proto(message: pb.Offset) -> dict[str, Any]:
    """Return the fields of an offset."""
    if message.opaque and not message.fields:
        return {"$opaque": message.opaque}
    return {name: value_from_proto(value) for name, value in message.fields.items()}


def partition_to_proto(partition: Partition) -> pb.Partition:
    """Return the message for a partition."""
    message = pb.Partition(
        partition_id=partition.id,
        key={name: value_to_proto(value) for name, value in partition.key.items()},
        payload=partition.payload,
        datasets=partition.datasets,
        weight=partition.weight,
        bounded=partition.bounded,
        finds_others=partition.finds_others,
    )
    if partition.offset is not None:
        message.offset.CopyFrom(offset_to_proto(partition.offset))
    return message


def partition_from_proto(message: pb.Partition) -> Partition:
    """Return the partition of a message. If the message has only an id, the key is read from it."""
    key = {name: value_from_proto(value) for name, value in message.key.items()}
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
    )


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
