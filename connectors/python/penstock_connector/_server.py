"""The gRPC server of a plugin: its services, health and reflection, and its orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from penstock.api.connector.v1 import connector_service_pb2_grpc as connector_grpc
from penstock.api.connector.v1 import plugin_service_pb2_grpc as plugin_grpc
from penstock_connector import _changing, _reading, _writing
from penstock_connector._calls import CredentialCheck
from penstock_connector._connector import Connector
from penstock_connector._connectors import Connectors
from penstock_connector._control import ConnectorService, PluginService
from penstock_connector._errors import ConfigError
from penstock_connector._frames import MESSAGE_MOST
from penstock_connector._tracing import Tracing

_SERVICES: Final = (
    "penstock.api.connector.v1.PluginService",
    "penstock.api.connector.v1.ConnectorService",
    _reading.SERVICE,
    _writing.SERVICE,
    _changing.TRANSFORM,
    _changing.CONVERTER,
)

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_MOST),
    ("grpc.max_send_message_length", MESSAGE_MOST),
    ("grpc.so_reuseport", 0),  # two plugins must never share a port
)


class PluginServer:
    """Serves connectors from `start` until `drain`. Lives on one event loop.

    Args:
        classes: The connectors.
        name: Name of the plugin.
        version: Version of the plugin.
        credential: What callers must send; None lets everybody call.
    """

    def __init__(
        self,
        classes: Iterable[type[Connector[Any]]],
        *,
        name: str,
        version: str,
        credential: str | None,
    ) -> None:
        connectors = Connectors(classes)
        self.ending = asyncio.Event()
        self._reading = _reading.Reading(connectors)
        self._writing = _writing.Writing(connectors)
        self._changing = _changing.Changing(connectors)
        checks = () if credential is None else (CredentialCheck(credential),)
        self._server = grpc.aio.server(interceptors=(*checks, Tracing()), options=_OPTIONS)
        self._health = health.aio.HealthServicer()
        plugin = PluginService(connectors, name=name, version=version, shutdown=self._shut_down)
        plugin_grpc.add_PluginServiceServicer_to_server(plugin, self._server)
        control = ConnectorService(connectors)
        self._monitoring = control.monitoring
        connector_grpc.add_ConnectorServiceServicer_to_server(control, self._server)
        self._server.add_generic_rpc_handlers(
            (self._reading.handler(), self._writing.handler(), *self._changing.handlers())
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
        )

    async def start(self, address: str, tls: grpc.ServerCredentials | None = None) -> int:
        """Listen on `unix:/path` or `host:port`; return the port.

        Raises:
            ConfigError: `plugin.cannot_listen`.
        """
        try:
            if tls is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, tls)
        except RuntimeError as error:
            raise ConfigError(
                "plugin.cannot_listen",
                f"cannot listen on {address}: {error}",
                fix="Choose an address of this machine and a port that is free.",
            ) from None
        await self._server.start()
        for service in ("", "plugin", *_SERVICES):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        return port

    async def drain(self, grace: float) -> None:
        """Take no new work, end all tasks within the grace."""
        await self._health.enter_graceful_shutdown()
        self._monitoring.stop()
        await asyncio.gather(
            self._reading.drain(grace), self._writing.drain(grace), self._changing.drain()
        )

    async def stop(self) -> None:
        """Close the server; calls that still run are cut."""
        await self._server.stop(0.5)

    async def _shut_down(self, grace: float) -> None:
        await self.drain(grace)
        self.ending.set()
