"""Channels to services: options, TLS, and a channel that follows a service over its instances."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.aio import cancel_and_wait
from penstock.model.errors import ConfigError, PenstockError, RetriableError
from penstock.rpc.access_control import certificate_name
from penstock.rpc.traces import trace_arguments

MAX_MESSAGE_BYTES: Final = 16 << 20
"""Maximum size of a message between services, in both directions. Rows do not pass through these
messages; a task plan with 100,000 partitions does."""

KEEPALIVE_MS: Final = 20_000
"""Milliseconds without traffic after which a keepalive ping is sent."""

PEER_TIMEOUT_MS: Final = 10_000
"""Milliseconds that a peer has for the handshake, its first settings and the answer to a ping. A
shorter time cuts off peers on busy machines; a longer one accumulates half-open connections."""

CONNECT_TIMEOUT_MS: Final = 3000
"""Milliseconds that a connection may take. A busy machine or TLS across an ocean takes half a
second; after this time another instance is used."""

CLOSE_GRACE_S: Final = 5.0
"""Seconds that calls in progress have on a channel that was replaced; they may still succeed."""

REDIRECT_CODES: Final = frozenset({"scheduler.not_leader", "rpc.draining", "discovery.nobody"})
"""Codes of an instance that did not begin a call. Its suggestion may name the right instance."""

_OPTIONS: Final = (
    # Finds a restarted service within a second; the default of gRPC is up to 20 s.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_MS),  # despite its name: connection timeout
    # Proxies from the environment are for external systems, not between services.
    ("grpc.enable_http_proxy", 0),
    # Detects a peer that is gone after 30 s.
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", PEER_TIMEOUT_MS),
)


Dial: TypeAlias = Callable[[str], grpc.aio.Channel]
"""Opens a channel to an address."""


def is_unix(address: str) -> bool:
    """Return whether an address is a unix socket."""
    return address.startswith("unix:")


def message_limits(max_message_bytes: int) -> list[tuple[str, int]]:
    """Return the options that limit messages in both directions (invariant 12)."""
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
    ]


def channel_options(max_message_bytes: int) -> list[tuple[str, int]]:
    """Return the options of a channel."""
    return [*_OPTIONS, *message_limits(max_message_bytes)]


def server_options(max_message_bytes: int) -> list[tuple[str, int]]:
    """Return the options of a server: message limits, and tolerance for the pings of our channels.

    By default gRPC closes a connection with more than one ping in five minutes on a quiet stream,
    and keeps a connection to a dead peer for hours.
    """
    return [
        *message_limits(max_message_bytes),
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
        ("grpc.server_handshake_timeout_ms", PEER_TIMEOUT_MS),
        ("grpc.http2.settings_timeout", PEER_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", PEER_TIMEOUT_MS),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", PEER_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
    ]


def authority_options(address: str) -> list[tuple[str, str]]:
    """Return the `:authority` option of calls to an address.

    gRPC sends the percent-encoded path of a unix socket, which is not a host name. Strict HTTP/2
    servers, as in Rust, reset every call that has it (grpc/grpc#38142).
    """
    return [("grpc.default_authority", "localhost")] if is_unix(address) else []


def open_channel(address: str, max_message_bytes: int = MAX_MESSAGE_BYTES) -> grpc.aio.Channel:
    """Return a channel to `unix:/path` or `host:port`; it connects with the first call."""
    options = [*channel_options(max_message_bytes), *authority_options(address)]
    return grpc.aio.insecure_channel(address, options=options)


async def is_serving(address: str, timeout_s: float = 1.0) -> bool:
    """Return whether a server reports SERVING within a time (`grpc.health.v1`)."""
    async with open_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its type stubs have no methods
        try:
            response = await stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        except grpc.aio.AioRpcError:
            return False
    return bool(response.status == health_pb2.HealthCheckResponse.SERVING)


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The TLS settings of a client, as PEM texts.

    An empty `ca` trusts the authorities of the machine. An empty `certificate` presents none.
    `server_name` is the name in the server's certificate if it differs from the address.
    """

    ca: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)
    server_name: str = ""

    def credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials for a channel."""
        return grpc.ssl_channel_credentials(
            self.ca.encode() or None, self.key.encode() or None, self.certificate.encode() or None
        )

    def options(self) -> list[tuple[str, str]]:
        """Return the options for a channel with these credentials."""
        return [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []

    def to_dict(self) -> dict[str, str]:
        """Return the texts for a ticket, which goes only to executors (invariant 9)."""
        return {
            "ca": self.ca,
            "certificate": self.certificate,
            "key": self.key,
            "server_name": self.server_name,
        }


def client_tls_from_dict(texts: Mapping[str, str] | None) -> ClientTls | None:
    """Return the settings of a ticket; None for a connection without TLS."""
    return None if texts is None else ClientTls(**texts)


@dataclass(frozen=True, slots=True)
class MutualTls:
    """TLS with certificates on both sides: PEM files of the authority, our certificate and its key.

    The files are read for each new connection, so they can be replaced without a restart. A client
    requires the certificate name of the service that it calls. A server reads the roles of a
    caller from its certificate.
    """

    authority: Path
    certificate: Path
    key: Path

    def check(self) -> None:
        """Read all files once.

        Raises:
            ConfigError: `tls.file`.
        """
        self._read(self.authority, "tls.authority")
        self._read(self.certificate, "tls.certificate")
        self._read(self.key, "tls.key")

    def server_credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of a server; callers without a certificate are refused."""
        return grpc.dynamic_ssl_server_credentials(
            self._server_configuration(), self._server_configuration, True
        )

    def dial(self, service: str) -> Dial:
        """Return a function that opens channels to a service and verifies its certificate name."""

        def open_secure_channel(address: str) -> grpc.aio.Channel:
            credentials = grpc.ssl_channel_credentials(
                self._read(self.authority, "tls.authority"),
                self._read(self.key, "tls.key"),
                self._read(self.certificate, "tls.certificate"),
            )
            options: list[tuple[str, Any]] = [
                *channel_options(MAX_MESSAGE_BYTES),
                ("grpc.ssl_target_name_override", certificate_name(service)),
            ]
            return grpc.aio.secure_channel(address, credentials, options=options)

        return open_secure_channel

    def _server_configuration(self) -> grpc.ServerCertificateConfiguration:
        pair = (self._read(self.key, "tls.key"), self._read(self.certificate, "tls.certificate"))
        authority = self._read(self.authority, "tls.authority")
        return grpc.ssl_server_certificate_configuration([pair], authority)

    def _read(self, file: Path, key: str) -> bytes:
        try:
            return file.read_bytes()
        except OSError as error:
            raise ConfigError(
                "tls.file",
                f"{file} cannot be read: {error.strerror}",
                fix="Name a PEM file that the process may read.",
                config_path=key,
            ) from error


