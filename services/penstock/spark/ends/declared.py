"""What an Arrow frame declares, read before it is decoded: one of 10 kB can become 300 MB.

Arrow believes a message: it allocates what a compressed buffer says it becomes, and columns without
buffers may have any number of rows. Only the few fields that say how much are read here, of the
flatbuffer in front of each body (Arrow's Message.fbs), with every place checked against the bytes
that are there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

MOST_ROWS: Final = 1 << 20
"""Rows of a batch. Columns may cost nothing in a frame (nulls) and 16 bytes a row in Spark."""

MOST_INFLATED: Final = 64 << 20
"""Bytes that a compressed batch may become; what is not compressed may be larger. Batches of
4 MiB are asked for, so a larger one is a single large row, which is better sent as it is."""

_CONTINUATION: Final = 0xFFFFFFFF
_SCHEMA: Final = 1
_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_MOST_MESSAGES: Final = 100_000
_NOT_COMPRESSED: Final = -1


class UndeclaredError(ValueError):
    """The frame is not what it says; the text says where."""


class TooMuchError(ValueError):
    """The frame declares more than is allowed; the text says what."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What all messages of a frame come to."""

    rows: int
    values: int
    """Values of all columns, at all depths."""
    bytes: int
    """Of all bodies, decompressed."""
    compressed: bool


def declared(data: bytes) -> Declared:
    """Return what a frame of record and dictionary batches declares; the rows are the last one's.

    Raises:
        UndeclaredError: it is cut short, or points outside of itself.
    """
    rows = values = size = 0
    compressed = False
    try:
        for table, kind, body in _messages(memoryview(data)):
            batch = table.table(1) if kind == _DICTIONARY_BATCH else table
            rows = batch.int64(0)
            counts = [length for length, _nulls in batch.pairs(1)]
            if rows < 0 or any(count < 0 for count in counts):
                raise UndeclaredError("a negative number of values")
            packed = batch.has(3)
            values += sum(counts)
            size += _inflated(batch, body) if packed else len(body)
            compressed |= packed
    except struct.error:
        raise UndeclaredError("a place outside of the frame") from None
    return Declared(rows, values, size, compressed)


def check(data: bytes) -> None:
    """Refuse an Arrow frame that would become too large.

    Raises:
        UndeclaredError: it cannot be read.
        TooMuchError: it becomes more than is allowed.
    """
    found = declared(data)
    if found.rows > MOST_ROWS:
        raise TooMuchError(f"{found.rows} rows, {MOST_ROWS} are allowed")
    if found.compressed and found.bytes > max(MOST_INFLATED, len(data)):
        raise TooMuchError(
            f"{found.bytes} bytes out of {len(data)}, {MOST_INFLATED} are allowed: send rows that "
            "are larger uncompressed"
        )
    # a value takes a bit at least, but those of columns without buffers, one a row
    if found.values > 8 * max(found.bytes, len(data)) + MOST_ROWS:
        raise TooMuchError(f"{found.values} values in {found.bytes} bytes")


def check_lines(data: bytes, schema: pa.Schema) -> None:
    """Refuse JSON lines that would become too large: a line of two bytes is a row of all columns.

    Raises:
        TooMuchError: it becomes more than is allowed.
    """
    rows = data.count(b"\n") + 1
    if rows > MOST_ROWS + 1:
        raise TooMuchError(f"{rows} rows, {MOST_ROWS} are allowed")
    size = rows * sum(_least_bytes(type_) for type_ in schema.types)
    if size > max(MOST_INFLATED, len(data)):
        raise TooMuchError(f"{size} bytes out of {len(data)}, {MOST_INFLATED} are allowed")


def _least_bytes(type_: pa.DataType) -> int:
    """Return what a column takes for a row, be it null."""
    try:
        return type_.bit_width // 8 or 1
    except ValueError:  # of no fixed width: the offset
        return 4


class _Table:
    """A table of a flatbuffer: fields by number."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        (back,) = struct.unpack_from("<i", data, _inside(at))
        self._vtable = _inside(at - back)
        (self._size,) = struct.unpack_from("<H", data, self._vtable)

    def has(self, field: int) -> bool:
        return self._place(field) != 0

    def byte(self, field: int) -> int:
        place = self._place(field)
        return int(self._data[place]) if place and place < len(self._data) else 0

    def int64(self, field: int) -> int:
        place = self._place(field)
        return int(struct.unpack_from("<q", self._data, place)[0]) if place else 0

    def table(self, field: int) -> _Table:
        return _Table(self._data, self._follow(field))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of structs of two int64: nodes and buffers are such."""
        if not self.has(field):
            return []
        at = self._follow(field)
        (count,) = struct.unpack_from("<I", self._data, at)
        if at + 4 + 16 * count > len(self._data):
            raise UndeclaredError("a list that is longer than the frame")
        return list(struct.iter_unpack("<qq", self._data[at + 4 : at + 4 + 16 * count]))

    def _place(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._vtable + entry)
        return self._at + offset if offset else 0

    def _follow(self, field: int) -> int:
        place = self._place(field)
        if not place:
            raise UndeclaredError("a field that is not there")
        return place + int(struct.unpack_from("<I", self._data, place)[0])


def _messages(data: memoryview) -> Iterator[tuple[_Table, int, memoryview]]:
    """Yield the header of each message, its kind and its body, up to the record batch."""
    at = 0
    for _ in range(_MOST_MESSAGES):
        marker, length = struct.unpack_from("<II", data, at)
        if marker != _CONTINUATION:
            raise UndeclaredError("no Arrow message where one should begin")
        head = data[at + 8 : at + 8 + length]
        message = _Table(head, int(struct.unpack_from("<I", head, 0)[0]))
        body_length = message.int64(3)
        body_at = at + 8 + length
        if body_length < 0 or body_at + body_length > len(data):
            raise UndeclaredError("a body that is longer than the frame")
        kind = message.byte(1)
        if kind == _SCHEMA:
            raise UndeclaredError(
                "it begins with a schema; send the record batch message alone, without the schema "
                "and the end of a stream"
            )
        if kind not in {_DICTIONARY_BATCH, _RECORD_BATCH}:
            raise UndeclaredError(f"a message of kind {kind}")
        yield message.table(2), kind, data[body_at : body_at + body_length]
        if kind == _RECORD_BATCH:
            return
        at = body_at + body_length
    raise UndeclaredError("no rows after its dictionaries")


def _inflated(batch: _Table, body: memoryview) -> int:
    """Return what compressed buffers become: each begins with the size that it has then."""
    total = 0
    for offset, length in batch.pairs(2):
        if not length:
            continue
        if offset < 0 or length < 0 or offset + length > len(body):
            raise UndeclaredError("a buffer outside of its body")
        (size,) = struct.unpack_from("<q", body, offset)
        if size < _NOT_COMPRESSED:
            raise UndeclaredError("a buffer of negative size")
        total += length if size == _NOT_COMPRESSED else size
    return total


def _inside(at: int) -> int:
    if at < 0:
        raise UndeclaredError("a place outside of the frame")
    return at
