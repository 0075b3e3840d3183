"""A proxy in front of a plugin, for `penstock plugin run`: calls at an address go to the plugin.

The host starts the process as always, with handshake and credential, so the proxy works for every
language. It adds the credential to the calls. The proxy answers reflection itself, for all services
of the protocol. It is for the machine of a developer: every client of the address may call
everything.
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
from penstock.plugin.process.connection import Connection

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
"""The services of a plugin, which reflection lists."""

_CLIENT_STREAMING: Final = frozenset(
    f"/{service.full_name}/{method.name}"
    for module in _MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if method.client_streaming
)


class PluginProxy:
    """Forwards calls to a plugin from `start` until `stop`. Does not own the plugin."""

    def __init__(self, connection: Connection) -> None:
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ]
        )
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self._server.add_generic_rpc_handlers((_ForwardHandler(connection),))

    async def start(self, address: str) -> int:
        """Listen at `address`; return the port.

        Raises:
            ConfigError: `plugin.cannot_listen`.
        """
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ConfigError(
                "plugin.cannot_listen",
                f"cannot listen on {address}: {error}",
                fix="Choose an address of this machine and a free port.",
            ) from None
        await self._server.start()
        return port

    async def stop(self) -> None:
        """Stop listening and cancel running calls."""
        await self._server.stop(0.2)


class _ForwardHandler(grpc.GenericRpcHandler):
    """Handles every method as a stream: on the wire a unary call is a stream of one message."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return the handler that forwards a method."""
        forward = partial(_forward_call, self._connection, handler_call_details.method)
        return grpc.stream_stream_rpc_method_handler(forward)


async def _forward_call(
    connection: Connection, method: str, requests: AsyncIterator[bytes], context: Any
) -> AsyncIterator[bytes]:
    # A unary request is sent as such: gRPC loses the response when a request stream is cut off.
    if method in _CLIENT_STREAMING:
        stub: Any = connection.channel.stream_stream(method)  # bytes in, bytes out
        call = stub(requests, metadata=connection.metadata)
    else:
        stub = connection.channel.unary_stream(method)
        call = stub(await anext(requests), metadata=connection.metadata)
    try:
        async for response in call:
            yield response
    except grpc.aio.AioRpcError as error:
        metadata = tuple(error.trailing_metadata() or ())
        await context.abort(error.code(), error.details() or "", metadata)
    finally:
        call.cancel()
