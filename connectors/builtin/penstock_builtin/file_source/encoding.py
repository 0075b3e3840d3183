"""Lines of other encodings than UTF-8: cut in their own bytes, decoded as UTF-8.

Offsets stay byte positions of the file. In nearly all encodings a byte 0x0A is a newline and
nothing else; UTF-16 and UTF-32 are the exceptions, and are cut at whole characters.
"""

from __future__ import annotations

import codecs
from dataclasses import replace
from typing import Final, Protocol

from penstock_builtin.file_source.chunk import Chunk
from penstock_builtin.file_source.cutting import Cut
from penstock_builtin.file_source.text import Decoded

_WIDE: Final = {"utf-16": 2, "utf-16-le": 2, "utf-16-be": 2, "utf-32": 4, "utf-32-le": 4,
                "utf-32-be": 4}  # fmt: skip
_MARKS: Final = {
    "utf-32": ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
    "utf-16": ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
}
_UNDECODABLE: Final = "penstock-undecodable"
"""What cannot be decoded becomes the byte 0xff, which UTF-8 never has: so the rule for lines that
are not UTF-8 is the rule for these lines, too."""


class Inner(Protocol):
    """Makes rows of UTF-8."""

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the rows, and those that could not be read."""


class EncodedDecoder:
    """Makes UTF-8 of chunks of another encoding, for the decoder behind it."""

    def __init__(self, inner: Inner, encoding: str) -> None:
        self._inner, self._encoding = inner, codecs.lookup(encoding).name

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the rows of a chunk."""
        name = self._encoding
        if name in _MARKS:
            name = endianness(name, chunk.beginning())
        data = as_utf8(chunk.data, name)
        if name in _WIDE and not chunk.start:
            data = data.removeprefix(codecs.BOM_UTF8)

        def beginning() -> bytes:
            return as_utf8(chunk.beginning(), name)

        utf8 = replace(chunk, space=bytearray(data), size=len(data), beginning=beginning)
        return self._inner.decode(utf8, dataset)


def as_utf8(data: bytes, encoding: str) -> bytes:
    """Return text of an encoding in UTF-8."""
    text = data.decode(encoding, _UNDECODABLE)
    return text.encode("utf-8", "surrogateescape")


def endianness(encoding: str, beginning: bytes) -> str:
    """Return UTF-16 or UTF-32 with the order of its bytes: what the file's mark says, else little
    endian.
    """
    known = (name for mark, name in _MARKS[encoding] if beginning.startswith(mark))
    return next(known, f"{encoding}-le")


def encoded_cut(inner: Cut, encoding: str) -> Cut:
    """Return a cut of blocks of an encoding, from one of UTF-8."""
    name = codecs.lookup(encoding).name
    return _wide_cut(inner, name, _WIDE[name]) if name in _WIDE else inner


def _wide_cut(inner: Cut, encoding: str, unit: int) -> Cut:
    """Cuts are made in UTF-8 and carried back: a byte 0x0A or 0x22 may be half of a character."""

    def cut(data: bytearray, size: int, start: int) -> int:
        block = bytes(memoryview(data)[: size - size % unit])
        order = _order_of(block, encoding, unit) if encoding in _MARKS else encoding
        text = bytearray(as_utf8(block, order))
        kept = inner(text, len(text), start)
        return len(text[:kept].decode("utf-8", "replace").encode(order, "replace")) if kept else 0

    return cut


def _order_of(block: bytes, encoding: str, unit: int) -> str:
    """Return the order of a block's bytes. Only a file's first block has a mark; what the others
    have is newlines, and a block without one is not cut anywhere.
    """
    big = "\n".encode(f"{encoding}-be")
    at = block.find(big)
    while at >= 0 and at % unit:
        at = block.find(big, at + 1)
    return f"{encoding}-be" if at >= 0 else f"{encoding}-le"


def _undecodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error(_UNDECODABLE, _undecodable)
