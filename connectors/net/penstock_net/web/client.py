"""One request and its answer, within a time and a size, over a connection that is kept."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock_connector import ConfigError, ConnectorError
from penstock_connector.addresses import AddressPolicy
from penstock_connector.reach import ANYWHERE, Reach
from penstock_net.web.address import Address, Origin, address_of, joined
from penstock_net.web.failing import network_error, status_error, timed_out
from penstock_net.web.reading import body_of

_HOPS: Final = 5
"""Redirects that are followed: more are a circle."""

_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD: Final = frozenset({307, 308})


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Attributes:
        url: Where; what it has of secrets is in `secret_url` alone.
        method: How.
        headers: Headers that are sent wherever it is redirected to.
        secret_headers: Headers that only the configured origin gets.
        body: What is sent.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whole.

    Attributes:
        status: The status.
        headers: Its headers; names in any case.
        body: Its body, unpacked.
        url: Where it came from after redirects.
        ended_by_length: The server said where it ends; else it may have been cut off.
    """

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    url: str
    ended_by_length: bool = True

    def header(self, name: str) -> str:
        """Return a header; those of one name joined by commas."""
        return ", ".join(self.headers.get_all(name) or ())


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much: seconds to connect, seconds in all, bytes of an answer."""

    connect: float
    whole: float
    bytes: int


@dataclass(frozen=True, slots=True)
class _Way:
    """How we came to a server.

    Attributes:
        configured: The configuration names its origin.
        led_from: Else the host that led there; empty for one that a row names.
    """

    configured: bool
    led_from: str = ""


class Client:
    """Asks one server after another. Used by one thread; `cut` is for others.

    Args:
        limits: How long and how much.
        tls: How TLS is spoken.
        policy: Where sockets may lead.
        home: The server that the configuration names; None when rows name them.
        reach: Which hosts the node lets it name.
    """

    def __init__(
        self,
        limits: Limits,
        tls: ssl.SSLContext,
        policy: AddressPolicy,
        home: Address | None,
        reach: Reach = ANYWHERE,
    ) -> None:
        self._limits, self._reach = limits, reach
        self._tls = tls
        self._policy = policy
        self._home = home
        self._connection: http.client.HTTPConnection | None = None
        self._place: tuple[Origin, _Way] | None = None
        self._ended = False

    def ask(self, request: Request) -> Answer:
        """Return the answer, whatever its status, after redirects.

        Raises:
            ConnectorError: `http.…`; there was no whole answer.
        """
        first = address = address_of(request.url)
        url = request.url
        for _ in range(_HOPS + 1):
            answer = self._once(request, address, url, first)
            link = answer.header("Location")
            if answer.status not in _MOVED or not link:
                return answer
            if request.method != "GET" and answer.status not in _SAME_METHOD:
                return answer
            url = joined(url, link)
            address = _moved(address, address_of(url, "Location"), request.method)
        raise status_error(answer.status, first.shown, "it leads in a circle")

    def reach(self, address: Address) -> None:
        """Connect to a server, and ask it nothing.

        Raises:
            ConnectorError: `http.unreachable`, `http.timeout`, `http.tls`, `http.address_refused`.
        """
        try:
            self._connect(address, self._way(address, address))
        except OSError as error:
            raise network_error(error, address.shown) from None

    def cut(self) -> None:
        """End a running request now. For other threads: at the end of a task, or of its time."""
        self._ended = True
        sock = self._connection.sock if self._connection else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _way(self, address: Address, first: Address) -> _Way:
        """Return how we came to a server that is asked after the `first` one."""
        if self._home is None:
            return _Way(False, "" if address.origin == first.origin else first.host)
        configured = address.origin == self._home.origin
        return _Way(configured, "" if configured else self._home.host)

    def _once(self, request: Request, address: Address, url: str, first: Address) -> Answer:
        way = self._way(address, first)
        trusted = not way.led_from  # credentials go nowhere that an answer leads to
        self._ended = False
        watch = threading.Timer(self._limits.whole, self.cut)
        watch.daemon = True
        watch.start()
        try:
            reused = self._connect(address, way)
            try:
                return self._exchange(request, address, url, trusted=trusted)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                if not reused or self._ended:
                    raise
                self.close()  # the server closed a connection that had been idle: no failure yet
                self._connect(address, way)
                return self._exchange(request, address, url, trusted=trusted)
        except ConnectorError:
            self.close()
            if self._ended:
                raise timed_out(address.shown) from None
            raise
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise (
                timed_out(address.shown) if self._ended else network_error(error, address.shown)
            ) from None
        finally:
            watch.cancel()

    def _connect(self, address: Address, way: _Way) -> bool:
        """Have a connection to this origin; tells whether it was there before."""
        if self._connection is not None and self._place == (address.origin, way):
            return True
        self.close()
        self._reach.require_host(address.host, "url")
        connection: http.client.HTTPConnection
        if address.tls:
            connection = http.client.HTTPSConnection(address.host, address.port, context=self._tls)
        else:
            connection = http.client.HTTPConnection(address.host, address.port)
        connection.auto_open = 0  # it would connect without a look at the address
        connection.sock = self._opened(address, way)
        connection.sock.settimeout(self._limits.whole)
        self._connection, self._place = connection, (address.origin, way)
        return False

    def _opened(self, address: Address, way: _Way) -> socket.socket:
        opened = self._policy.connect(
            address.host,
            address.port,
            self._limits.connect,
            configured=way.configured,
            led_from=way.led_from,
        )
        if not address.tls:
            return opened
        try:
            return self._tls.wrap_socket(opened, server_hostname=address.host)
        except BaseException:
            opened.close()
            raise

    def _exchange(self, request: Request, address: Address, url: str, *, trusted: bool) -> Answer:
        assert self._connection is not None  # noqa: S101 - for the type checker
        headers = {"Accept-Encoding": "gzip", "User-Agent": "penstock", **request.headers}
        if trusted:
            headers.update(request.secret_headers)
        self._connection.request(request.method, address.target, request.body, headers)
        answer = self._connection.getresponse()
        by_length = answer.length is not None or bool(answer.chunked)
        body = body_of(answer, self._limits.bytes, address.shown)
        answer.close()  # read to its end: the connection may be used again
        if self._ended:
            raise timed_out(address.shown)
        if answer.will_close:
            self.close()
        return Answer(answer.status, answer.headers, body, url, by_length)


def _moved(before: Address, after: Address, method: str) -> Address:
    """Return where a redirect leads, if it may be followed."""
    if before.tls and not after.tls:
        raise ConfigError(
            "http.redirect",
            f"{before.shown} leads to {after.shown}, without TLS",
            fix="Give the address that is meant.",
            config_path="url",
        )
    if method != "GET" and before.origin != after.origin:
        raise ConfigError(
            "http.redirect",
            f"{before.shown} leads to another server, {after.shown}: rows are not sent there",
            fix="Give that address, if it is meant.",
            config_path="url",
        )
    return after


def tls_context(ca: str, cert: str, key: str, password: str) -> ssl.SSLContext:
    """Return how TLS is spoken.

    Raises:
        ConfigError: `http.tls`, for files that are not there or not certificates.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if cert:
            context.load_cert_chain(cert, key or None, password or "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            "http.tls",
            f"`tls.ca`, `tls.cert` or `tls.key` cannot be used: {error.strerror or error}",
            fix="Name files in PEM that the worker can read.",
            config_path="tls.ca",
        ) from None
    return context
