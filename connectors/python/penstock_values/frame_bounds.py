"""Refuses frames that would become too large, before they are decoded: 10 kB can become 300 MB.

Arrow trusts a message: it allocates the size that a compressed buffer declares, and columns without
buffers may have any number of rows. This module reads the few size fields of the flatbuffer in
front of each body (Arrow's Message.fbs), and checks every offset against the bytes that are there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

MAX_ROWS: Final = 1 << 20
"""Rows of a batch. Columns may cost nothing in a frame (nulls) and 16 bytes a row in Spark."""

MAX_DECOMPRESSED_BYTES: Final = 64 << 20
"""Bytes that a compressed batch may become. Uncompressed data may be larger: the host requests
batches of 4 MiB, so a larger one is a single large row, which compression does not help."""

_CONTINUATION: Final = 0xFFFFFFFF
_SCHEMA: Final = 1
_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_MAX_MESSAGES: Final = 100_000
_NOT_COMPRESSED: Final = -1


class MalformedFrameError(ValueError):
    """A frame is cut short or points outside of itself; the text has the place."""


class FrameTooLargeError(ValueError):
    """A frame declares more than is allowed; the text has the number and the bound."""


@dataclass(frozen=True, slots=True)
class DeclaredSize:
    """The sizes of all messages of a frame together."""

    rows: int
    values: int
    """Values of all columns, at all depths."""
    bytes: int
    """Bytes of all bodies, decompressed."""
    compressed: bool


def read_declared_size(data: bytes) -> DeclaredSize:
    """Return the sizes that a frame of record and dictionary batches declares. The rows are those
    of the record batch.

    Raises:
        MalformedFrameError: it is cut short, or points outside of itself.
    """
    rows = values = size = 0
    compressed = False
    try:
        for table, kind, body in _messages(memoryview(data)):
            batch = table.table(1) if kind == _DICTIONARY_BATCH else table
            rows = batch.int64(0)
            counts = [length for length, _nulls in batch.pairs(1)]
            if rows < 0 or any(count < 0 for count in counts):
                raise MalformedFrameError("a negative number of values")
            is_compressed = batch.has(3)
            values += sum(counts)
            size += _decompressed_bytes(batch, body) if is_compressed else len(body)
            compressed |= is_compressed
    except struct.error:
        raise MalformedFrameError("an offset outside of the frame") from None
    return DeclaredSize(rows, values, size, compressed)


def check_frame(data: bytes) -> None:
    """Refuse an Arrow frame that would become too large.

    Raises:
        MalformedFrameError: its sizes cannot be read.
        FrameTooLargeError: it becomes larger than is allowed.
    """
    size = read_declared_size(data)
    if size.rows > MAX_ROWS:
        raise FrameTooLargeError(f"{size.rows} rows, {MAX_ROWS} are allowed")
    if size.compressed and size.bytes > max(MAX_DECOMPRESSED_BYTES, len(data)):
        raise FrameTooLargeError(
            f"{size.bytes} bytes out of {len(data)}, {MAX_DECOMPRESSED_BYTES} are allowed: "
            "send larger rows uncompressed"
        )
    # a value takes one bit at least, except in columns without buffers, which have one a row
    if size.values > 8 * max(size.bytes, len(data)) + MAX_ROWS:
        raise FrameTooLargeError(f"{size.values} values in {size.bytes} bytes")


def check_json_lines(data: bytes, schema: pa.Schema) -> None:
    """Refuse JSON lines that would become too large: a line of two bytes fills all columns of a
    row.

    Raises:
        FrameTooLargeError: it becomes larger than is allowed.
    """
    rows = data.count(b"\n") + 1
    if rows > MAX_ROWS + 1:
        raise FrameTooLargeError(f"{rows} rows, {MAX_ROWS} are allowed")
    size = rows * sum(_min_row_bytes(type_) for type_ in schema.types)
    if size > max(MAX_DECOMPRESSED_BYTES, len(data)):
        raise FrameTooLargeError(
            f"{size} bytes out of {len(data)}, {MAX_DECOMPRESSED_BYTES} are allowed"
        )


def _min_row_bytes(type_: pa.DataType) -> int:
    """Return the bytes that a column takes for a row, even a null."""
    try:
        return type_.bit_width // 8 or 1
    except ValueError:  # no fixed width: the offset counts
        return 4


class _Table:
    """A table of a flatbuffer, whose fields have numbers."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        (back,) = struct.unpack_from("<i", data, _checked(at))
        self._vtable = _checked(at - back)
        (self._size,) = struct.unpack_from("<H", data, self._vtable)

    def has(self, field: int) -> bool:
        return self._offset(field) != 0

    def byte(self, field: int) -> int:
        offset = self._offset(field)
        return int(self._data[offset]) if offset and offset < len(self._data) else 0

    def int64(self, field: int) -> int:
        offset = self._offset(field)
        return int(struct.unpack_from("<q", self._data, offset)[0]) if offset else 0

    def table(self, field: int) -> _Table:
        return _Table(self._data, self._follow(field))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of structs of two int64, as field nodes and buffers are."""
        if not self.has(field):
            return []
        at = self._follow(field)
        (count,) = struct.unpack_from("<I", self._data, at)
        if at + 4 + 16 * count > len(self._data):
            raise MalformedFrameError("a list that is longer than the frame")
        return list(struct.iter_unpack("<qq", self._data[at + 4 : at + 4 + 16 * count]))

    def _offset(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._vtable + entry)
        return self._at + offset if offset else 0

    def _follow(self, field: int) -> int:
        offset = self._offset(field)
        if not offset:
            raise MalformedFrameError("a missing field")
        return offset + int(struct.unpack_from("<I", self._data, offset)[0])


def _messages(data: memoryview) -> Iterator[tuple[_Table, int, memoryview]]:
    """Yield the header, kind and body of each message, up to the record batch."""
    at = 0
    for _ in range(_MAX_MESSAGES):
        marker, length = struct.unpack_from("<II", data, at)
        if marker != _CONTINUATION:
            raise MalformedFrameError("bytes that are not an Arrow message, where one should begin")
        header = data[at + 8 : at + 8 + length]
        message = _Table(header, int(struct.unpack_from("<I", header, 0)[0]))
        body_length = message.int64(3)
        body_at = at + 8 + length
        if body_length < 0 or body_at + body_length > len(data):
            raise MalformedFrameError("a body that is longer than the frame")
        kind = message.byte(1)
        if kind == _SCHEMA:
            raise MalformedFrameError(
                "it begins with a schema; send the record batch message alone, without the schema "
                "and the end-of-stream marker"
            )
        if kind not in {_DICTIONARY_BATCH, _RECORD_BATCH}:
            raise MalformedFrameError(f"a message of kind {kind}")
        yield message.table(2), kind, data[body_at : body_at + body_length]
        if kind == _RECORD_BATCH:
            return
        at = body_at + body_length
    raise MalformedFrameError("dictionaries without a record batch after them")


def _decompressed_bytes(batch: _Table, body: memoryview) -> int:
    """Return the decompressed bytes of buffers: each begins with its own."""
    total = 0
    for offset, length in batch.pairs(2):
        if not length:
            continue
        if offset < 0 or length < 0 or offset + length > len(body):
            raise MalformedFrameError("a buffer outside of its body")
        (size,) = struct.unpack_from("<q", body, offset)
        if size < _NOT_COMPRESSED:
            raise MalformedFrameError("a buffer of negative size")
        total += length if size == _NOT_COMPRESSED else size
    return total


def _checked(at: int) -> int:
    if at < 0:
        raise MalformedFrameError("an offset outside of the frame")
    return at
