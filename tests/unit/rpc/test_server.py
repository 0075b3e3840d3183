"""A server: health, reflection, errors as statuses, limits, drain, addresses."""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.api.config.v1 import config_service_pb2_grpc as api
from penstock.model.errors import ConfigError, FencedError
from penstock.rpc.channels import open_channel
from penstock.rpc.server import Server
from penstock.rpc.status import error_from

NAME = "penstock.api.config.v1.ConfigService"


class Service(api.ConfigServiceServicer):
    """Answers as a test wants."""

    def __init__(self):
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.watch_ended = asyncio.Event()

    async def GetConnector(self, request, context):
        match request.name:
            case "fenced":
                raise FencedError("offset.stale_epoch", "old", fix="stop")
            case "unexpected":
                raise RuntimeError("password=hunter2")
            case "slow":
                self.entered.set()
                await self.go.wait()
            case "abort":
                await context.abort(grpc.StatusCode.DATA_LOSS, "as it is")
        return pb.GetConnectorResponse(connector=pb.Connector(name=request.name))

    async def WatchConnectors(self, request, context):
        try:
            yield pb.WatchConnectorsResponse(revision=1)
            if request.after_revision == 1:
                return
            if request.after_revision == 2:
                raise FencedError("offset.stale_epoch", "old")
            await asyncio.Event().wait()
        finally:
            self.watch_ended.set()


@asynccontextmanager
async def serving(address, **settings):
    service = Service()
    server = Server(address, **settings)
    server.add(api.add_ConfigServiceServicer_to_server, service)
    async with server, asyncio.timeout(60), open_channel(server.address) as channel:
        yield server, service, channel


@pytest.fixture(params=["unix", "tcp"])
def address(request, tmp_path):
    """Both forms of an address."""
    return f"unix:{tmp_path}/run/s" if request.param == "unix" else "127.0.0.1:0"


def get(channel, name):
    return api.ConfigServiceStub(channel).GetConnector(pb.GetConnectorRequest(name=name))


def test_calls_health_and_reflection_are_answered_on_both_kinds_of_address(address):
    async def main():
        async with serving(address) as (server, _, channel):
            assert (await get(channel, "a")).connector.name == "a"
            assert not server.address.endswith(":0")
            health = health_pb2_grpc.HealthStub(channel)
            for name in ("", NAME):
                state = await health.Check(health_pb2.HealthCheckRequest(service=name))
                assert state.status == health_pb2.HealthCheckResponse.SERVING
            watched = health.Watch(health_pb2.HealthCheckRequest(service=NAME))
            assert await watched.read() == state
            watched.cancel()
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            stream = stub.ServerReflectionInfo()
            await stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            listed = (await stream.read()).list_services_response.service
            assert {NAME, "grpc.health.v1.Health"} <= {s.name for s in listed}
            await stream.done_writing()

    asyncio.run(main())


