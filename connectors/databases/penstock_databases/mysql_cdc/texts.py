"""Texts and bytes of rows in the log. Pure, but for the character sets that a server tells of."""

from __future__ import annotations

import socket
import struct
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa

from penstock_databases.mysql_cdc.arena import Arena, Ints, Mask
from penstock_databases.mysql_cdc.binaryjson import json_text
from penstock_databases.mysql_cdc.events import corrupt

Decode = Callable[[bytes], str]
"""What makes text of bytes in a character set."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Values of any length.

    Attributes:
        prefix: Bytes in front that say the length.
        finish: What makes values of the bytes.
    """

    prefix: int
    finish: Callable[[pa.Array], pa.Array]
    skip: int = 0

    def values(self, arena: Arena, at: Ints, size: Ints, null: Mask | None) -> pa.Array:
        """Return the values that stand at places."""
        if self.skip:
            cut = np.minimum(size, self.skip)
            at, size = at + cut, size - cut
        return self.finish(arena.slices(at, size, null))


def as_bytes(values: pa.Array) -> pa.Array:
    """Return bytes as they are."""
    return values


def as_utf8(values: pa.Array) -> pa.Array:
    """Return text. What old servers let in and is no UTF-8 becomes U+FFFD."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return each(lambda data: data.decode("utf-8", "replace"))(values)


def each(decode: Callable[[bytes], str]) -> Callable[[pa.Array], pa.Array]:
    """Return what makes text of values one by one."""

    def finish(values: pa.Array) -> pa.Array:
        texts = [None if data is None else decode(data) for data in values.to_pylist()]
        return pa.array(texts, pa.string())

    return finish


def in_charset(decode: Decode) -> Callable[[pa.Array], pa.Array]:
    """Return what makes text of values in a character set that has ASCII in it.

    Values without any other character need no decoding: most, for most of such columns.
    """
    slow = each(decode)

    def finish(values: pa.Array) -> pa.Array:
        data = values.buffers()[2]
        if data is None or not (np.frombuffer(data, np.uint8) & 0x80).any():
            return values.cast(pa.string())
        return slow(values)

    return finish


def padded(size: int) -> Callable[[pa.Array], pa.Array]:
    """Return what gives BINARY its zeros at the end back: the log has it without."""

    def finish(values: pa.Array) -> pa.Array:
        return pa.array(
            [None if data is None else data.ljust(size, b"\0") for data in values.to_pylist()],
            pa.binary(),
        )

    return finish


def as_uuid(data: bytes) -> str:
    """Return a UUID as MariaDB writes it."""
    return str(uuid.UUID(bytes=data.ljust(16, b"\0")))


def as_inet6(data: bytes) -> str:
    """Return an address as MariaDB writes it: a single zero becomes `::`, too."""
    words = struct.unpack(">8H", data.ljust(16, b"\0"))
    runs = [(sum(1 for _ in run), zero) for zero, run in groupby(words, lambda word: word == 0)]
    gap = max((length for length, zero in runs if zero), default=0)
    start = 0
    for length, zero in runs:
        if zero and length == gap:
            break
        start += length
    if not start and (gap == 6 or (gap == 5 and words[5] == 0xFFFF)):
        return f"::{'ffff:' if gap == 5 else ''}{as_inet4(data.ljust(16, bytes(1))[12:])}"
    left, right = words[:start], words[start + gap :]
    texts = [":".join(f"{word:x}" for word in part) for part in (left, right)]
    return "::".join(texts) if gap else texts[0]


def as_inet4(data: bytes) -> str:
    """Return an address as MariaDB writes it."""
    return socket.inet_ntop(socket.AF_INET, data.ljust(4, b"\0"))


def as_json(values: pa.Array) -> pa.Array:
    """Return the text of MySQL's binary JSON."""
    return each(json_text)(values)


def inflating(finish: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    """Return what undoes MariaDB's compression of a column first."""

    def inflate(values: pa.Array) -> pa.Array:
        plain = [None if data is None else _inflated(data) for data in values.to_pylist()]
        return finish(pa.array(plain, pa.binary()))

    return inflate


def _inflated(data: bytes) -> bytes:
    """Undo zlib, with or without its header: one byte says, and how long the length is."""
    if not data or not data[0]:
        return data[1:]
    width, raw = data[0] & 7, bool(data[0] & 8)
    try:
        return zlib.decompress(data[1 + width :], -zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
    except zlib.error as error:
        raise corrupt(f"a compressed value cannot be read: {error}") from error


# ── enums and sets ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Enums:
    """Numbers of values, from 1; 0 is the value that was none, and reads as empty text."""

    width: int
    members: tuple[str, ...]

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the texts at places."""
        numbers = arena.little(at, self.width).astype(np.int64)
        numbers[numbers > len(self.members)] = 0
        texts = pa.array(["", *self.members], pa.string())
        return texts.take(pa.array(numbers, mask=null))


@dataclass(frozen=True, slots=True)
class Sets:
    """Bits of values, the first of them lowest."""

    width: int
    members: tuple[str, ...]

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the texts at places: members with commas between."""
        bits = arena.little(at, self.width)
        known, numbers = np.unique(bits, return_inverse=True)
        texts = pa.array([self._text(one) for one in known.tolist()], pa.string())
        return texts.take(pa.array(numbers.reshape(-1), mask=null))

    def _text(self, bits: int) -> str:
        return ",".join(text for place, text in enumerate(self.members) if bits >> place & 1)


# ── character sets ───────────────────────────────────────────────────────────────────────────────

UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
BYTES: Final = "binary"

_CODECS: Final = {
    "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be",
    "sjis": "shift_jis", "cp932": "cp932", "ujis": "euc_jp", "eucjpms": "euc_jp",
    "gbk": "gbk", "gb2312": "gb2312", "gb18030": "gb18030", "big5": "big5", "euckr": "euc_kr",
}  # fmt: skip
"""Character sets of several bytes. Those of one byte are asked of the server, which is exact."""


def multibyte(charset: str) -> Decode | None:
    """Return what decodes a character set of several bytes; None when nobody here knows it."""
    codec = _CODECS.get(charset)
    if codec is None:
        return None
    return lambda data: data.decode(codec, "replace")


def singlebyte(table: str) -> Decode:
    """Return what decodes a character set of one byte, from its 256 characters."""
    return lambda data: "".join(table[byte] for byte in data)


def has_ascii(charset: str) -> bool:
    """Return whether bytes below 128 are ASCII in a character set."""
    return charset not in {"ucs2", "utf16", "utf16le", "utf32", "swe7"}
