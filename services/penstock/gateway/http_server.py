"""The HTTP server: uvicorn in the event loop of the process, with bounds on slow and many peers.

With Kafka Connect's `admin.listeners`, the routes of administrators (`/admin/…`) have listeners of
their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Self

import h11
import uvicorn
from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.aio import cancel_and_wait, wait_for_first
from penstock.gateway.listeners import CertificateFiles, Listener, ListenerScope
from penstock.model.errors import ConfigError
from penstock.rpc.server import address_in_use

_ADMIN: Final = "/admin/"
_SCOPE_KEY: Final = "penstock.serves"


class ListenerScopeMiddleware:
    """Adds to each request which routes its listener has."""

    def __init__(self, app: ASGIApp, listener_scope: ListenerScope) -> None:
        """`app` receives the requests."""
        self._app, self._listener_scope = app, listener_scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._app({**scope, _SCOPE_KEY: self._listener_scope}, receive, send)


def listener_scope(scope: Scope) -> ListenerScope:
    """Return which routes the listener of a request has."""
    found: ListenerScope = scope.get(_SCOPE_KEY, ListenerScope.ALL)
    return found


async def refuse_other_listener(request: Request) -> None:
    """Refuse a route that only other listeners have, as an unknown path. A route dependency.

    Raises:
        ConfigError: `http.other_listener`.
    """
    found = listener_scope(request.scope)
    is_admin = request.scope["route"].path.startswith(_ADMIN)
    if found is ListenerScope.ALL or is_admin is (found is ListenerScope.ADMIN):
        return
    key = "admin.listeners" if is_admin else "listeners"
    raise ConfigError(
        "http.other_listener",
        f"this listener has no route {request.url.path[:200]}",
        fix=f"Send the request to an address of `{key}` of the gateway.",
    )


HEAD_TIMEOUT_S: Final = 10.0
"""Seconds from the first byte of a request to the last byte of its head. Without the bound, a peer
that sends a header line now and then holds a connection for ever (invariant 12)."""

LINGER_S: Final = 1.0
"""Seconds that a peer may continue to send a request that was answered already. A peer that does
not read while it sends would not see the response if the connection was closed at once."""

KEEP_ALIVE_S: Final = 75
"""Seconds that an idle connection is kept: as long as proxies keep theirs."""

MAX_CONNECTIONS: Final = 500
"""Requests and idle connections at once. Further requests get 503."""

MAX_CONNECTIONS_PER_ADDRESS: Final = 250
"""Connections of one address at once, so that one peer cannot use all of them. It is half of all,
because a proxy opens all connections from one address. A further connection closes the oldest idle
one: a peer that opens connections and sends nothing excludes no other."""

MAX_HEAD_BYTES: Final = 64 << 10
"""Bytes of the head of a request."""

SHUTDOWN_GRACE_S: Final = 5
"""Seconds that running requests have when the server stops."""


@contextlib.asynccontextmanager
async def serve(
    app: ASGIApp, listeners: Sequence[Listener], certificate: CertificateFiles | None = None
) -> AsyncIterator[list[str]]:
    """Serve an application at listeners until the context is left. Yields their URLs.

    `certificate` is for listeners with TLS.

    Raises:
        ConfigError: `config.missing`, `tls.file`, `rpc.address_in_use`.
    """
    async with contextlib.AsyncExitStack() as stack:
        context = None
        if any(listener.tls for listener in listeners):
            reloading = require_certificate(certificate).create_context()
            context = reloading.context
            reload_task = asyncio.create_task(
                require_certificate(certificate).reload_on_change(reloading)
            )
            stack.push_async_callback(cancel_and_wait, reload_task)
        urls = []
        for listener in listeners:
            server = ListenerServer(app, listener, context if listener.tls else None)
            await stack.enter_async_context(server)
            urls.append(server.listener.url)
        yield urls


def require_certificate(certificate: CertificateFiles | None) -> CertificateFiles:
    """Return the certificate of https listeners.

    Raises:
        ConfigError: `config.missing`: there is none.
    """
    if certificate is None:
        raise ConfigError(
            "config.missing",
            "a listener is https, but no certificate is configured",
            fix="Set `listener.tls.certificate` and `listener.tls.key`.",
            config_path="listener.tls.certificate",
        )
    return certificate


class ListenerServer:
    """Serves an application at one listener: `async with ListenerServer(app, Listener(address))`.

    `listener` has the port that was bound.
    """

    def __init__(
        self, app: ASGIApp, listener: Listener, context: ssl.SSLContext | None = None
    ) -> None:
        """With port 0 the kernel chooses the port. `context` is for TLS."""
        self.listener = listener
        self._app, self._context = ListenerScopeMiddleware(app, listener.scope), context
        self._server: _Server
        self._serve_task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        bound = _bind_socket(self.listener)
        host, _, _ = self.listener.address.rpartition(":")
        self.listener = replace(self.listener, address=f"{host}:{bound.getsockname()[1]}")
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        self._server = _Server(_uvicorn_config(self._app, self._context))
        self._serve_task = asyncio.create_task(self._server.serve([bound]))
        ready = asyncio.create_task(self._server.ready.wait())
        await wait_for_first(ready, self._serve_task)
        ready.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        await self._serve_task


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the process, and sets `ready` when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then set `ready`."""
        await super().startup(sockets)
        self.ready.set()


