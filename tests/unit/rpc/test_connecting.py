"""A peer on a machine that is busy, or far away, takes its time to greet: it is not given up."""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.etcd import calls as etcd
from penstock.rpc import channels
from penstock.rpc.server import Server
from penstock.spark.connector_io import plugin_calls
from support.cutting import CuttingProxy

LATE = 0.5
"""Seconds that the first bytes of the server take: some round trips around the world."""

CHANNELS = {
    "services": channels._OPTIONS,
    "executors": plugin_calls._OPTIONS,
    "etcd": etcd._OPTIONS,
}


def checked(options: list[tuple[str, int]]) -> None:
    """Ask a server that is far away how it is."""

    async def main() -> None:
        async with asyncio.timeout(60), Server("127.0.0.1:0", grace_s=0.1) as server:
            # not asyncio's: its transports would outlive the loop
            with CuttingProxy(int(server.address.rpartition(":")[2]), LATE) as far_away:
                address = f"127.0.0.1:{far_away.port}"
                async with grpc.aio.insecure_channel(address, options) as channel:
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