def test_an_error_arrives_as_itself(tmp_path):
    async def main():
        async with serving(f"unix:{tmp_path}/s") as (_, _, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await get(channel, "fenced")
            assert caught.value.code() is grpc.StatusCode.ABORTED
            back = error_from(caught.value)
            assert isinstance(back, FencedError)
            assert back.diagnostic.fix == "stop"

    asyncio.run(main())


def test_an_unexpected_error_leaks_nothing_and_can_be_found_in_the_log(tmp_path, caplog):
    async def main():
        async with serving(f"unix:{tmp_path}/s") as (_, _, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await get(channel, "unexpected")
            return caught.value

    with caplog.at_level(logging.ERROR):
        error = asyncio.run(main())
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "hunter2" not in str(error) + str(error_from(error))
    diagnostic = error_from(error).diagnostic
    assert diagnostic.code == "internal.unexpected"
    number = diagnostic.message.rpartition("number ")[2].rstrip(")")
    assert number in caplog.text
    assert "RuntimeError" in caplog.text


def test_a_status_that_a_method_chose_itself_stays(tmp_path):
    async def main():
        async with serving(f"unix:{tmp_path}/s") as (_, _, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await get(channel, "abort")
            assert caught.value.code() is grpc.StatusCode.DATA_LOSS

    asyncio.run(main())


def test_streams_end_and_fail_as_calls_do(tmp_path):
    async def main():
        async with serving(f"unix:{tmp_path}/s") as (_, _, channel):
            stub = api.ConfigServiceStub(channel)
            ended = stub.WatchConnectors(pb.WatchConnectorsRequest(after_revision=1))
            assert [a.revision async for a in ended] == [1]
            failing = stub.WatchConnectors(pb.WatchConnectorsRequest(after_revision=2))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                _ = [a async for a in failing]
            assert error_from(caught.value).code == "offset.stale_epoch"

    asyncio.run(main())


@pytest.mark.timed("draining does not wait for its whole grace")
def test_draining_ends_watches_at_once_and_finishes_calls_under_way(tmp_path):
    async def main():
        async with serving(f"unix:{tmp_path}/s", grace_s=20) as (server, service, channel):
            watch = api.ConfigServiceStub(channel).WatchConnectors(pb.WatchConnectorsRequest())
            assert (await watch.read()).revision == 1
            slow = asyncio.ensure_future(_result(get(channel, "slow")))
            await service.entered.wait()
            began = time.monotonic()
            stopping = asyncio.create_task(server.stop())
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await watch.read()
            assert error_from(caught.value).code == "rpc.draining"
            service.go.set()
            assert (await slow).connector.name == "slow"
            await stopping
            assert time.monotonic() - began < 10
            assert service.watch_ended.is_set()

    asyncio.run(main())


async def _result(call):
    return await call


def test_a_call_that_hangs_is_cut_after_the_grace(tmp_path):
    async def main():
        async with serving(f"unix:{tmp_path}/s", grace_s=0.1) as (server, service, channel):
            slow = asyncio.ensure_future(_result(get(channel, "slow")))
            await service.entered.wait()
            await server.stop()
            with pytest.raises(grpc.aio.AioRpcError):
                await slow

    asyncio.run(main())


def test_a_watcher_that_leaves_ends_its_watch(tmp_path):
    async def main():
        async with serving(f"unix:{tmp_path}/s") as (_, service, channel):
            watch = api.ConfigServiceStub(channel).WatchConnectors(pb.WatchConnectorsRequest())
            await watch.read()
            watch.cancel()
            await service.watch_ended.wait()

    asyncio.run(main())


def test_calls_over_the_bound_are_refused(tmp_path):
    async def main():
        async with serving(f"unix:{tmp_path}/s", max_concurrent_calls=1) as (_, service, channel):
            slow = asyncio.ensure_future(_result(get(channel, "slow")))
            await service.entered.wait()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await get(channel, "b")
            assert error_from(caught.value).code == "rpc.exhausted"
            service.go.set()
            await slow

    asyncio.run(main())


def test_a_message_over_the_limit_is_refused(tmp_path):
    async def main():
        async with serving(f"unix:{tmp_path}/s", max_message_bytes=1000) as (_, _, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await get(channel, "x" * 2000)
            assert error_from(caught.value).code == "rpc.exhausted"

    asyncio.run(main())


def test_an_address_that_is_taken_is_refused_and_stays_with_its_owner(address):
    async def main():
        async with serving(address) as (server, _, channel):
            with pytest.raises(ConfigError, match=r"rpc\.address_in_use") as caught:
                await Server(server.address).start()
            key = "" if server.address.startswith("unix:") else "listen"
            assert caught.value.diagnostic.config_path == key
            assert (await get(channel, "a")).connector.name == "a"

    asyncio.run(main())


def test_a_socket_that_a_crash_left_behind_is_replaced(tmp_path):
    path = tmp_path / "s"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()

    async def main():
        async with serving(f"unix:{path}") as (_, _, channel):
            assert (await get(channel, "a")).connector.name == "a"

    asyncio.run(main())


def test_a_socket_path_that_the_kernel_would_cut_is_refused(tmp_path):
    async def main():
        with pytest.raises(ConfigError, match=r"rpc\.path_too_long"):
            await Server(f"unix:{tmp_path}/{'x' * 120}").start()

    asyncio.run(main())
