"""`:authority` of calls to a unix socket is a host: strict servers of HTTP/2, as in Rust, reset
calls with another one.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.plugin.catalog.manifest import Manifest
from penstock.plugin.process.connection import Connection
from penstock.plugin.process.logs import Redactor
from penstock.plugin.process.startup import RemotePlugin
from penstock.rpc.channels import open_channel
from penstock.spark.connector_io import plugin_calls as executors
from penstock_kit.conformance.process import start_plugin_process
from support import http2

REQUEST = health_pb2.HealthCheckRequest(service="plugin")
SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def path():
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are too long for a socket
        yield f"{folder}/s"


async def status_over(channel):
    try:
        stub = health_pb2_grpc.HealthStub(channel)
        return (await stub.Check(REQUEST, timeout=60)).status
    finally:
        await channel.close()


def test_the_strict_server_resets_what_grpc_sends_by_itself(path):
    async def check():
        async with http2.serving(path):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await status_over(grpc.aio.insecure_channel(f"unix:{path}"))
        return error.value

    assert "RST_STREAM" in asyncio.run(check()).details()


def test_a_channel_between_services_has_a_host(path):
    async def check():
        async with http2.serving(path):
            return await status_over(open_channel(f"unix:{path}"))

    assert asyncio.run(check()) == SERVING


def test_a_channel_of_the_plugin_host_has_a_host(path):
    async def check():
        async with http2.serving(path):
            connection = Connection(
                "strict", f"unix:{path}", "", RemotePlugin("strict", f"unix:{path}"), Redactor()
            )
            try:
                return await connection.check_health(20)
            finally:
                await connection.close()

    assert asyncio.run(check()) == "SERVING"


def test_a_channel_of_an_executor_has_a_host(path):
    place = {"address": f"unix:{path}", "credential": ""}

    def call():
        with executors.plugin_channel(place) as channel:
            return health_pb2_grpc.HealthStub(channel).Check(REQUEST, timeout=60).status

    async def check():
        async with http2.serving(path):
            return await asyncio.to_thread(call)

    assert asyncio.run(check()) == SERVING


def test_a_channel_of_the_conformance_kit_has_a_host():
    program = Path(http2.__file__)
    manifest = Manifest("strict", "1", (sys.executable, str(program)), program.parent, ())

    async def check(runtime):
        async with start_plugin_process(manifest, Path(runtime)) as plugin:
            await plugin.connect()
            return (await plugin.health.Check(REQUEST, timeout=60)).status

    with tempfile.TemporaryDirectory() as runtime:
        assert asyncio.run(check(runtime)) == SERVING
