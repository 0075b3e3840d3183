"""Arrays of a single value, made from memory as it is.

`pa.array` and `pa.scalar` look for pandas first, and where it is installed loading it takes longer
than moving the first million rows.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa


def one_text(data: Any, size: int, kind: pa.DataType) -> pa.Array:
    """Return an array of one string or binary: the first `size` bytes of `data`, not copied."""
    offsets = pa.py_buffer(struct.pack("=ii", 0, size))
    return pa.Array.from_buffers(kind, 1, [None, offsets, pa.py_buffer(data)])


def one_list(values: pa.Array) -> pa.Array:
    """Return an array of one list: all values."""
    bounds = pa.py_buffer(struct.pack("=ii", 0, len(values)))
    return pa.ListArray.from_arrays(pa.Array.from_buffers(pa.int32(), 2, [None, bounds]), values)
