"""Row images of many events side by side, and values gathered from them, a column at a time.

A number at an odd place costs numpy no more than one at an even place, so a column of fixed width
is one gather over a view whose items overlap; nothing is done per row. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PAD: Final = bytes(80)
"""Behind the last row: gathers read past its end, where a value is null or shorter than a word."""

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


class Arena:
    """Bytes of rows, padded. Views of one are valid as long as it is."""

    def __init__(self, rows: bytes | bytearray) -> None:
        self.data = bytes(rows) + PAD
        self.buffer = pa.py_buffer(self.data)

    def gather(self, at: Ints, kind: str, offset: int = 0) -> npt.NDArray[Any]:
        """Return the numbers of a kind that begin `offset` bytes behind places."""
        item = np.dtype(kind)
        count = len(self.data) - offset - item.itemsize + 1
        view = np.ndarray((count,), item, self.data, offset, (1,))
        return view[at]

    def big(self, at: Ints, width: int, offset: int = 0) -> Words:
        """Return big-endian numbers of up to 8 bytes."""
        words: Words = self.gather(at, ">u8", offset).astype(np.uint64)
        return words >> np.uint64(64 - 8 * width)

    def little(self, at: Ints, width: int, offset: int = 0) -> Words:
        """Return little-endian numbers of up to 8 bytes."""
        words: Words = self.gather(at, "<u8", offset)
        return words & np.uint64((1 << 8 * width) - 1)

    def slices(self, at: Ints, size: Ints, null: Mask | None) -> pa.Array:
        """Return the bytes that stand in slices, which follow each other.

        Slices and the gaps between them are one array over the same bytes; taking every second
        item of it copies the slices at the speed of memory.
        """
        count = len(at)
        if not count:
            return pa.array([], pa.binary())
        bounds = np.empty(2 * count, np.int32)
        bounds[0::2] = at
        bounds[1::2] = at + size
        both = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), self.buffer]
        )
        return both.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=null))


def fixed(values: npt.NDArray[Any], kind: pa.DataType, null: Mask | None) -> pa.Array:
    """Return an Arrow array over numbers that have its layout."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [validity(null), data])


def validity(null: Mask | None) -> pa.Buffer | None:
    """Return Arrow's bits for what is not null."""
    return None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
