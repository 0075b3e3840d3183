"""Frames of RocketMQ's remoting protocol. Pure.

A frame is its length (4 bytes), how its header is serialized (1 byte, 0 for JSON) and the header's
length (3 bytes), the header, the body. A request has a number, its answer the same one. A frame
that is none is not RocketMQ's: no length is believed beyond `MAX_FRAME_BYTES`.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import hmac
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

MAX_FRAME_BYTES: Final = 16 << 20
"""Bytes of a frame, as of RocketMQ's own clients (`com.rocketmq.remoting.frameMaxLength`)."""

_MAX_HEADER_BYTES: Final = 1 << 20
_RESPONSE: Final = 1
"""The flag of an answer. A frame without it is a request: brokers send some to groups."""

_VERSION: Final = 513
"""What we say that we speak: RocketMQ 5.5.0, by its own count of versions."""


class Request(enum.IntEnum):
    """What is asked for."""

    PULL_MESSAGE = 11
    UPDATE_AND_CREATE_TOPIC = 17
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    GET_TOPIC_STATS_INFO = 202
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    SEND_BATCH_MESSAGE = 320


class Answer(enum.IntEnum):
    """Codes of answers that mean something of their own here."""

    SUCCESS = 0
    SYSTEM_BUSY = 2
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FLOW_CONTROL = 215


class ProtocolError(Exception):
    """Bytes that RocketMQ does not send."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer.

    Attributes:
        opaque: The number of its request.
        code: How it went; `Answer` has the codes that are known here.
        remark: A text for the user.
        fields: Further fields of the header.
        body: The body.
    """

    opaque: int
    code: int
    remark: str
    fields: Mapping[str, str]
    body: bytes

    def number(self, name: str) -> int:
        """Return a field that is a number.

        Raises:
            ProtocolError: it is not.
        """
        try:
            return int(self.fields[name])
        except (KeyError, ValueError):
            found = repr(self.fields.get(name))[:100]
            raise ProtocolError(f"the field {name!r} of an answer is {found}") from None


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs requests for brokers that ask who is there, as RocketMQ's `AclClientRPCHook` does."""

    access_key: str
    secret_key: str

    def sign(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the fields of a request with the user and the signature."""
        named = {**fields, "AccessKey": self.access_key}
        text = "".join(named[name] for name in sorted(named)).encode()
        digest = hmac.digest(self.secret_key.encode(), text + body, hashlib.sha1)
        return {**named, "Signature": base64.b64encode(digest).decode()}


def encode_request(
    code: Request, opaque: int, fields: Mapping[str, str], body: bytes, signer: Signer | None
) -> bytes:
    """Return the frame of a request."""
    header = {
        "code": int(code),
        "language": "PYTHON",
        "version": _VERSION,
        "opaque": opaque,
        "flag": 0,
        "extFields": dict(fields) if signer is None else signer.sign(fields, body),
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((struct.pack(">ii", 4 + len(text) + len(body), len(text)), text, body))


class FrameReader:
    """Makes answers of the bytes of a connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Response]:
        """Yield the answers that are complete with these bytes.

        Raises:
            ProtocolError: they are not RocketMQ's.
        """
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= 4:
                (length,) = struct.unpack_from(">i", self._buffer, at)
                if not 4 <= length <= MAX_FRAME_BYTES:
                    shown = bytes(self._buffer[at : at + 16])
                    raise ProtocolError(f"a frame has {length} bytes; it begins with {shown!r}")
                end = at + 4 + length
                if len(self._buffer) < end:
                    break
                frame = bytes(memoryview(self._buffer)[at + 4 : end])
                at = end
                response = parse_frame(frame)
                if response is not None:
                    yield response
        finally:
            del self._buffer[:at]


def parse_frame(frame: bytes) -> Response | None:
    """Return the answer of a frame without its length; None for a request.

    Raises:
        ProtocolError: it is neither.
    """
    (word,) = struct.unpack_from(">I", frame)
    kind, length = word >> 24, word & 0xFFFFFF
    if kind or length > len(frame) - 4 or length > _MAX_HEADER_BYTES:
        raise ProtocolError(f"the header of a frame has kind {kind} and {length} bytes")
    header = parse_json(frame[4 : 4 + length])
    if not isinstance(header, dict):
        raise ProtocolError("the header of a frame is not a JSON object")
    code, opaque, flag = map(header.get, ("code", "opaque", "flag"))
    fields = header.get("extFields") or {}
    if not (_is_number(code) and _is_number(opaque) and _is_number(flag)):
        raise ProtocolError("the header of a frame lacks code, opaque or flag")
    if not isinstance(fields, dict):
        raise ProtocolError("the fields of a header are not a JSON object")
    if not flag & _RESPONSE:
        return None
    return Response(
        opaque,
        code,
        str(header.get("remark") or "")[:1000],
        {name: str(value) for name, value in fields.items()},
        frame[4 + length :],
    )


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ProtocolError: it is none.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ProtocolError(f"{data[:60]!r} is not JSON") from None
