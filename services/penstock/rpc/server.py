"""A gRPC server on a unix socket or host:port: health, reflection, limits, graceful drain."""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from penstock.api.process.v1 import process_service_pb2 as pb
from penstock.api.process.v1 import process_service_pb2_grpc as grpc_api
from penstock.model.errors import ConfigError
from penstock.model.metrics import ProcessMetrics, ReadMetrics
from penstock.rpc.channels import MAX_MESSAGE_BYTES, MutualTls, is_unix, server_options
from penstock.rpc.deadlines import FirstMessageInterceptor
from penstock.rpc.interceptor import AccessInterceptor, StatusInterceptor
from penstock.wire.process import PROCESS_METRICS

log = logging.getLogger(__name__)

MAX_CONCURRENT_CALLS: Final = 2000
"""Maximum number of concurrent calls (invariant 12). Fewer refuse a large fleet of workers, each
with a few watches; more let a flood of calls exhaust the memory."""

SHUTDOWN_GRACE_S: Final = 5.0
"""Seconds that calls in progress have when the server stops. Less cuts off commits on a slow disk;
more lets a hanging call delay every restart."""

_MAX_SOCKET_PATH_BYTES: Final = 107  # sockaddr_un.sun_path of Linux without its terminator

_S = TypeVar("_S")


class Server:
    """One listening server: `async with Server(address) as server`, after `add` of its services.

    The caller that created it owns it. After `stop` it cannot be started again.
    """

    def __init__(
        self,
        address: str,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_concurrent_calls: int = MAX_CONCURRENT_CALLS,
        grace_s: float = SHUTDOWN_GRACE_S,
        tls: MutualTls | None = None,
    ) -> None:
        """`address` is `unix:/path` or `host:port`; with port 0 the kernel chooses.

        With `tls`, the certificate of a caller determines what it may call. Without, everyone who
        reaches the address may call everything.
        """
        self.address = address
        self._grace_s, self._tls = grace_s, tls
        self._draining = asyncio.Event()
        self._health = health.aio.HealthServicer()
        self._names: list[str] = []
        self._listening = False
        interceptors = [FirstMessageInterceptor(), StatusInterceptor(self._draining)]
        self._server = grpc.aio.server(
            interceptors=[*interceptors, *([AccessInterceptor()] if tls else [])],
            options=server_options(max_message_bytes),
            maximum_concurrent_rpcs=max_concurrent_calls,
        )

    def add(self, register: Callable[[_S, Any], None], servicer: _S) -> None:
        """Add a servicer; `register` is its generated `add_…Servicer_to_server`."""
        register(servicer, _Registrar(self._server, self._names))

    def listen(self) -> None:
        """Bind the address, so that it is known before `start` serves there. Idempotent.

        Raises:
            ConfigError: `rpc.address_in_use`, `rpc.path_too_long`.
        """
        if self._listening:
            return
        self._listen()
        self._listening = True

    async def start(self) -> None:
        """Listen and serve.

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
        """Refuse new calls, end watches, and finish calls in progress in the grace. Idempotent."""
        await self._health.enter_graceful_shutdown()
        self._draining.set()
        await self._server.stop(self._grace_s)

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
            prepare_socket(Path(self.address.removeprefix("unix:")))
        try:
            if self._tls is None:
                port = self._server.add_insecure_port(self.address)
            else:
                port = self._server.add_secure_port(self.address, self._tls.server_credentials())
        except RuntimeError as error:
            raise address_in_use(self.address) from error
        if not unix:
            self.address = f"{self.address.rpartition(':')[0]}:{port}"


class _Registrar:
    """Registers methods with a server, and records the names of services for health, reflection."""

    def __init__(self, server: grpc.aio.Server, names: list[str]) -> None:
        self._server, self._names = server, names

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Register the methods of a service."""
        self._names.extend(handler.service_name() for handler in handlers)
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Register the methods of a service for fast lookup."""
        self._server.add_registered_method_handlers(service, handlers)


class ProcessService(grpc_api.ProcessServiceServicer):
    """Serves `penstock.api.process.v1.ProcessService`."""

    def __init__(self, name: str, id_: str, sources: Sequence[ReadMetrics]) -> None:
        """`name` and `id_` are those of the instance.

        Each of `sources` returns its current metrics. The caller may still add sources.
        """
        self._name, self._id, self._sources = name, id_, sources

    async def ListMetrics(
        self, request: pb.ListMetricsRequest, context: Any
    ) -> pb.ListMetricsResponse:
        """Return the metrics of all sources."""
        metrics = tuple(metric for read in self._sources for metric in read())
        return PROCESS_METRICS.to_proto(ProcessMetrics("", self._name, self._id, metrics))


def add_process_service(
    server: Server, name: str, id_: str, sources: Sequence[ReadMetrics]
) -> None:
    """Add the metrics of the process to a server that is not started yet."""
    server.add(grpc_api.add_ProcessServiceServicer_to_server, ProcessService(name, id_, sources))


def prepare_socket(path: Path) -> None:
    """Make the folder of a socket private, and remove a socket that a crash left.

    Raises:
        ConfigError: `rpc.path_too_long`, since the kernel would truncate the path;
            `rpc.address_in_use` when a process listens there.
    """
    if len(str(path).encode()) > _MAX_SOCKET_PATH_BYTES:
        raise ConfigError(
            "rpc.path_too_long",
            f"the socket path {path} has more than {_MAX_SOCKET_PATH_BYTES} bytes",
            fix="Choose a shorter state folder.",
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise address_in_use(f"unix:{path}")


def address_in_use(address: str) -> ConfigError:
    """Return the error for an address that is in use or does not belong to this machine.

    It names the key `listen`, except for a unix socket, whose path no key sets.
    """
    return ConfigError(
        "rpc.address_in_use",
        f"cannot listen at {address}: it is in use, or not an address of this machine",
        fix="Stop the other process, or choose another address.",
        config_path="" if is_unix(address) else "listen",
    )
