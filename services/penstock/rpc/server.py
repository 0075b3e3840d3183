"""A gRPC server on a unix socket or host:port: health, reflection, limits, graceful drain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from penstock.rpc.address import address_in_use, is_unix, prepare_socket, socket_path
from penstock.rpc.admission import Admission
from penstock.rpc.channels import MAX_MESSAGE_BYTES, server_options
from penstock.rpc.interceptor import Statuses
from penstock.rpc.mutual import Mutual
from penstock.rpc.promptness import Promptness

log = logging.getLogger(__name__)

_S = TypeVar("_S")

MOST_CALLS = 2000
"""Calls at once (invariant 12). Fewer refuse a large fleet of workers, each with a few watches;
more let a flood take the memory."""

GRACE = 5.0
"""Seconds that calls under way get when the server ends. Less cuts commits off that a disk is slow
with; more delays every restart by a call that hangs."""


class Server:
    """One listening server. `async with Server(address) as server`, after `add`ing services.

    Owned by whoever made it; ends once, after which it cannot be started again.
    """

    def __init__(
        self,
        address: str,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        most_calls: int = MOST_CALLS,
        grace: float = GRACE,
        tls: Mutual | None = None,
    ) -> None:
        """`address` is `unix:/path` or `host:port`; port 0 lets the kernel choose. With `tls`, who
        may call what follows from certificates; without, whoever reaches the address may.
        """
        self.address = address
        self._grace, self._tls = grace, tls
        self._draining = asyncio.Event()
        self._health = health.aio.HealthServicer()
        self._names: list[str] = []
        self._listening = False
        self._server = grpc.aio.server(
            interceptors=[Promptness(), Statuses(self._draining), *([Admission()] if tls else [])],
            options=server_options(max_message_bytes),
            maximum_concurrent_rpcs=most_calls,
        )

    def add(self, register: Callable[[_S, Any], None], servicer: _S) -> None:
        """Serve a servicer; `register` is its generated `add_…Servicer_to_server`."""
        register(servicer, _Naming(self._server, self._names))

    def listen(self) -> None:
        """Take the address, so that it is known; `start` answers there. Idempotent.

        Raises:
            ConfigError: `rpc.address_in_use`, `rpc.path_too_long`.
        """
        if self._listening:
            return
        self._listen()
        self._listening = True

    async def start(self) -> None:
        """Listen and answer.

        Raises:
            ConfigError: `rpc.address_in_use`, `rpc.path_too_long`.
        """
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self.listen()
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        log.info("serving %s at %s", ", ".join(self._names), self.address)

    async def stop(self) -> None:
        """Refuse new calls, end watches, finish what is under way within the grace. Idempotent."""
        await self._health.enter_graceful_shutdown()
        self._draining.set()
        await self._server.stop(self._grace)

    async def wait(self) -> None:
        """Wait until the server has stopped."""
        await self._server.wait_for_termination()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _listen(self) -> None:
        unix = is_unix(self.address)
        if unix:
            prepare_socket(socket_path(self.address))
        try:
            if self._tls is None:
                port = self._server.add_insecure_port(self.address)
            else:
                port = self._server.add_secure_port(self.address, self._tls.server())
        except RuntimeError as error:
            raise address_in_use(self.address) from error
        if not unix:
            self.address = f"{self.address.rpartition(':')[0]}:{port}"


class _Naming:
    """Passes registrations on, and keeps the services' names for health and reflection."""

    def __init__(self, server: grpc.aio.Server, names: list[str]) -> None:
        self._server, self._names = server, names

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Take the methods of a service."""
        self._names.extend(handler.service_name() for handler in handlers)
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Take the methods of a service, the quick way."""
        self._server.add_registered_method_handlers(service, handlers)
