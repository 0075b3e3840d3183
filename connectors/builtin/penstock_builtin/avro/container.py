"""The file around Avro's records: a header with the schema, then blocks of records, each with its
count, its size and the file's mark. Pure.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

MAGIC: Final = b"Obj\x01"
SYNC: Final = 16
"""Bytes of the mark."""

UNPACKED_MOST: Final = 1 << 30
"""Bytes that a block may unpack to. What claims more is refused before there is memory for it."""

_HEADER_ITEMS_MOST: Final = 1000
"""Entries of a header. A number beyond it is noise that was taken for one."""


class CutOff(Exception):  # noqa: N818 - it is no error, but an answer
    """The bytes end in the middle of something."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself; `size` is where its first block begins."""

    schema: Any
    codec: str
    sync: bytes
    size: int


def number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the place after it."""
    value = shift = 0
    while shift < 70:  # ten bytes hold any number of 64 bits
        if at >= len(data):
            raise CutOff
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("a number has no end")


def encoded(value: int) -> bytes:
    """Return a number in as many bytes as it needs."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def parse_header(data: bytes) -> Header:
    """Return the header that data begins with.

    Raises:
        CutOff: more bytes are needed.
        ValueError: it is no header.
    """
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise ValueError("it does not begin as Avro files do")
    entries, at = _entries(data, len(MAGIC))
    if len(data) < at + SYNC:
        raise CutOff
    if "avro.schema" not in entries:
        raise ValueError("its header has no schema")
    codec = entries.get("avro.codec", b"null").decode("ascii", "replace")
    if codec not in _UNPACK:
        raise ValueError(f"its blocks are packed by {codec!r}, which is not known here")
    try:
        schema = json.loads(entries["avro.schema"])
    except RecursionError:
        raise ValueError("its schema is too deep") from None
    return Header(schema, codec, data[at : at + SYNC], at + SYNC)


def _entries(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    entries: dict[str, bytes] = {}
    while True:
        count, at = number(data, at)
        if not count:
            return entries, at
        if count < 0:
            _, at = number(data, at)
        if abs(count) > _HEADER_ITEMS_MOST:
            raise ValueError("its header is noise")
        for _ in range(abs(count)):
            name, at = _text(data, at)
            value, at = _text(data, at)
            entries[name.decode("utf-8", "replace")] = value


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = number(data, at)
    if length < 0:
        raise ValueError("its header is noise")
    if at + length > len(data):
        raise CutOff
    return data[at : at + length], at + length


def make_header(schema: Any, codec: str, sync: bytes) -> bytes:
    """Return the bytes of a header."""
    entries: Mapping[str, bytes] = {
        "avro.schema": json.dumps(schema, separators=(",", ":")).encode(),
        "avro.codec": codec.encode(),
    }
    body = b"".join(
        encoded(len(text)) + text
        for name, value in entries.items()
        for text in (name.encode(), value)
    )
    return MAGIC + encoded(len(entries)) + body + encoded(0) + sync


def make_block(records: bytes, count: int, codec: str, sync: bytes) -> bytes:
    """Return a block of records."""
    packed = _PACK[codec](records)
    return encoded(count) + encoded(len(packed)) + packed + sync


def unpack(data: bytes, codec: str) -> bytes:
    """Return the records of a block.

    Raises:
        ValueError: they cannot be unpacked, or are too many.
    """
    try:
        return _UNPACK[codec](data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
        raise ValueError(f"a block cannot be unpacked by {codec}: {error}") from error


def _bounded(decompress: Callable[[bytes, int], bytes]) -> Callable[[bytes], bytes]:
    def unpacked(data: bytes) -> bytes:
        out = decompress(data, UNPACKED_MOST + 1)
        if len(out) > UNPACKED_MOST:
            raise ValueError(f"a block unpacks to more than {UNPACKED_MOST} bytes")
        return out

    return unpacked


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def _snappy(data: bytes) -> bytes:
    packed = pa.compress(data, "snappy", asbytes=True)
    return bytes(packed) + zlib.crc32(data).to_bytes(4, "big")


def _unsnappy(data: bytes) -> bytes:
    size = shift = at = 0
    while at < 5 and at < len(data):  # snappy begins with the size, in at most five bytes
        size |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            break
    if size > UNPACKED_MOST:
        raise ValueError(f"a block unpacks to more than {UNPACKED_MOST} bytes")
    records = bytes(pa.decompress(data[:-4], size, "snappy", asbytes=True)) if size else b""
    if zlib.crc32(records).to_bytes(4, "big") != data[-4:]:
        raise ValueError("the checksum of a block is wrong")
    return records


def _zstd(data: bytes, most: int) -> bytes:
    return bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(most))


_PACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": lambda data: bytes(pa.compress(data, "zstd", asbytes=True)),
    "bzip2": bz2.compress,
}
_UNPACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": _bounded(lambda data, most: zlib.decompressobj(-15).decompress(data, most)),
    "snappy": _unsnappy,
    "zstandard": _bounded(_zstd),
    "bzip2": _bounded(lambda data, most: bz2.BZ2Decompressor().decompress(data, most)),
    "xz": _bounded(lambda data, most: lzma.LZMADecompressor().decompress(data, most)),
}
