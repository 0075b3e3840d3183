"""Messages as brokers store and send them, and batches as producers send them. Pure.

Pulled messages lie behind each other. Their fixed fields are taken out of the bytes for all of them
at once; bodies and properties are slices.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_rocketmq.frames import ProtocolError

MAX_BODY_BYTES: Final = 64 << 20
"""Bytes of a body that was compressed: a small one may become a very large one."""

MAX_DECODED_BYTES: Final = 64 << 20
"""Bytes of the bodies that are decoded at once; the last one may be beyond."""

MAX_PROPERTIES_BYTES: Final = 32_767 - 64
"""Bytes of a message's properties: their length has two bytes, and brokers may add a few."""

_MAGIC, _MAGIC_LONG_TOPIC = -626_843_481, -626_843_477
_COMPRESSED, _BORN_V6, _STORE_V6, _UNWRAP = 1, 1 << 4, 1 << 5, (1 << 6) | (1 << 7)
_V6_BYTES: Final = 12
"""Bytes that an address of version 6 has more than one of version 4."""

_FIXED: Final = np.dtype(
    [
        ("size", ">i4"),
        ("magic", ">i4"),
        ("crc", ">u4"),
        ("queue", ">i4"),
        ("flag", ">i4"),
        ("offset", ">i8"),
        ("physical", ">i8"),
        ("sys_flag", ">i4"),
        ("born", ">i8"),
    ]
)
_BODY_AT: Final = 84
"""Where the length of the body is, with addresses of version 4."""

_READ_BYTES: Final = 1 << 20
_SMALLEST: Final = _BODY_AT + 4 + 1 + 2
_INNER: Final = struct.Struct(">iiiii")
_CODECS: Final = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """Messages of one queue, in order.

    Attributes:
        offsets: Their offsets.
        born_ms: When their producers made them.
        bodies: Their bodies, None for one that is damaged.
        properties: Their properties, as stored.
        raw: Of those that are damaged, by index, the body as it is.
        rest: Further messages, which would have made too many bytes at once.
    """

    offsets: npt.NDArray[np.int64]
    born_ms: npt.NDArray[np.int64]
    bodies: list[bytes | None]
    properties: list[bytes]
    raw: dict[int, bytes]
    rest: bytes = b""


def decode_messages(data: bytes) -> StoredMessages:
    """Return pulled messages, up to `MAX_DECODED_BYTES` of bodies.

    Raises:
        ProtocolError: the bytes are none.
    """
    starts = _starts(data)
    matrix = np.frombuffer(data, np.uint8)
    fixed = np.ascontiguousarray(matrix[starts[:, None] + np.arange(_FIXED.itemsize)])
    fields = fixed.view(_FIXED)[:, 0]
    if not np.isin(fields["magic"], (_MAGIC, _MAGIC_LONG_TOPIC)).all():
        raise ProtocolError("a message has an unknown magic number")
    flags = fields["sys_flag"].astype(np.int64)
    moved = _V6_BYTES * (((flags & _BORN_V6) != 0).astype(np.int64) + ((flags & _STORE_V6) != 0))
    ends = starts + fields["size"]
    body_at = starts + _BODY_AT + moved + 4
    long_topic = fields["magic"] == _MAGIC_LONG_TOPIC
    bodies: list[bytes | None] = []
    properties: list[bytes] = []
    raw: dict[int, bytes] = {}
    total = 0
    places = zip(body_at.tolist(), ends.tolist(), long_topic.tolist(), strict=True)
    crcs, sys_flags = fields["crc"].tolist(), flags.tolist()
    for index, (at, end, is_long) in enumerate(places):
        body, found = _parts(data, at, end, is_long)
        properties.append(found)
        whole = _whole(body, crcs[index], sys_flags[index])
        if whole is None:
            raw[index] = body
        bodies.append(whole)
        total += len(whole or b"")
        if total >= MAX_DECODED_BYTES:
            break
    count = len(bodies)
    rest = data[starts[count] :] if count < len(starts) else b""
    offsets, born = (fields[name].astype(np.int64)[:count] for name in ("offset", "born"))
    stored = StoredMessages(offsets, born, bodies, properties, raw, rest)
    wrapped = (flags[:count] & _UNWRAP) == _UNWRAP
    return _unwrap(stored, wrapped) if wrapped.any() else stored


