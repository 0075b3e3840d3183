"""The keys of the offset service, and the stored forms.

`task/<generation>/<task id>` is a task's record: a line of JSON, then the prepared transaction as
it came. `offset/<generation>/<partition id>` is an offset: the epoch that wrote it in 8 bytes, then
the offset as it came. `floor/<generation>` is the newest dead epoch of a generation, as text.
"""

from __future__ import annotations

import json
import struct
from typing import Final

from penstock.offset.rules import Prepared, TaskRecord

_EPOCH: Final = struct.Struct(">Q")


def task_key(generation: str, task_id: str) -> str:
    """Return the key of a task's record."""
    return f"task/{generation}/{task_id}"


def offset_key(generation: str, partition_id: str) -> str:
    """Return the key of a partition's offset."""
    return f"offset/{generation}/{partition_id}"


def offsets_prefix(generation: str) -> str:
    """Return what the keys of a generation's offsets start with."""
    return f"offset/{generation}/"


def floor_key(generation: str) -> str:
    """Return the key of a generation's floor."""
    return f"floor/{generation}"


def encode_task(record: TaskRecord) -> bytes:
    """Return the stored form of a task's record."""
    head: dict[str, int | bool] = {"epoch": record.epoch, "applied": record.applied}
    if record.prepared is None:
        return json.dumps(head).encode() + b"\n"
    prepared = record.prepared
    head |= {
        "txn_id": prepared.txn_id,
        "state_bytes": prepared.state_bytes,
        "txn_epoch": prepared.epoch,
    }
    return json.dumps(head).encode() + b"\n" + prepared.body


def decode_task(value: bytes) -> TaskRecord:
    """Return a task's record."""
    line, _, body = value.partition(b"\n")
    head = json.loads(line)
    if "txn_id" not in head:
        return TaskRecord(head["epoch"], None, head["applied"])
    prepared = Prepared(head["txn_id"], body, head["state_bytes"], head["txn_epoch"])
    return TaskRecord(head["epoch"], prepared, head["applied"])


def encode_offset(epoch: int, body: bytes) -> bytes:
    """Return the stored form of an offset."""
    return _EPOCH.pack(epoch) + body


def epoch_of(value: bytes) -> int:
    """Return the epoch that wrote an offset."""
    epoch: int = _EPOCH.unpack_from(value)[0]
    return epoch


def body_of(value: bytes) -> bytes:
    """Return an offset as it came."""
    return value[_EPOCH.size :]


def encode_floor(epoch: int) -> bytes:
    """Return the stored form of a floor."""
    return str(epoch).encode()


def decode_floor(value: bytes) -> int:
    """Return a floor."""
    return int(value)
