"""What is for admins (`/admin/…`) has listeners of its own, where Kafka Connect's `admin.listeners`
says so.
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

from penstock.gateway.server.certificates import Shown
from penstock.gateway.server.listeners import Place, Serves
from penstock.model.errors import ConfigError
from penstock.rpc.channels import address_in_use

_ADMIN: Final = "/admin/"
_SERVES: Final = "penstock.serves"


class Served:
    """Passes the requests of a listener on, with what is answered there."""

    def __init__(self, app: ASGIApp, serves: Serves) -> None:
        """`app`: who gets the requests."""
        self._app, self._serves = app, serves

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._app({**scope, _SERVES: self._serves}, receive, send)


async def served(request: Request) -> None:
    """Refuse what another listener answers, as if it were not. A dependency of every route.

    Raises:
        ConfigError: `http.other_listener`.
    """
    serves = request.scope.get(_SERVES, Serves.ALL)
    is_admin = request.scope["route"].path.startswith(_ADMIN)
    if serves is Serves.ALL or is_admin is (serves is Serves.ADMIN):
        return
    key = "admin.listeners" if is_admin else "listeners"
    raise ConfigError(
        "http.other_listener",
        f"there is nothing at {request.url.path[:200]} of this listener",
        fix=f"Ask where `{key}` of the gateway says.",
    )


HEAD_WITHIN: Final = 10.0
"""Seconds from the first byte of a request to the last of its head. A peer that sends a header line
now and then would hold a connection for ever (invariant 12)."""

LINGER: Final = 1.0
"""Seconds in which a peer may go on to send what was answered already: one that does not listen
while it sends would not see why, when it is cut off at once."""

IDLE_FOR: Final = 75
"""Seconds that a connection is kept without a request: as long as proxies do."""

MOST_AT_ONCE: Final = 500
"""Requests and idle connections at once; more are told 503."""

MAX_PER_ADDRESS: Final = 250
"""Connections of one address at once: one peer must not take the places of all others. It is half
of them, because a proxy in front makes all connections from one address. A further one closes the
oldest that waits for a request: a peer that opens connections and sends nothing shuts none out."""

MOST_HEAD: Final = 64 << 10
"""Bytes of a request's head."""

GRACE: Final = 5
"""Seconds that requests under way get when the server ends."""


@contextlib.asynccontextmanager
async def answering(
    app: ASGIApp, wanted: Sequence[Place], shown: Shown | None = None
) -> AsyncIterator[list[str]]:
    """Answer at places while inside; gives their URLs. `shown` is for those with TLS.

    Raises:
        ConfigError: `config.missing`, `tls.file`, `rpc.address_in_use`.
    """
    async with contextlib.AsyncExitStack() as stack:
        context = None
        if any(place.tls for place in wanted):
            renewed = required(shown).context()
            context = renewed.context
            following = asyncio.create_task(required(shown).follow(renewed))
            stack.push_async_callback(_ended, following)
        found = []
        for place in wanted:
            listener = Listener(app, place, context if place.tls else None)
            await stack.enter_async_context(listener)
            found.append(listener.place.url)
        yield found


def required(shown: Shown | None) -> Shown:
    """Return what https listeners show.

    Raises:
        ConfigError: `config.missing`.
    """
    if shown is None:
        raise ConfigError(
            "config.missing",
            "a listener is https, and there is no certificate",
            fix="Set `listener.tls.certificate` and `listener.tls.key`.",
            config_path="listener.tls.certificate",
        )
    return shown


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Listener:
    """`async with Listener(app, Place("127.0.0.1:8083")) as listener`: answers until it is left.

    `place` has the port it got.
    """

    def __init__(self, app: ASGIApp, place: Place, context: ssl.SSLContext | None = None) -> None:
        """Port 0 of `place` lets the kernel choose. `context` is for TLS."""
        self.place = place
        self._app, self._context = Served(app, place.serves), context
        self._server: _Server
        self._serving: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        taken = _bound(self.place)
        host, _, _ = self.place.address.rpartition(":")
        self.place = replace(self.place, address=f"{host}:{taken.getsockname()[1]}")
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        self._server = _Server(_settings(self._app, self._context))
        self._serving = asyncio.create_task(self._server.serve([taken]))
        begun = asyncio.create_task(self._server.begun.wait())
        await asyncio.wait({begun, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        await self._serving


class _Server(uvicorn.Server):
    """One that leaves signals to the process, and says when it answers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.begun.set()


class _Impatient(H11Protocol):
    """A connection that is closed when the head of a request does not come in time, or its body
    does not end.
    """

    _limit: asyncio.TimerHandle | None = None
    since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a first request."""
        self.since = self.loop.time()
        super().connection_made(transport)  # type: ignore[arg-type] # narrower there
        self._await_head()
        self._make_room()

    def _make_room(self) -> None:
        """Close the oldest idle connection of an address that has too many, or this one."""
        if self.client is None:
            return
        address = self.client[0]
        same = [one for one in self.connections if _address_of(one) == address]
        if len(same) <= MAX_PER_ADDRESS:
            return
        idle = [one for one in same if isinstance(one, _Impatient) and one.is_idle()]
        oldest = min(idle, key=lambda one: one.since, default=self)
        oldest.transport.close()

    def is_idle(self) -> bool:
        """Tell whether it waits for a request, or for the rest of its head."""
        done = self.cycle is None or self.cycle.response_complete
        return done and not self.transport.is_closing() and self.conn.their_state is h11.IDLE

    def data_received(self, data: bytes) -> None:
        """Take some bytes."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._head_came()

    def on_response_complete(self) -> None:
        """Go on, or give up what is still sent of a request that was answered already."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(LINGER, self._give_up, self.cycle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._head_came()
        super().connection_lost(exc)

    def _give_up(self, cycle: object) -> None:
        # a body that came to its end meanwhile has made room for the next request
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.transport.close()

    def _await_head(self) -> None:
        if self._limit is None:
            self._limit = self.loop.call_later(HEAD_WITHIN, self.transport.close)

    def _head_came(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def _address_of(connection: Any) -> str | None:
    client = getattr(connection, "client", None)
    return client[0] if client else None


def _settings(app: ASGIApp, context: ssl.SSLContext | None) -> uvicorn.Config:
    unused: dict[str, Any] = {"lifespan": "off", "ws": "none", "log_config": None}
    config = uvicorn.Config(
        app,
        http=_Impatient,
        loop="asyncio",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_AT_ONCE,
        timeout_keep_alive=IDLE_FOR,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=MOST_HEAD,
        **unused,
    )
    config.load()
    config.ssl = context
    return config


def _bound(place: Place) -> socket.socket:
    host, _, port = place.address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=1024)
    except OSError as error:
        refused = address_in_use(place.address).diagnostic
        raise ConfigError(
            refused.code, refused.message, fix=refused.fix, config_path=place.key
        ) from error
