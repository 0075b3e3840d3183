"""A gRPC server of its own over HTTP/2 that looks at `:authority`, as servers in Rust do, and
resets a call whose authority it does not accept. Every other call is answered with SERVING.

gRPC's C core, Go and Node accept anything there, so that only such a server shows what a channel
sends. It reads the header blocks of gRPC's C core, which writes texts without Huffman's code.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from grpc_health.v1 import health_pb2

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING = 0, 1, 3, 4, 6
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_PROTOCOL_ERROR: Final = 1
_AUTHORITY: Final = 1
"""Index of `:authority` in HPACK's static table."""
_HOST: Final = re.compile(r"[A-Za-z0-9.\-_~]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
"""A host and a port of RFC 3986, without percent-encoding: what Rust's `http` accepts."""

_SERVING: Final = health_pb2.HealthCheckResponse(
    status=health_pb2.HealthCheckResponse.SERVING
).SerializeToString()


def is_host(authority: str) -> bool:
    """Whether an authority is a host, with or without a port."""
    return _HOST.fullmatch(authority) is not None


def authority_of(block: bytes) -> str:
    """Return `:authority` of a header block, empty when there is none."""
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:  # indexed, with its value
            _, at = _number(block, at, 7)
        elif first & 0xE0 == 0x20:  # another size of the table
            _, at = _number(block, at, 5)
        else:
            index, at = _number(block, at, 6 if first & 0x40 else 4)
            name = b":authority" if index == _AUTHORITY else b""
            if index == 0:
                name, at = _text(block, at)
            value, at = _text(block, at)
            if name == b":authority":
                return value.decode()
    return ""


@asynccontextmanager
async def serving(path: str, accepts: Callable[[str], bool] = is_host) -> AsyncIterator[None]:
    """Serve at the path of a unix socket; at the end all connections are closed."""
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(len(_PREFACE))
            writer.write(_frame(_SETTINGS, 0, 0))
            while True:
                head = await reader.readexactly(9)
                data = await reader.readexactly(int.from_bytes(head[:3]))
                _answer_frame(writer, head, data, accepts)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[asyncio.create_task(answer(reader, writer))] = writer

    server = await asyncio.start_unix_server(take, path)
    try:
        yield
    finally:
        server.close()
        for writer in connections.values():
            writer.close()
        await asyncio.gather(*connections)


def _answer_frame(
    writer: asyncio.StreamWriter, head: bytes, data: bytes, accepts: Callable[[str], bool]
) -> None:
    kind, flags, stream = head[3], head[4], int.from_bytes(head[5:])
    if kind in {_SETTINGS, _PING} and not flags & _ACK:
        writer.write(_frame(kind, _ACK, 0, data if kind == _PING else b""))
    elif kind == _HEADERS and accepts(authority_of(data)):
        content = b"\x88\x0f\x10\x10application/grpc"  # :status 200, content-type
        writer.write(_frame(_HEADERS, _END_HEADERS, stream, content))
        writer.write(_frame(_DATA, 0, stream, b"\0" + len(_SERVING).to_bytes(4) + _SERVING))
        trailers = b"\x00\x0bgrpc-status\x010"
        writer.write(_frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, trailers))
    elif kind == _HEADERS:
        writer.write(_frame(_RESET, 0, stream, _PROTOCOL_ERROR.to_bytes(4)))


def _frame(kind: int, flags: int, stream: int, data: bytes = b"") -> bytes:
    return len(data).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + data


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value, at = block[at] & most, at + 1
    shift = 0
    while value >= most:
        byte, at = block[at], at + 1
        value += (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return value, at


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    size, at = _number(block, at, 7)
    return block[at : at + size], at + size


async def serve_as_plugin(accepts: Callable[[str], bool] = is_host) -> None:
    """Shake hands as a plugin does, and serve until standard input ends."""
    path = f"{os.environ['PLUGIN_UNIX_SOCKET_DIR']}/s"
    async with serving(path, accepts):
        print(f"1|1|unix|{path}|grpc|", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve_as_plugin((lambda _: False) if "refuse" in sys.argv else is_host))
