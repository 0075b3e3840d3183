"""Columns of texts of different lengths in one buffer, by numpy and Arrow. Pure.

An Arrow array of bytes is the form of all parts of messages. That rows get more or fewer of its
pieces changes its offsets only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_NOTHING: Final = pa.scalar(b"", pa.large_binary())


def from_offsets(offsets: Ints, data: Any) -> pa.Array:
    """Return pieces of a buffer of bytes."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def from_matrix(matrix: Bytes) -> pa.Array:
    """Return pieces of equal length: the rows of a matrix."""
    rows, width = matrix.shape
    return from_offsets(np.arange(rows + 1, dtype=np.int64) * width, np.ascontiguousarray(matrix))


def from_lengths(matrix: Bytes, lengths: Ints) -> pa.Array:
    """Return the first bytes of the rows of a matrix, as many as `lengths` says."""
    width = matrix.shape[1]
    if width and bool((lengths == width).all()):
        return from_matrix(matrix)
    return from_offsets(to_offsets(lengths), matrix[np.arange(width) < lengths[:, None]])


def repeat(piece: bytes, count: int) -> pa.Array:
    """Return a piece for each row."""
    offsets = np.arange(count + 1, dtype=np.int64) * len(piece)
    return from_offsets(offsets, np.frombuffer(piece * count, np.uint8))


def to_offsets(lengths: Ints) -> Ints:
    """Return where pieces begin that follow each other, and the end of the last."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def regroup(pieces: pa.Array, offsets: Ints) -> pa.Array:
    """Return rows of several pieces, one after the other. `offsets` are numbers of pieces."""
    begins = offsets_of(pieces)
    return from_offsets(begins[offsets], pieces.buffers()[2] or b"")


def spread(pieces: pa.Array, present: Bools) -> pa.Array:
    """Return a piece for each row that is present, and nothing for the others."""
    return regroup(pieces, to_offsets(present.astype(np.int64)))


def join(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the parts of each row, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, _NOTHING)


def offsets_of(pieces: pa.Array) -> Ints:
    """Return where the pieces of a large binary array begin in its buffer, and their end."""
    buffer = pieces.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(len(pieces) + 1, np.int64)
    return np.frombuffer(buffer, np.int64)[pieces.offset : pieces.offset + len(pieces) + 1]


def varints(values: Ints) -> pa.Array:
    """Return whole numbers as Avro writes them: zigzag, seven bits a byte."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width, lengths = 1, np.ones(len(values), np.int64)
    while width < 10 and bool((longer := zigzag >= np.uint64(1 << (7 * width))).any()):
        lengths += longer
        width += 1
    matrix = np.empty((len(values), width), np.uint8)
    for at in range(width):
        matrix[:, at] = (zigzag >> np.uint64(7 * at)).astype(np.uint8) & 0x7F
        if at + 1 < width:
            matrix[:, at] |= ((lengths > at + 1) * 0x80).astype(np.uint8)
    return from_lengths(matrix, lengths)