class Resolver(Protocol):
    """Returns the known addresses of the instances of a service. It may have its name, `service`,
    for errors.
    """

    def __call__(self) -> Sequence[str]:
        """Return the addresses; empty when no instance is known."""


ServiceAddress: TypeAlias = str | Resolver
"""A fixed address, or the resolver of a service."""


def _service_name(resolver: Resolver) -> str:
    name = getattr(resolver, "service", "")
    return f"{name} service" if name else "service"


class RoutedChannel:
    """A channel to one instance of a service. It switches to another instance when needed.

    It stays with an instance until that does not answer, is no longer listed by discovery, or names
    another one. It owns one channel at a time; `close` it.
    """

    def __init__(self, service_address: ServiceAddress, dial: Dial = open_channel) -> None:
        """`service_address` is an address, or returns those that are known."""
        self._service_address, self._dial = service_address, dial
        self._address = service_address if isinstance(service_address, str) else ""
        self._channel: grpc.aio.Channel | None = None
        self._was_listed = True  # False: an instance named it, and discovery may not know it yet
        self._left: list[str] = []  # instances that were left, the latest last
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """The address of the current instance; empty when no instance is known."""
        return self._address

    def channel(self) -> grpc.aio.Channel:
        """Return the channel to the current instance, or to another if it is no longer listed.

        Raises:
            RetriableError: `discovery.nobody`.
        """
        if self._is_unlisted():
            self.switch()
        if self._channel is None:
            self._address = self._address or self._choose("")
            self._channel = self._dial(self._address)
        return self._channel

    def as_channel(self) -> grpc.aio.Channel:
        """Return itself for generated stubs, which call only the four methods below."""
        return cast("grpc.aio.Channel", self)

    def leave(self, address: str, suggestion: str = "") -> None:
        """Leave an instance that is unavailable or named another one.

        Of several calls that failed at an instance, only the first one switches: later ones must
        not leave the new instance.
        """
        if address == self._address:
            self.switch(suggestion)

    def switch(self, address: str = "") -> None:
        """Switch to an instance; without an address, to any other one."""
        if isinstance(self._service_address, str):
            return
        left, was_listed = self._address, not address
        try:
            self._address = address or self._choose(left)
        except RetriableError:
            self._address = ""
        if self._address != left:
            self._was_listed = was_listed
            self._close_channel()

    def redirect(self, error: PenstockError) -> str | None:
        """Return the address that an error redirects to.

        Empty for any other instance, None when the error is the final answer.
        """
        if isinstance(self._service_address, str) or error.code not in REDIRECT_CODES:
            return None
        return error.diagnostic.suggestion

    async def close(self) -> None:
        """Close the channel and cancel calls in progress. Idempotent."""
        await cancel_and_wait(*self._closing)
        if self._channel is not None:
            await self._channel.close()

    def unary_unary(self, *method: Any, **options: Any) -> Callable[..., Any]:
        """Return a call that uses the instance that is current when the call is made."""
        return self._late_bound("unary_unary", method, options)

    def unary_stream(self, *method: Any, **options: Any) -> Callable[..., Any]:
        """Return a call that uses the instance that is current when the call is made."""
        return self._late_bound("unary_stream", method, options)

    def stream_unary(self, *method: Any, **options: Any) -> Callable[..., Any]:
        """Return a call that uses the instance that is current when the call is made."""
        return self._late_bound("stream_unary", method, options)

    def stream_stream(self, *method: Any, **options: Any) -> Callable[..., Any]:
        """Return a call that uses the instance that is current when the call is made."""
        return self._late_bound("stream_stream", method, options)

    def _late_bound(
        self, kind: str, method: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            named |= trace_arguments(named.get("metadata") or ())
            return getattr(self.channel(), kind)(*method, **options)(*arguments, **named)

        return call

    def _is_unlisted(self) -> bool:
        """Return whether other instances are listed and the current one is not.

        It may still answer, but is cut off from something. An empty list means only that nothing
        is known.
        """
        if isinstance(self._service_address, str) or not self._address:
            return False
        known = self._service_address()
        self._was_listed = self._was_listed or self._address in known
        return bool(known) and self._was_listed and self._address not in known

    def _close_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            closing = asyncio.ensure_future(channel.close(CLOSE_GRACE_S))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _choose(self, left: str) -> str:
        """Return an instance, each one once before any a second time.

        A lease outlives its holder, so dead instances stay listed for a while and must not use up
        the few attempts of a call.
        """
        if isinstance(self._service_address, str):
            return self._service_address
        known = set(self._service_address())
        if not known:
            raise RetriableError(
                "discovery.nobody",
                f"no instance of the {_service_name(self._service_address)} is registered",
                fix="Start one, and check that its cluster has the same name.",
                retry_after_s=0.5,
            )
        before = [other for other in self._left if other != left]
        self._left = [other for other in (*before, left) if other in known]
        fresh = sorted(known.difference(self._left))
        return random.choice(fresh) if fresh else self._left[0]  # noqa: S311 - spreads clients
