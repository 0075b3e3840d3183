"""A peer that speaks RocketMQ's remoting protocol as a test wants: right, wrong, late, or not at
all. What a real broker does is tested with one (`support.rocketmq`).

    with Peer(handler) as peer:
        peer.address
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

Handler = Callable[[int, Mapping[str, str], bytes], "bytes | Answered | None"]

_V4 = b"\x7f\x00\x00\x01" + b"\x00\x00\x2a\x9f"
_V6 = bytes(16) + b"\x00\x00\x2a\x9f"


class Answered:
    """An answer of a handler: code, body, fields of the header."""

    def __init__(self, code: int = 0, body: bytes = b"", **fields: object) -> None:
        self.code, self.body = code, body
        self.fields = {name: str(value) for name, value in fields.items()}


def answer(
    opaque: int = 1, code: int = 0, body: bytes = b"", flag: int = 1, **fields: object
) -> bytes:
    """Return the frame of an answer, as a broker writes it."""
    header = json.dumps(
        {
            "code": code, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 513,
            "serializeTypeCurrentRPC": "JSON", "remark": None, "extFields": fields,
        }
    ).encode()  # fmt: skip
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def stored(
    body: bytes,
    properties: bytes = b"",
    offset: int = 0,
    flags: int = 0,
    topic: bytes = b"t",
    born: int = 1_700_000_000_123,
) -> bytes:
    """Return a message as a broker stores it."""
    rest = b"".join(
        [
            struct.pack(">IiiqqIq", zlib.crc32(body) & 0x7FFFFFFF, 3, 0, offset, 99, flags, born),
            _V6 if flags & 16 else _V4,
            struct.pack(">q", born + 1),
            _V6 if flags & 32 else _V4,
            struct.pack(">iq", 0, 0),
            struct.pack(">i", len(body)) + body,
            struct.pack(">h" if len(topic) > 127 else ">b", len(topic)) + topic,
            struct.pack(">h", len(properties)) + properties,
        ]
    )
    magic = -626843477 if len(topic) > 127 else -626843481
    return struct.pack(">ii", len(rest) + 8, magic) + rest


def route(address: str, queues: int = 1, broker: str = "b") -> Answered:
    """Return a name server's answer: a topic with queues at one broker."""
    found: dict[str, Any] = {
        "brokerDatas": [{"brokerName": broker, "cluster": "c", "brokerAddrs": {"0": address}}],
        "queueDatas": [
            {
                "brokerName": broker, "readQueueNums": queues, "writeQueueNums": queues,
                "perm": 6, "topicSysFlag": 0,
            }
        ],
    }  # fmt: skip
    return Answered(body=json.dumps(found).encode())


class Peer:
    """Listens on a port of 127.0.0.1; a thread serves each connection. A handler that returns bytes
    sends these as they are; None sends nothing; an error closes the connection.
    """

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._handler, self._tls = handler, tls
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.accepted = 0

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        """Begin to listen."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections, and listen no more."""
        self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._connections.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.accepted += 1
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ConnectionError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                while head := stream.read(8):
                    length, header_length = struct.unpack(">ii", head)
                    rest = stream.read(length - 4)
                    header = json.loads(rest[:header_length])
                    said = self._handler(header["code"], header["extFields"], rest[header_length:])
                    if isinstance(said, Answered):
                        said = answer(header["opaque"], said.code, said.body, **said.fields)
                    if said is not None:
                        connection.sendall(said)
