"""The client protocol of NATS: frames, headers of messages, subjects. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

MAX_FRAME_BYTES: Final = 65 << 20
"""Bytes of a message that is read: servers allow 64 MiB at most."""

_MAX_LINE_BYTES: Final = 1 << 20
"""Bytes of a line: that of INFO names all servers of a cluster."""

_VERSION: Final = b"NATS/1.0"
_HEADER_NAME: Final = re.compile(r"[!-9;-~]+")
"""Printable ASCII but for colon and space."""

_UNSAFE_IN_TOKEN: Final = re.compile(r"[\s\x00-\x1f\x7f*>]")


class ProtocolError(ValueError):
    """The other side does not speak NATS."""


class Frame(NamedTuple):
    """What a server sends.

    Attributes:
        kind: `MSG`, `PING`, `PONG`, `INFO`, `+OK` or `-ERR`.
        subject: That of a message.
        reply: Where it is answered, or acknowledged; empty: nowhere.
        headers: The bytes of its headers, or none.
        payload: Its payload; of `-ERR` and `INFO` the text behind.
    """

    kind: str
    subject: str = ""
    reply: str = ""
    headers: bytes = b""
    payload: bytes = b""


class FrameDecoder:
    """Makes frames of bytes as they come."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are whole now.

        Raises:
            ProtocolError: these are no frames of NATS.
        """
        self._data += data
        frames: list[Frame] = []
        at = 0
        while (end := self._data.find(b"\r\n", at)) >= 0:
            line = bytes(self._data[at:end])
            kind, _, rest = line.partition(b" ")
            word = kind.upper()
            if word in {b"MSG", b"HMSG"}:
                subject, reply, header_size, size = _sizes(rest, has_headers=word == b"HMSG")
                start, stop = end + 2, end + 2 + size
                if len(self._data) < stop + 2:
                    break
                headers = bytes(self._data[start : start + header_size])
                payload = bytes(self._data[start + header_size : stop])
                frames.append(Frame("MSG", subject, reply, headers, payload))
                at = stop + 2
                continue
            if word not in {b"PING", b"PONG", b"INFO", b"+OK", b"-ERR"}:
                raise ProtocolError(f"it sends {line[:40]!r}")
            frames.append(Frame(word.decode(), payload=rest.strip()))
            at = end + 2
        else:
            if len(self._data) - at > _MAX_LINE_BYTES:
                raise ProtocolError(f"a line has more than {_MAX_LINE_BYTES} bytes")
        del self._data[:at]
        return frames


def _sizes(rest: bytes, *, has_headers: bool) -> tuple[str, str, int, int]:
    """Return subject, reply, bytes of headers and all bytes of a message."""
    words = rest.decode(errors="replace").split()
    try:
        *names, first, last = words if has_headers else [*words[:-1], "0", words[-1]]
        subject, _, reply = (*names, "")[:3]
        header_size, size = int(first), int(last)
    except (ValueError, IndexError):
        raise ProtocolError(f"it sends a message without sizes: {rest[:40]!r}") from None
    if not 0 <= header_size <= size <= MAX_FRAME_BYTES:
        raise ProtocolError(f"it sends a message of {size} bytes")
    return subject, reply, header_size, size


def encode_publish(subject: str, payload: bytes, reply: str = "", headers: bytes = b"") -> bytes:
    """Return the frame that publishes a message."""
    where = f"{subject} {reply}" if reply else subject
    if headers:
        size = len(headers) + len(payload)
        return b"HPUB %s %d %d\r\n%s%s\r\n" % (
            where.encode(), len(headers), size, headers, payload
        )  # fmt: skip
    return b"PUB %s %d\r\n%s\r\n" % (where.encode(), len(payload), payload)


def encode_headers(headers: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the bytes of headers, or none where there are none."""
    lines = b"".join(b"%s: %s\r\n" % (name.encode(), value) for name, value in headers)
    return b"%s\r\n%s\r\n" % (_VERSION, lines) if lines else b""


def decode_headers(data: bytes) -> list[tuple[str, bytes]]:
    """Return the headers of a message."""
    found = []
    for line in data.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found.append((name.decode(errors="replace"), value.removeprefix(b" ")))
    return found


def status_of(data: bytes) -> tuple[int, str]:
    """Return the status that a server sends instead of a message, and its words; 0: there is
    none.
    """
    line = data.partition(b"\r\n")[0]
    code, _, words = line.removeprefix(_VERSION).strip().partition(b" ")
    return (int(code), words.decode(errors="replace")) if code.isdigit() else (0, "")


def problem_of_headers(headers: Sequence[tuple[str, bytes | None]]) -> str:
    """Return why headers cannot be sent; empty when they can."""
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name):
            return f"{name[:200]!r} is not printable ASCII without spaces and colons"
        if value and (b"\r" in value or b"\n" in value):
            return f"the value of {name[:200]!r} has a line break"
    return ""


def problem_of_subject(subject: str, *, is_filter: bool = False) -> str:
    """Return why a text is no subject, or no filter of subjects; empty when it is one."""
    tokens = subject.split(".")
    if not all(tokens):
        return "it has an empty token" if subject else "it is empty"
    if is_filter:
        tokens = ["x" if one == "*" else one for one in tokens]
        if tokens[-1] == ">":
            tokens[-1] = "x"
    if any(_UNSAFE_IN_TOKEN.search(one) for one in tokens):
        if is_filter:
            return "`*` is a whole token, `>` the last one, and there are no spaces"
        return "`*`, `>` and spaces cannot be in a subject"
    return ""


def matches(pattern: str, subject: str) -> bool:
    """Return whether a subject, or each subject of a filter, is one of a filter."""
    wanted, found = pattern.split("."), subject.split(".")
    for at, one in enumerate(wanted):
        if one == ">":
            return len(found) > at
        if at >= len(found) or found[at] == ">" or one not in ("*", found[at]):
            return False
    return len(found) == len(wanted)


def overlap(one: str, other: str) -> bool:
    """Return whether a subject can be of both filters."""
    for mine, its in zip(one.split("."), other.split("."), strict=False):
        if ">" in (mine, its):
            return True
        if mine != its and "*" not in (mine, its):
            return False
    return len(one.split(".")) == len(other.split("."))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message of a consumer is in its stream.

    Attributes:
        consumer: Name of the consumer.
        sequence: Its number in the stream.
        time_ns: When the stream got it.
        pending: Messages of the consumer behind it.
    """

    consumer: str
    sequence: int
    time_ns: int
    pending: int


def place_of(reply: str) -> Place | None:
    """Return what the subject of an acknowledgement says; None: it is none."""
    tokens = reply.split(".")
    if tokens[:2] != ["$JS", "ACK"] or len(tokens) < 9:
        return None
    # with 11 tokens or more, a domain and an account stand before the stream
    fields = tokens[2:9] if len(tokens) == 9 else tokens[4:11]
    try:
        _, consumer, _, sequence, _, time_ns, pending = fields
        return Place(consumer, int(sequence), int(time_ns), int(pending))
    except ValueError:
        return None


def parse_object(data: bytes) -> Mapping[str, Any]:
    """Return a JSON object.

    Raises:
        ProtocolError: it is none.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProtocolError(f"it sends {data[:40]!r} instead of a JSON object")
    return found
