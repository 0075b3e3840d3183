"""A plugin of this machine at an address, for people: whatever is called there is passed on to it.

The process is started as always, with its handshake and its credential, so this works for every
language; calls get the credential on the way. Reflection is answered here, for all that the
protocol has. It is for the author's own machine: who reaches the address may call everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from penstock.api.connector.v1 import (
    connector_service_pb2,
    plugin_service_pb2,
    sink_service_pb2,
    source_service_pb2,
)
from penstock.model.errors import ConfigError
from penstock.plugin.process.connection import Link

_MODULES: Final = (
    plugin_service_pb2,
    connector_service_pb2,
    source_service_pb2,
    sink_service_pb2,
)
SERVICES: Final = tuple(
    service.full_name
    for module in _MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
)
"""What reflection tells of: the services of a plugin."""

_TAKE_STREAMS: Final = frozenset(
    f"/{service.full_name}/{method.name}"
    for module in _MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if method.client_streaming
)


class Serving:
    """Passes calls on from `start` until `stop`. The plugin is its maker's."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ]
        )
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self._server.add_generic_rpc_handlers((_PassOn(link),))

    async def start(self, address: str) -> int:
        """Listen; return the port.

        Raises:
            ConfigError: `plugin.cannot_listen`.
        """
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ConfigError(
                "plugin.cannot_listen",
                f"cannot listen on {address}: {error}",
                fix="Choose an address of this machine and a port that is free.",
            ) from None
        await self._server.start()
        return port

    async def stop(self) -> None:
        """Cut what is under way."""
        await self._server.stop(0.2)


class _PassOn(grpc.GenericRpcHandler):
    """On the wire one message is a stream of one: one shape serves all who call."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return what passes a method on."""
        pass_on = partial(_pass_on, self._link, handler_call_details.method)
        return grpc.stream_stream_rpc_method_handler(pass_on)


async def _pass_on(
    link: Link, method: str, requests: AsyncIterator[bytes], context: Any
) -> AsyncIterator[bytes]:
    # A single request is sent as such: gRPC loses the answer when a stream of requests is cut off.
    if method in _TAKE_STREAMS:
        stub: Any = link.channel.stream_stream(method)  # bytes in, bytes out
        call = stub(requests, metadata=link.metadata)
    else:
        stub = link.channel.unary_stream(method)
        call = stub(await anext(requests), metadata=link.metadata)
    try:
        async for answer in call:
            yield answer
    except grpc.aio.AioRpcError as error:
        metadata = tuple(error.trailing_metadata() or ())
        await context.abort(error.code(), error.details() or "", metadata)
    finally:
        call.cancel()
