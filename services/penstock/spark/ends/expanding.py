"""What rows become when dictionaries and views are replaced by their values, told before they are:
a value of a megabyte may stand behind a million indices of four bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kind

_VIEW_BYTES: Final = 16


def may_expand(schema: pa.Schema) -> bool:
    """Tell whether rows of a schema may become larger when they are brought to Spark's types."""
    return any(_may_expand(type_) for type_ in schema.types)


def expanded(batch: pa.RecordBatch) -> int:
    """Return the bytes of the values that stand behind dictionaries and views, at all depths."""
    return sum(_expanded(column) for column in batch.columns)


def _may_expand(type_: pa.DataType) -> bool:
    if kind.is_dictionary(type_) or _is_view(type_):
        return True
    if isinstance(type_, pa.BaseExtensionType):
        return _may_expand(type_.storage_type)
    return any(_may_expand(type_.field(n).type) for n in range(type_.num_fields))


def _is_view(type_: pa.DataType) -> bool:
    return type_ in {pa.string_view(), pa.binary_view()}


def _expanded(array: pa.Array) -> int:
    type_ = array.type
    if isinstance(array, pa.ExtensionArray):
        return _expanded(array.storage)
    if kind.is_dictionary(type_):
        return _behind(array)
    if _is_view(type_):
        return int(_view_lengths(array).sum())
    if kind.is_struct(type_):
        return sum(_expanded(array.field(n)) for n in range(type_.num_fields))
    if kind.is_map(type_):
        return _expanded(array.keys) + _expanded(array.items)
    if kind.is_nested(type_) and hasattr(array, "values"):
        return _expanded(array.values)
    return 0


def _behind(array: pa.DictionaryArray) -> int:
    """Return the bytes of the values that the indices of an array name."""
    sizes = _sizes(array.dictionary)
    if not len(sizes):
        return 0
    used = pc.drop_null(array.indices).to_numpy(zero_copy_only=False)
    return int(sizes[used].sum()) if len(used) else 0


def _sizes(values: pa.Array) -> np.ndarray:
    """Return the size of each value; of those that are nested, what the largest could have."""
    type_ = values.type
    if _is_view(type_):
        return _view_lengths(values)
    if any(is_one(type_) for is_one in (kind.is_string, kind.is_binary, *_LARGE)):
        return np.asarray(pc.fill_null(pc.binary_length(values), 0), dtype=np.int64)
    if kind.is_nested(type_) or kind.is_dictionary(type_):
        return np.full(len(values), values.nbytes + _expanded(values), dtype=np.int64)
    return np.full(len(values), _VIEW_BYTES, dtype=np.int64)


def _view_lengths(array: pa.Array) -> np.ndarray:
    """Return the lengths in the first four bytes of each view; of nulls, what stands there."""
    views = array.buffers()[1]
    if views is None:
        return np.zeros(0, dtype=np.int64)
    words = np.frombuffer(views, dtype=np.int32)[:: _VIEW_BYTES // 4]
    return words[array.offset : array.offset + len(array)].astype(np.int64).clip(min=0)


_LARGE: Final = (kind.is_large_string, kind.is_large_binary)
