"""Which partition of a topic a row goes to: a stable hash of its key, the same in every process and
version.

The hash is FNV-1a (64 bits) over the key columns in order, each as UTF-8 text (binary as it is,
nested values as canonical JSON, null as one zero byte) and ended by one zero byte. A value of more
than 256 bytes stands for itself by its BLAKE2b digest of 8 bytes, so that one huge key costs no
more than others. The two halves of the hash are joined by exclusive-or, because the low bits of
FNV alone are weak, and taken modulo the number of partitions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kind

from penstock.model.identity import canonical_json

_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_PRIME: Final = np.uint64(0x100000001B3)
_HALF: Final = np.uint64(32)
_MOST_BYTES: Final = 256


def partition_of(
    rows: pa.RecordBatch, keys: Sequence[str], partitions: int
) -> npt.NDArray[np.int64]:
    """Return the partition of each row, by its key."""
    if partitions <= 1:
        return np.zeros(rows.num_rows, np.int64)
    hashes = np.full(rows.num_rows, _OFFSET)
    for key in keys:
        _mix(hashes, _bytes_of(rows.column(key)))
    places: npt.NDArray[np.uint64] = (hashes ^ (hashes >> _HALF)) % np.uint64(partitions)
    return places.astype(np.int64)


def partition_without_key(task_id: str, partitions: int) -> int:
    """Return where the rows of a task go that have no key: always to one partition, which keeps
    their order; the tasks of a connector take turns.
    """
    number = task_id.rpartition("-")[2]
    return int(number) % partitions if number.isdecimal() else 0


def _bytes_of(column: pa.Array) -> pa.Array:
    if kind.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kind.is_nested(column.type):
        texts = [None if v is None else canonical_json(v) for v in column.to_pylist()]
        column = pa.array(texts, pa.string())
    data = column.cast(pa.binary()) if _is_bytes(column.type) else _text(column)
    return pc.fill_null(_bounded(data), b"\x00")


def _is_bytes(type_: pa.DataType) -> bool:
    checks = (kind.is_binary, kind.is_large_binary, kind.is_binary_view, kind.is_fixed_size_binary)
    return any(check(type_) for check in checks)


def _text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(pa.binary())


def _bounded(data: pa.Array) -> pa.Array:
    long = pc.greater(pc.binary_length(data), _MOST_BYTES)
    if not pc.any(long).as_py():
        return data
    values = [
        hashlib.blake2b(value, digest_size=8).digest()
        if value and len(value) > _MOST_BYTES
        else value
        for value in data.to_pylist()
    ]
    return pa.array(values, pa.binary())


def _mix(hashes: npt.NDArray[np.uint64], data: pa.Array) -> None:
    """Mix one column in, a byte place at a time over all rows that are that long."""
    _, offsets, values = data.buffers()
    ends = np.frombuffer(offsets, np.int32, len(data) + 1, data.offset * 4).astype(np.int64)
    lengths = ends[1:] - ends[:-1]
    content = np.frombuffer(values or b"", np.uint8)
    # longest first: the rows that still have bytes are then always a prefix, and need no mask
    order = np.argsort(-lengths, kind="stable")
    starts, mixed = ends[:-1][order], hashes[order]
    longer = np.searchsorted(-lengths[order], -np.arange(int(lengths.max(initial=0))), side="left")
    with np.errstate(over="ignore"):
        for place, count in enumerate(longer):
            head = mixed[:count]
            head ^= content[starts[:count] + place]
            head *= _PRIME
        mixed *= _PRIME  # the zero byte that ends a value
    hashes[order] = mixed
