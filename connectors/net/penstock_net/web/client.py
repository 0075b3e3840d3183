"""One request and its answer, within a time and a size, over a connection that is kept."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import httpcore

from penstock_connector import ConfigError, ConnectorError
from penstock_connector.addresses import AddressPolicy
from penstock_connector.reach import ANYWHERE, Reach
from penstock_net.web.address import Address, Origin, address_of, joined
from penstock_net.web.failing import hung_up, network_error, status_error, timed_out
from penstock_net.web.network import Network, Way
from penstock_net.web.proxying import Proxy
from penstock_net.web.reading import body_of

_HOPS: Final = 5
"""Redirects that are followed: more are a circle."""

_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD: Final = frozenset({307, 308})
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_NO_BODY: Final = frozenset({204, 304})


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
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    url: str
    ended_by_length: bool = True

    def header(self, name: str) -> str:
        """Return a header; those of one name joined by commas."""
        wanted = name.lower().encode()
        return ", ".join(v.decode("latin-1") for n, v in self.headers if n.lower() == wanted)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much: seconds to connect, seconds in all, bytes of an answer."""

    connect: float
    whole: float
    bytes: int


class Client:
    """Asks one server after another. Used by one thread; `cut` is for others.

    Args:
        limits: How long and how much.
        tls: How TLS is spoken.
        policy: Where sockets may lead.
        home: The server that the configuration names; None when rows name them.
        reach: Which hosts the node lets it name.
        proxy: Who asks others for us; None: nobody.
    """

    def __init__(
        self,
        limits: Limits,
        tls: ssl.SSLContext,
        policy: AddressPolicy,
        home: Address | None,
        reach: Reach = ANYWHERE,
        proxy: Proxy | None = None,
    ) -> None:
        self._limits, self._reach, self._tls = limits, reach, tls
        self._policy, self._home, self._proxy = policy, home, proxy
        self._network = Network(policy)
        self._pool: httpcore.ConnectionPool | None = None
        self._place: tuple[Origin, Way] | None = None
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
        """Connect to a server, or to the proxy that asks it, and ask it nothing.

        Raises:
            ConnectorError: `http.unreachable`, `http.timeout`, `http.tls`, `http.address_refused`.
        """
        try:
            self._prepare(address, self._way(address, address))
            proxy = self._proxy_of(address)
            there = proxy.address if proxy else address
            stream = self._network.connect_tcp(there.host, there.port, self._limits.connect)
            try:
                if there.tls:
                    context = proxy.tls if proxy else self._tls
                    stream = stream.start_tls(context, there.host, self._limits.connect)
            finally:
                stream.close()
        except (OSError, httpcore.NetworkError, httpcore.TimeoutException) as error:
            raise network_error(error, address.shown) from None

    def cut(self) -> None:
        """End a running request now. For other threads: at the end of a task, or of its time."""
        self._ended = True
        self._network.cut()

    def close(self) -> None:
        """Let go of the connection."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _way(self, address: Address, first: Address) -> Way:
        """Return how we came to a server that is asked after the `first` one."""
        if self._home is None:
            return Way(False, "" if address.origin == first.origin else first.host)
        configured = address.origin == self._home.origin
        return Way(configured, "" if configured else self._home.host)

    def _once(self, request: Request, address: Address, url: str, first: Address) -> Answer:
        way = self._way(address, first)
        trusted = not way.led_from  # credentials go nowhere that an answer leads to
        self._ended = False
        watch = threading.Timer(self._limits.whole, self.cut)
        watch.daemon = True
        watch.start()
        try:
            before = self._network.opened
            try:
                return self._exchange(request, address, url, way, trusted=trusted)
            except (
                httpcore.ReadError, httpcore.WriteError, httpcore.RemoteProtocolError,
            ) as error:  # fmt: skip
                if self._network.opened != before or self._ended or not hung_up(error):
                    raise
                self.close()  # the server closed a connection that had been idle: no failure yet
                return self._exchange(request, address, url, way, trusted=trusted)
        except ConnectorError:
            self.close()
            if self._ended:
                raise timed_out(address.shown) from None
            raise
        except (OSError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProxyError,
                httpcore.ProtocolError) as error:  # fmt: skip
            self.close()
            raise (
                timed_out(address.shown) if self._ended else network_error(error, address.shown)
            ) from None
        finally:
            watch.cancel()

    def _proxy_of(self, address: Address) -> Proxy | None:
        return self._proxy if self._proxy and self._proxy.asks(address.host) else None

    def _prepare(self, address: Address, way: Way) -> httpcore.ConnectionPool:
        """Return what keeps a connection to this origin, come to by this way."""
        if self._pool is not None and self._place == (address.origin, way):
            return self._pool
        self.close()
        self._reach.require_host(address.host, "url")
        proxy = self._proxy_of(address)
        if proxy:
            self._policy.require(
                address.host, address.port, configured=way.configured, led_from=way.led_from
            )
        self._network.way = Way(True) if proxy else way
        self._pool = httpcore.ConnectionPool(
            ssl_context=self._tls,
            proxy=proxy.of_library() if proxy else None,
            max_connections=1,
            network_backend=self._network,
        )
        self._place = address.origin, way
        return self._pool

    def _exchange(
        self, request: Request, address: Address, url: str, way: Way, *, trusted: bool
    ) -> Answer:
        pool = self._prepare(address, way)
        headers = {
            "Host": address.authority,
            "Accept-Encoding": "gzip",
            "User-Agent": "penstock",
            **request.headers,
        }
        if trusted:
            headers.update(request.secret_headers)
        # a body that is none has a length, too, where servers wait for one
        body = b"" if request.body is None and request.method in _WITH_BODY else request.body
        whole = self._limits.whole
        with pool.stream(
            request.method,
            address.of_library(),
            headers=[(n.encode(), v.strip().encode("latin-1")) for n, v in headers.items()],
            content=body,
            extensions={
                "timeout": {
                    "connect": self._limits.connect, "read": whole, "write": whole, "pool": whole,
                },
                "sni_hostname": address.host,
            },
        ) as answer:  # fmt: skip
            received = body_of(answer, self._limits.bytes, address.shown)
        if self._ended:
            raise timed_out(address.shown)
        names = {name.lower() for name, _ in answer.headers}
        by_length = answer.status in _NO_BODY or bool(
            names & {b"content-length", b"transfer-encoding"}
        )
        return Answer(answer.status, answer.headers, received, url, by_length)


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
