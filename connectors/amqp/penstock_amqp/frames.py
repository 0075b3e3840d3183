"""Frames of STOMP 1.2 ↔ bytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

MAX_FRAME_BYTES: Final = 100 << 20
"""Bytes of the largest frame that is taken, as brokers have it (`maxFrameSize`)."""

_MAX_HEAD_BYTES: Final = 1 << 20
"""Bytes of a command and its headers."""

_COMPACT_BYTES: Final = 1 << 20
"""Bytes that were read and are dropped at once."""

_UNESCAPED: Final = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r", b"\\c": b":"}
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_COMMANDS: Final = frozenset({b"CONNECTED", b"MESSAGE", b"RECEIPT", b"ERROR"})


class ProtocolError(Exception):
    """Bytes that are no frame of a broker."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a broker. Of headers with one name, the first one counts (STOMP 1.2)."""

    command: str
    headers: Mapping[str, str]
    body: bytes = b""


def escape(text: str) -> bytes:
    """Return a name or a value of a header."""
    data = text.encode()
    if b"\\" in data or b"\n" in data or b"\r" in data or b":" in data:
        data = data.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
        data = data.replace(b"\r", b"\\r").replace(b":", b"\\c")
    return data


def encode_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """Return lines of headers."""
    return b"".join([b"%s:%s\n" % (escape(name), escape(value)) for name, value in headers])


def encode_frame(command: str, headers: Mapping[str, str]) -> bytes:
    """Return a frame without a body. Headers of CONNECT are not escaped (STOMP 1.2)."""
    if command == "CONNECT":
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items()).encode()
    else:
        lines = encode_headers(headers.items())
    return b"%s\n%s\n\x00" % (command.encode(), lines)


class FrameDecoder:
    """Makes frames of the bytes of a connection."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes, and return the frames that are whole now.

        Raises:
            ProtocolError: they are no frames, or one is too large.
        """
        self._data += data
        frames: list[Frame] = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        if self._at == len(self._data) or self._at > _COMPACT_BYTES:
            del self._data[: self._at]
            self._at = 0
        return frames

    def _next(self) -> Frame | None:
        data = self._data
        while self._at < len(data) and data[self._at] in b"\r\n\x00":  # heart-beats
            self._at += 1
        start = self._at
        if start == len(data):
            return None
        end, skip = data.find(b"\n\n", start), 2
        if (crlf := data.find(b"\n\r\n", start, end if end >= 0 else len(data))) >= 0:
            end, skip = crlf, 3
        if end < 0 or end - start > _MAX_HEAD_BYTES:
            self._require_head(start)
            return None
        command, headers = _parse_head(bytes(data[start:end]))
        body = end + skip
        length = headers.get("content-length")
        if length is None:
            finish = data.find(b"\x00", body)
            if finish < 0:
                self._require_size(len(data) - start)
                return None
        else:
            if not (length.isascii() and length.isdigit() and len(length) < 12):
                raise ProtocolError(f"`content-length` is {length[:40]!r}")
            finish = body + int(length)
            self._require_size(finish - start)
            if finish >= len(data):
                return None
            if data[finish] != 0:
                raise ProtocolError("a body does not end where its `content-length` says")
        self._at = finish + 1
        return Frame(command, headers, bytes(data[body:finish]))

    def _require_head(self, start: int) -> None:
        head = bytes(self._data[start : start + 10]).partition(b"\n")[0].rstrip(b"\r")
        if not any(one.startswith(head) for one in _COMMANDS):
            raise ProtocolError(f"{head!r} is no command of a broker")
        if len(self._data) - start > _MAX_HEAD_BYTES:
            raise ProtocolError(f"the headers have more than {_MAX_HEAD_BYTES} bytes")

    def _require_size(self, size: int) -> None:
        if size > MAX_FRAME_BYTES:
            raise ProtocolError(f"a frame has more than {MAX_FRAME_BYTES} bytes")


def _parse_head(head: bytes) -> tuple[str, dict[str, str]]:
    command, *lines = head.replace(b"\r\n", b"\n").rstrip(b"\r").split(b"\n")
    if command not in _COMMANDS:
        raise ProtocolError(f"{command[:40]!r} is no command of a broker")
    is_escaped = b"\\" in head and command != b"CONNECTED"
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise ProtocolError(f"{line[:40]!r} is no header")
        if is_escaped:
            name, value = _unescape(name), _unescape(value)
        headers.setdefault(name.decode(errors="replace"), value.decode(errors="replace"))
    return command.decode(), headers


def _unescape(data: bytes) -> bytes:
    if b"\\" not in data:
        return data
    return _ESCAPE.sub(lambda found: _UNESCAPED.get(found[0], found[0]), data)
