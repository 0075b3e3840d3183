"""Partitions, offsets and transactions as Python values, and their wire forms.

A key or an offset is a dict of plain values: None, bool, int, float, str, bytes, Decimal, date,
datetime, lists and dicts of them. `partition_id` is canonical JSON of a key, the same text that the
host makes, so that both sides name a partition alike without a table of them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.record.v1 import record_pb2 as pb

OPAQUE: Final = "$opaque"
"""The one field of an offset that is the connector's own bytes."""

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
    """

    key: Mapping[str, Any]
    offset: Mapping[str, Any] | None = None
    payload: bytes = b""
    datasets: tuple[str, ...] = ()
    weight: float = 1.0
    bounded: bool = False
    finds_others: bool = False

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


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, exotic scalars tagged."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_tagged
    )


def partition_id(key: Mapping[str, Any]) -> str:
    """Return the id of the partition with this key."""
    return canonical_json(dict(key))


def _tagged(value: object) -> Any:
    match value:
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case Decimal():
            return {"$decimal": str(value)}
        case datetime():
            return {"$timestamp": value.astimezone(UTC).isoformat()}
        case date():
            return {"$date": value.isoformat()}
    raise TypeError(f"{type(value).__name__} cannot be part of a key or an offset")


def _untagged(fields: dict[str, Any]) -> Any:
    if len(fields) != 1:
        return fields
    ((tag, text),) = fields.items()
    match tag:
        case "$bytes":
            return base64.b64decode(text)
        case "$decimal":
            return Decimal(text)
        case "$timestamp":
            return datetime.fromisoformat(text)
        case "$date":
            return date.fromisoformat(text)
    return fields


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
            return pb.Value(struct_value=pb.StructValue(fields=_fields_to_proto(value)))
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


def _fields_to_proto(fields: Mapping[str, Any]) -> dict[str, pb.Value]:
    return {name: value_to_proto(value) for name, value in fields.items()}


def offset_to_proto(offset: Mapping[str, Any]) -> pb.Offset:
    """Return the message for an offset. A lone `$opaque` field is the connector's own bytes."""
    if set(offset) == {OPAQUE}:
        return pb.Offset(opaque=offset[OPAQUE])
    return pb.Offset(fields=_fields_to_proto(offset))


def offset_from_proto(message: pb.Offset) -> dict[str, Any]:
    """Return the fields of an offset."""
    if message.opaque and not message.fields:
        return {OPAQUE: message.opaque}
    return {name: value_from_proto(value) for name, value in message.fields.items()}


def partition_to_proto(partition: Partition) -> pb.Partition:
    """Return the message for a partition."""
    message = pb.Partition(
        partition_id=partition.id,
        key=_fields_to_proto(partition.key),
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
    """Return the partition of a message; one named by id alone gets its key from the id."""
    key = {name: value_from_proto(value) for name, value in message.key.items()}
    if message.partition_id and partition_id(key) != message.partition_id:
        key = json.loads(message.partition_id, object_hook=_untagged)
    return Partition(
        key=key,
        offset=offset_from_proto(message.offset) if message.HasField("offset") else None,
        payload=message.payload,
        datasets=tuple(message.datasets),
        weight=message.weight or 1.0,
        bounded=message.bounded,
        finds_others=message.finds_others,
    )


def prepared_to_proto(txn: PreparedTxn) -> sink_pb.PreparedTxn:
    """Return the message for a prepared transaction."""
    return sink_pb.PreparedTxn(txn_id=txn.txn_id, epoch=txn.epoch, state=txn.state, token=txn.token)


def prepared_from_proto(message: sink_pb.PreparedTxn) -> PreparedTxn:
    """Return the prepared transaction of a message."""
    return PreparedTxn(message.txn_id, message.epoch, message.state, message.token)
