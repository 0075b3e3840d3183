r"""Columns of Arrow as the text that both COPY and LOAD DATA read: values parted by tabs, rows by
newlines, `\\N` for null, a backslash before what would part them. Pure, and never row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector.tables.fitting import data_of

_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0"))
"""In this order: the backslash comes first, or those of the others would be doubled."""

_LARGE: Final = 1 << 29
"""Bytes of a column from which on offsets of 32 bits could overflow in the joined text."""


@dataclass(frozen=True, slots=True)
class Style:
    """Where the two differ.

    Attributes:
        hex_prefix: What stands before the hex digits of bytes, escaped already.
        digits: Booleans are 1 and 0.
        wide: Singles are written with the digits of a double: MariaDB reads them as one, and the
            shortest text of the largest single is beyond it.
    """

    hex_prefix: str = ""
    digits: bool = False
    wide: bool = False


def lines(values: Sequence[pa.Array], style: Style) -> memoryview:
    """Return rows as text. The arrays have the types of `Limit.type`, and the same length."""
    texts = [_text(array, style) for array in values]
    if sum(text.nbytes for text in texts) > _LARGE or any(t.type != pa.string() for t in texts):
        texts = [text.cast(pa.large_string()) for text in texts]
    parts: list[pa.Array | pa.Scalar] = []
    for text in texts:
        parts += [text, pa.scalar("\t", text.type)]
    kind = texts[0].type
    parts[-1:] = [pa.scalar("\n", kind), pa.scalar("", kind)]  # the last part stands between all
    joined = pc.binary_join_element_wise(*parts, null_handling="replace", null_replacement="\\N")
    return _whole(joined)


def _whole(joined: pa.Array) -> memoryview:
    """Return the rows of an array that was just made, without a copy: they lie side by side."""
    _, offsets, data = joined.buffers()
    ends = memoryview(offsets).cast("q" if joined.type == pa.large_string() else "i")
    return memoryview(data)[: ends[len(joined)]] if data is not None else memoryview(b"")


def _text(values: pa.Array, style: Style) -> pa.Array:
    kind = values.type
    if pa.types.is_string(kind):
        return _escaped(values)
    if pa.types.is_binary(kind):
        return _hex(values, style.hex_prefix)
    if pa.types.is_boolean(kind) and style.digits:
        values = values.cast(pa.int8())
    elif pa.types.is_float32(kind) and style.wide:
        values = values.cast(pa.float64())
    elif pa.types.is_timestamp(kind) and kind.tz:
        values = values.view(pa.timestamp(kind.unit))  # UTC, as the session's zone is
    return values.cast(pa.string())


def _escaped(values: pa.Array) -> pa.Array:
    data = data_of(values)
    for character, instead in _ESCAPES:
        if character.encode() in data:  # most columns have none: one look at all their bytes
            values = pc.replace_substring(values, character, instead)
    return values


def _hex(values: pa.Array, prefix: str) -> pa.Array:
    """Return bytes as hex digits: all at once, with the offsets doubled."""
    if values.offset:
        values = pa.concat_arrays([values, values.slice(0, 0)])  # a copy begins at 0
    validity, offsets, _ = values.buffers()
    data = data_of(values)
    starts = pa.Array.from_buffers(
        pa.int32(), len(values) + 1, [None, offsets], offset=values.offset
    )
    first = starts[0].as_py() if len(values) else 0
    doubled = pc.multiply(pc.subtract(starts.cast(pa.int64()), first), 2)
    digits = pa.py_buffer(data.hex().encode())
    text = pa.Array.from_buffers(
        pa.large_string(), len(values), [validity, doubled.buffers()[1], digits]
    )
    if not prefix:
        return text if len(digits) > _LARGE else text.cast(pa.string())
    joined = pc.binary_join_element_wise(
        pa.scalar(prefix, pa.large_string()), text, pa.scalar("", pa.large_string())
    )
    return joined if len(digits) > _LARGE else joined.cast(pa.string())
