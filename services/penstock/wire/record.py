"""penstock.api.record.v1 ↔ keys, offsets and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from penstock.api.record.v1 import record_pb2 as pb
from penstock.model.connector import Partition
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


def value_to_proto(value: Any) -> pb.Value:
    """Return the message for a value; None is a message with no kind set."""
    for kind, field in _SCALARS:
        if isinstance(value, kind):
            return pb.Value(**{field: value})  # type: ignore[arg-type] # the table pairs them
    match value:
        case None:
            return pb.Value()
        case Decimal():
            return pb.Value(decimal_value=str(value))
        case datetime():
            return pb.Value(timestamp_us=(value.astimezone(UTC) - _EPOCH) // _MICROSECOND)
        case date():
            return pb.Value(date_days=value.toordinal() - _EPOCH_DAY)
        case Mapping():
            fields = {name: value_to_proto(item) for name, item in value.items()}
            return pb.Value(struct_value=pb.StructValue(fields=fields))
        case list() | tuple():
            return pb.Value(list_value=pb.ListValue(items=[value_to_proto(i) for i in value]))
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


def offset_to_proto(offset: Mapping[str, Any]) -> pb.Offset:
    """Return the message for an offset. A lone `$opaque` field is the connector's own bytes."""
    if set(offset) == {"$opaque"}:
        return pb.Offset(opaque=offset["$opaque"])
    return pb.Offset(fields={name: value_to_proto(value) for name, value in offset.items()})


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
    )
    if partition.offset is not None:
        message.offset.CopyFrom(offset_to_proto(partition.offset))
    return message


def partition_from_proto(message: pb.Partition) -> Partition:
    """Return the partition of a message; one named by id alone gets its key from the id."""
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
    )