class _BoundedConnection(H11Protocol):
    """A connection that is closed when the head of a request is late or its body does not end."""

    _limit: asyncio.TimerHandle | None = None
    since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timeout for the head of the first request."""
        self.since = self.loop.time()
        super().connection_made(transport)  # type: ignore[arg-type] # narrower there
        self._await_head()
        self._close_oldest_idle()

    def _close_oldest_idle(self) -> None:
        """Close the oldest idle connection of an address that has too many, or this connection."""
        if self.client is None:
            return
        address = self.client[0]
        same = [one for one in self.connections if _address_of(one) == address]
        if len(same) <= MAX_CONNECTIONS_PER_ADDRESS:
            return
        idle = [one for one in same if isinstance(one, _BoundedConnection) and one.is_idle()]
        oldest = min(idle, key=lambda one: one.since, default=self)
        oldest.transport.close()

    def is_idle(self) -> bool:
        """Return whether the connection waits for a request, or for the rest of its head."""
        done = self.cycle is None or self.cycle.response_complete
        return done and not self.transport.is_closing() and self.conn.their_state is h11.IDLE

    def data_received(self, data: bytes) -> None:
        """Start or stop the timeout for the head of a request."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._stop_timeout()

    def on_response_complete(self) -> None:
        """Bound the time that the peer may still send the body of the answered request."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(LINGER_S, self._close_unfinished, self.cycle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._stop_timeout()
        super().connection_lost(exc)

    def _close_unfinished(self, cycle: object) -> None:
        # unless the body has ended and the next request has begun
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.transport.close()

    def _await_head(self) -> None:
        if self._limit is None:
            self._limit = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _stop_timeout(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def _address_of(connection: Any) -> str | None:
    client = getattr(connection, "client", None)
    return client[0] if client else None


def _uvicorn_config(app: ASGIApp, context: ssl.SSLContext | None) -> uvicorn.Config:
    unused: dict[str, Any] = {"lifespan": "off", "ws": "none", "log_config": None}
    config = uvicorn.Config(
        app,
        http=_BoundedConnection,
        loop="asyncio",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_S,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        **unused,
    )
    config.load()
    config.ssl = context
    return config


def _bind_socket(listener: Listener) -> socket.socket:
    host, _, port = listener.address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=1024)
    except OSError as error:
        refused = address_in_use(listener.address).diagnostic
        raise ConfigError(
            refused.code, refused.message, fix=refused.fix, config_path=listener.key
        ) from error
