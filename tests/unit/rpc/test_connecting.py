"""A peer on a machine that is busy, or far away, takes its time to greet: it is not given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.etcd import calls as etcd
from penstock.rpc import channels
from penstock.rpc.server import Server
from penstock.spark.connector_io import plugin_calls

LATE = 0.5
"""Seconds that the first bytes of the server take: some round trips around the world."""

CHANNELS = {
    "services": channels._OPTIONS,
    "executors": plugin_calls._OPTIONS,
    "etcd": etcd._OPTIONS,
}


async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: float) -> None:
    """Pass bytes on, the first ones late."""
    try:
        while data := await reader.read(65536):
            await asyncio.sleep(late)
            late = 0.0
            writer.write(data)
    except OSError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def far_away(address: str) -> AsyncIterator[str]:
    """Yield an address behind which the server of another one is, far away."""
    host, _, port = address.rpartition(":")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(host, int(port))
        except OSError:  # the server has stopped, and the channel tries once more
            writer.close()
            return
        await asyncio.gather(passed(reader, there[1], 0), passed(there[0], writer, LATE))

    server = await asyncio.start_server(connected, "127.0.0.1")
    async with server:
        near, at = server.sockets[0].getsockname()
        yield f"{near}:{at}"


def checked(options: list[tuple[str, int]]) -> None:
    """Ask a server that is far away how it is."""

    async def main() -> None:
        server = Server("127.0.0.1:0", grace_s=0.1)
        async with (
            asyncio.timeout(60),
            server,
            far_away(server.address) as address,
            grpc.aio.insecure_channel(address, options) as channel,
        ):
            stub = health_pb2_grpc.HealthStub(channel)
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=30)

    asyncio.run(main())


@pytest.mark.timed("a connection has three seconds")
@pytest.mark.parametrize("options", CHANNELS.values(), ids=CHANNELS)
def test_who_greets_late_is_waited_for(options):
    checked(list(options))


def test_without_that_the_first_call_fails():
    """The twin: gRPC calls the time for a connection a backoff."""
    hasty = {**dict(channels._OPTIONS), "grpc.min_reconnect_backoff_ms": 100}
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        checked(list(hasty.items()))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
