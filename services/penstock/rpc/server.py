"""A gRPC server on a unix socket or host:port: health, reflection, limits, graceful drain."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, Self, TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from penstock.model.errors import ConfigError, RetriableError
from penstock.rpc.access_control import Admission
from penstock.rpc.channels import (
    MAX_MESSAGE_BYTES,
    address_in_use,
    is_unix,
    prepare_socket,
    server_options,
    socket_path,
)
from penstock.rpc.deadlines import deadline
from penstock.rpc.interceptor import Statuses, refuse
from penstock.rpc.mutual_tls import Mutual

log = logging.getLogger(__name__)


FIRST_WITHIN: Final = 30.0
"""Seconds from the head of a call to the end of its first message. The largest takes that long at
0.5 MiB/s; a longer time lets a few peers that drip hold more calls."""


class Promptness(grpc.aio.ServerInterceptor):
    """Reads the first message of a call, for every kind of method, before it is answered."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the method that answers a call."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None:
            return None
        if handler.response_streaming:
            return _streaming(handler, method)
        return _single(handler, method)


def _single(handler: Any, method: str) -> Any:
    inner = handler.stream_unary if handler.request_streaming else handler.unary_unary

    async def call(requests: Any, context: Any) -> Any:
        return await inner(await _request(handler, requests, context, method), context)

    # to gRPC a single request is a stream of one; only so it hands the waiting over
    return grpc.stream_unary_rpc_method_handler(
        call, handler.request_deserializer, handler.response_serializer
    )


def _streaming(handler: Any, method: str) -> Any:
    inner = handler.stream_stream if handler.request_streaming else handler.unary_stream

    async def answers(requests: Any, context: Any) -> AsyncIterator[Any]:
        found = inner(await _request(handler, requests, context, method), context)
        async with aclosing(found):
            async for answer in found:
                yield answer

    async def writes(requests: Any, context: Any) -> None:
        await inner(await _request(handler, requests, context, method), context)

    return grpc.stream_stream_rpc_method_handler(
        answers if inspect.isasyncgenfunction(inner) else writes,  # health writes by itself
        handler.request_deserializer,
        handler.response_serializer,
    )


async def _request(handler: Any, requests: Any, context: Any, method: str) -> Any:
    """Return what the method takes: its request, or the stream of them."""
    following = aiter(requests)
    try:
        async with deadline(f"first message of {method}", FIRST_WITHIN):
            first = await anext(following, None)
        if handler.request_streaming:
            return _all(first, following)
        if first is None:
            raise ConfigError(
                "rpc.no_request", f"{method} was called without a request", fix="Send one message."
            )
    except (ConfigError, RetriableError) as error:
        await refuse(context, error, method)
    return first


async def _all(first: Any, following: AsyncIterator[Any]) -> AsyncIterator[Any]:
    if first is None:  # none came
        return
    yield first
    async for request in following:
        yield request


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