def _starts(data: bytes) -> npt.NDArray[np.int64]:
    starts, at, total = [], 0, len(data)
    read = struct.Struct(">i").unpack_from
    while at < total:
        (size,) = read(data, at) if at + 4 <= total else (0,)
        if size < _SMALLEST or at + size > total:
            raise ProtocolError(f"a message has {size} bytes, and {total - at} are there")
        starts.append(at)
        at += size
    return np.array(starts, np.int64)


def _parts(data: bytes, at: int, end: int, has_long_topic: bool) -> tuple[bytes, bytes]:
    """Return the body that begins at a place, and the properties; `end` is that of the message."""
    length = int.from_bytes(data[at - 4 : at], "big", signed=True)
    body_end = at + length
    width = 2 if has_long_topic else 1
    if length < 0 or body_end + width + 2 > end:
        raise ProtocolError(f"a body has {length} bytes, and the message ends before")
    properties_at = body_end + width + int.from_bytes(data[body_end : body_end + width], "big") + 2
    if properties_at > end:
        raise ProtocolError("the name of the topic is longer than the message")
    size = int.from_bytes(data[properties_at - 2 : properties_at], "big", signed=True)
    if size < 0 or properties_at + size > end:
        raise ProtocolError("the properties are longer than the message")
    return data[at:body_end], data[properties_at : properties_at + size]


def _whole(body: bytes, crc: int, sys_flag: int) -> bytes | None:
    """Return a body that is as its producer made it; None for a damaged one."""
    if zlib.crc32(body) & 0x7FFF_FFFF != crc:
        return None
    if not sys_flag & _COMPRESSED:
        return body
    return _decompress(body, _CODECS.get((sys_flag >> 8) & 7, ""))


def _decompress(body: bytes, codec: str) -> bytes | None:
    try:
        if codec == "zlib":
            inflater = zlib.decompressobj()
            whole = inflater.decompress(body, MAX_BODY_BYTES)
            return whole if inflater.eof else None
        if codec:
            with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
                parts, size = [], 0
                while size <= MAX_BODY_BYTES and (part := stream.read(_READ_BYTES)):
                    parts.append(part)
                    size += len(part)
                return b"".join(parts) if size <= MAX_BODY_BYTES else None
    except (zlib.error, OSError, pa.ArrowException):
        pass
    return None


def _unwrap(stored: StoredMessages, wrapped: npt.NDArray[np.bool_]) -> StoredMessages:
    """Return messages with those of batches that brokers store whole, one by one."""
    offsets, born = [], []
    bodies: list[bytes | None] = []
    properties: list[bytes] = []
    raw: dict[int, bytes] = {}
    for index, is_wrapped in enumerate(wrapped.tolist()):
        body, offset = stored.bodies[index], int(stored.offsets[index])
        inner = [(body, stored.properties[index])]
        if is_wrapped and body is not None:
            inner = list(decode_batch(body))
        if index in stored.raw:
            raw[len(bodies)] = stored.raw[index]
        for number, (one, found) in enumerate(inner):
            offsets.append(offset + number)
            born.append(int(stored.born_ms[index]))
            bodies.append(one)
            properties.append(found)
    numbers = np.array(offsets, np.int64), np.array(born, np.int64)
    return StoredMessages(*numbers, bodies, properties, raw, stored.rest)


def encode_message(body: bytes, properties: bytes) -> bytes:
    """Return a message of a batch."""
    size = _INNER.size + len(body) + 2 + len(properties)
    head = _INNER.pack(size, 0, 0, 0, len(body))
    return b"".join((head, body, len(properties).to_bytes(2, "big"), properties))


def decode_batch(data: bytes) -> Sequence[tuple[bytes, bytes]]:
    """Return bodies and properties of the messages of a batch.

    Raises:
        ProtocolError: the bytes are none.
    """
    found, at, total = [], 0, len(data)
    while at < total:
        if at + _INNER.size + 2 > total:
            raise ProtocolError("a batch ends within a message")
        size, *_, length = _INNER.unpack_from(data, at)
        end, body_end = at + size, at + _INNER.size + length
        if length < 0 or end > total or body_end + 2 > end:
            raise ProtocolError(f"a message of a batch has {size} bytes and a body of {length}")
        properties_at = body_end + 2
        properties_size = int.from_bytes(data[body_end:properties_at], "big", signed=True)
        if properties_size < 0 or properties_at + properties_size > end:
            raise ProtocolError("the properties are longer than the message")
        body = data[at + _INNER.size : body_end]
        found.append((body, data[properties_at : properties_at + properties_size]))
        at = end
    return found
