"""Which partition of a topic a row goes to: a stable hash of its key, the same in every process and
version.

FNV-1a over the bytes of the key columns as text, each ended by a zero byte, modulo the number of
partitions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


def partition_of(
    rows: pa.RecordBatch, keys: Sequence[str], partitions: int
) -> npt.NDArray[np.int64]:
    """Return the partition of each row. Without a key every row goes to partition 0, which keeps
    their order.
    """
    if partitions <= 1 or not keys:
        return np.zeros(rows.num_rows, np.int64)
    hashes = np.full(rows.num_rows, _OFFSET)
    for key in keys:
        _mix(hashes, rows.column(key))
    return (hashes % np.uint64(partitions)).astype(np.int64)


def _mix(hashes: npt.NDArray[np.uint64], column: pa.Array) -> None:
    texts = column.cast(pa.string()) if not pa.types.is_binary(column.type) else column
    data = pc.fill_null(texts.cast(pa.binary()), b"\x00")
    lengths = pc.binary_length(data).to_numpy(zero_copy_only=False)
    _, offsets, values = data.buffers()
    starts = np.frombuffer(offsets, np.int32, len(data) + 1, data.offset * 4)[:-1]
    bytes_ = np.frombuffer(values or b"", np.uint8)
    with np.errstate(over="ignore"):
        for place in range(int(lengths.max(initial=0))):
            mine = lengths > place
            hashes[mine] = (hashes[mine] ^ bytes_[starts[mine] + place]) * _PRIME
        hashes *= _PRIME  # the zero byte that ends a key
