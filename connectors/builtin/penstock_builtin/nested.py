"""Lists and maps as what is in them and where each begins. Pure."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Offsets: TypeAlias = npt.NDArray[Any]


def is_list(kind: pa.DataType) -> bool:
    """Return whether values of a type are lists, of a fixed size or not."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def list_items(column: pa.Array) -> tuple[Offsets, pa.Array]:
    """Return where the lists of a column begin and end among items, and the items. Those of
    missing lists may be among them.
    """
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        items = column.values.slice(column.offset * size, len(column) * size)
        return np.arange(len(column) + 1) * size, items
    offsets, begin, size = _within(column)
    return offsets, column.values.slice(begin, size)


def map_entries(column: pa.Array) -> tuple[Offsets, pa.Array, pa.Array]:
    """Return the same of the maps of a column: offsets, keys and values."""
    offsets, begin, size = _within(column)
    return offsets, column.keys.slice(begin, size), column.items.slice(begin, size)


def _within(column: pa.Array) -> tuple[Offsets, int, int]:
    offsets = column.offsets.to_numpy()
    begin = int(offsets[0])
    return offsets - begin, begin, int(offsets[-1]) - begin
