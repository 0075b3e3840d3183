"""Peers that begin and do not go on (X6): others are answered, and they are cut off in the end."""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

import asyncio
import contextlib
import struct
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.api.config.v1 import config_service_pb2_grpc as api
from penstock.rpc import channels, deadlines
from penstock.rpc.channels import open_channel
from penstock.rpc.server import Server
from penstock.rpc.status import error_from

SERVICE = b"/penstock.api.config.v1.ConfigService/"
UPLOAD = b"/test.Uploads/Upload"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes.fromhex("000000 04 00 00000000")
TAKEN = bytes.fromhex("000000 04 01 00000000")
HELLO = PREFACE + SETTINGS + TAKEN
PING, IS_ANSWER = 6, 1


def frame(kind, flags, stream, data):
    return (
        struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data
    )


def head(path):
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b"te", b"trailers")]
    fields += [(b":authority", b"x"), (b"content-type", b"application/grpc")]
    block = b"".join(b"\0%c%b%c%b" % (len(n), n, len(v), v) for n, v in sorted(fields))
    return frame(1, 4, 1, block)


DRIPS = frame(0, 0, 1, b"\0\0\0\0\x64" + b"\n\x62x")  # a message of 100 bytes begins
MUTE = {
    "nothing": b"",
    "half a preface": PREFACE[:9],
    "settings that are not taken": PREFACE + SETTINGS,
    "nobody there, no call": HELLO,
    "nobody there, a call": HELLO + head(SERVICE + b"GetConnector"),
    "nobody there, half a request": HELLO + head(SERVICE + b"GetConnector") + DRIPS,
}


class Service(api.ConfigServiceServicer):
    """Answers at once."""

    async def GetConnector(self, request, context):
        return pb.GetConnectorResponse(connector=pb.Connector(name=request.name))

    async def WatchConnectors(self, request, context):
        yield pb.WatchConnectorsResponse(revision=request.after_revision)


class Uploads:
    """A service that takes a stream and answers when its end has come; none of ours does."""

    async def upload(self, requests, context):
        async for _ in requests:
            pass
        return b""


def add_uploads(servicer, server):
    handler = grpc.stream_unary_rpc_method_handler(servicer.upload)
    generic = grpc.method_handlers_generic_handler("test.Uploads", {"Upload": handler})
    server.add_generic_rpc_handlers((generic,))


@asynccontextmanager
async def serving():
    server = Server("127.0.0.1:0", grace_s=0.1)
    server.add(api.add_ConfigServiceServicer_to_server, Service())
    server.add(add_uploads, Uploads())
    async with server, asyncio.timeout(60), open_channel(server.address) as channel:
        yield server, channel


async def answered(channel):
    """Ask until it is answered: where limits are short, a pause of the machine cuts us off too."""
    stub = api.ConfigServiceStub(channel)
    while True:
        with contextlib.suppress(grpc.aio.AioRpcError):
            asked = stub.GetConnector(pb.GetConnectorRequest(name="a"), wait_for_ready=True)
            return (await asked).connector.name == "a"


@asynccontextmanager
async def connected(server, sent):
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def cut_off(reader):
    """Return when the server has closed the connection."""
    with contextlib.suppress(ConnectionResetError):
        while await reader.read(65536):
            pass


async def told(reader, writer, drip=b""):
    """Answer what the server asks, and drip, until it ends the call; returns its words."""
    while True:
        data = await reader.readexactly(9)
        kind, flags = data[3], data[4]
        body = await reader.readexactly(int.from_bytes(data[:3], "big"))
        if kind == PING and not flags & IS_ANSWER:
            writer.write(frame(PING, IS_ANSWER, 0, body) + drip)
        if b"grpc-status" in body:
            return body


@pytest.mark.parametrize("sent", MUTE.values(), ids=MUTE)
def test_a_peer_that_falls_silent_is_cut_off(sent, monkeypatch):
    monkeypatch.setattr(channels, "PEER_TIMEOUT_MS", 300)
    monkeypatch.setattr(channels, "KEEPALIVE_MS", 600)

    async def main():
        async with serving() as (server, channel), connected(server, sent) as (reader, _):
            assert await answered(channel)
            await cut_off(reader)
            assert await answered(channel)

    asyncio.run(main())


@pytest.mark.parametrize(
    "path",
    [
        *(SERVICE + name for name in (b"GetConnector", b"WatchConnectors")),
        *(UPLOAD, b"/grpc.health.v1.Health/Check"),
    ],
)
@pytest.mark.parametrize("drip", [b"", frame(0, 0, 1, b"x")], ids=["half", "drips"])
def test_a_request_that_does_not_end_is_told_so(path, drip, monkeypatch):
    monkeypatch.setattr(deadlines, "FIRST_MESSAGE_TIMEOUT_S", 0.5)
    monkeypatch.setattr(channels, "KEEPALIVE_MS", 50)  # what drips does so when it is asked

    async def main():
        async with serving() as (server, channel):
            sent = HELLO + head(path) + DRIPS
            async with connected(server, sent) as (reader, writer):
                assert await answered(channel)
                assert b"first message of" in await told(reader, writer, drip)
                assert await answered(channel)

    asyncio.run(main())


def test_a_stream_that_never_sends_is_told_so(monkeypatch):
    monkeypatch.setattr(deadlines, "FIRST_MESSAGE_TIMEOUT_S", 0.3)

    async def main():
        async with serving() as (_, channel):
            call = channel.stream_unary(UPLOAD.decode())()
            assert await answered(channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert error_from(caught.value).diagnostic.code == "deadline.exceeded"

    asyncio.run(main())


def test_a_call_without_a_request_is_told_so():
    async def main():
        async with serving() as (_, channel):
            call = channel.stream_unary(
                f"/{health_pb2.DESCRIPTOR.package}.Health/Check",
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(iter(()))
            assert error_from(caught.value).diagnostic.code == "rpc.no_request"

    asyncio.run(main())
