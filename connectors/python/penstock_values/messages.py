"""penstock.api.record.v1 ↔ values, keys and offsets.

A value has the type of its content: None, bool, int, float, str, bytes, Decimal, date, datetime,
lists and mappings of them. Messages are filled in place, because protobuf copies a message that is
assigned to a field of another one, and a commit may have ten thousand offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from penstock.api.record.v1 import record_pb2 as pb
from penstock_values.partition_ranges import PartitionRange

OPAQUE: Final = "$opaque"
"""The only field of an offset that is bytes of the connector."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_SCALARS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool_value"),  # before int: a bool is one
    (int, "int_value"),
    (float, "double_value"),
    (str, "string_value"),
    (bytes, "bytes_value"),
)
_FIELDS: Final = dict(_SCALARS)


def fill_value(message: pb.Value, value: Any) -> None:
    """Set a value in an empty message; None leaves its kind unset.

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


def fill_key(message: pb.Partition, key: Mapping[str, Any]) -> None:
    """Set the key in an empty message of a partition."""
    for name, value in key.items():
        fill_value(message.key[name], value)


def key_from_proto(message: pb.Partition) -> dict[str, Any]:
    """Return the key in a message of a partition."""
    return {name: value_from_proto(value) for name, value in message.key.items()}


def fill_range(message: pb.PartitionRange, range_: PartitionRange) -> None:
    """Write a range into its message."""
    message.field, message.start, message.end = range_.field, range_.start, range_.end


def range_from_proto(message: pb.PartitionRange) -> PartitionRange:
    """Return the range of a message."""
    return PartitionRange(message.field, message.start, message.end)


def fill_offset(message: pb.Offset, offset: Mapping[str, Any]) -> None:
    """Set an offset in an empty message. A single field `$opaque` has bytes of the connector."""
    if len(offset) == 1 and OPAQUE in offset:
        message.opaque = offset[OPAQUE]
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
        return {OPAQUE: message.opaque}
    return {name: value_from_proto(value) for name, value in message.fields.items()}
