"""Channels with the same limits as the servers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.model.errors import ConfigError

_UNIX: Final = "unix:"
_LONGEST_PATH: Final = 107  # sockaddr_un.sun_path of Linux, without its end


def is_unix(address: str) -> bool:
    """Tell whether an address is a unix socket."""
    return address.startswith(_UNIX)


def socket_path(address: str) -> Path:
    """Return the path of a unix socket's address.

    Raises:
        ConfigError: `rpc.path_too_long`: the kernel would cut it.
    """
    path = address.removeprefix(_UNIX)
    if len(path.encode()) > _LONGEST_PATH:
        raise ConfigError(
            "rpc.path_too_long",
            f"the socket path {path} has more than {_LONGEST_PATH} bytes",
            fix="Choose a shorter state folder.",
        )
    return Path(path)


def prepare_socket(path: Path) -> None:
    """Make the folder of a socket private, and remove what a crash left behind.

    Raises:
        ConfigError: `rpc.address_in_use` when something listens there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise address_in_use(f"{_UNIX}{path}")


def address_in_use(address: str) -> ConfigError:
    """Return the error for an address that another process holds, or that is not ours. A socket's
    path is made by us, and no key says it.
    """
    return ConfigError(
        "rpc.address_in_use",
        f"cannot listen at {address}: it is taken, or no address of this machine",
        fix="Stop the other process, or choose another address.",
        config_path="" if is_unix(address) else "listen",
    )


MAX_MESSAGE_BYTES: Final = 16 << 20
"""Largest message between services, both ways. Rows never go this way; a task plan with 100,000
partitions does."""

KEEPALIVE_MS: Final = 20_000
"""Milliseconds of silence after which a peer is asked whether it is there."""

SILENT_MS: Final = 10_000
"""Milliseconds that a peer gets for its part: the handshake, what it must say first, the answer to
a question. Less cuts off one whose machine is busy; more lets half-open ones gather."""

CONNECT_MS: Final = 3000
"""Milliseconds that a connection may take. A busy machine or TLS across an ocean takes half a
second; what says nothing at all for longer is left for another instance."""

_OPTIONS: Final = (
    # A service that was started anew is found within this, not within gRPC's default of up to 20 s.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),  # not a backoff, whatever it is called
    # Proxies of the environment are for the way out, not between our services.
    ("grpc.enable_http_proxy", 0),
    # A peer that is gone without a word is noticed after 30 s.
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", SILENT_MS),
)


Dial: TypeAlias = Callable[[str], grpc.aio.Channel]
"""Opens a channel to an address."""


def limits(max_message_bytes: int) -> list[tuple[str, int]]:
    """Return the options that bound messages both ways (invariant 12)."""
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
    ]


def server_options(max_message_bytes: int) -> list[tuple[str, int]]:
    """Return the options of a server: it bounds messages, and bears the questions of our channels.
    By default it hangs up on who asks more often than every five minutes on a quiet stream, and
    keeps a connection for hours whose peer is gone or says nothing.
    """
    return [
        *limits(max_message_bytes),
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
        ("grpc.server_handshake_timeout_ms", SILENT_MS),
        ("grpc.http2.settings_timeout", SILENT_MS),
        ("grpc.http2.ping_timeout_ms", SILENT_MS),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", SILENT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
    ]


def authority(address: str) -> list[tuple[str, str]]:
    """Return the option for `:authority` of calls to an address. By default that of a unix socket
    is its percent-encoded path, which is no host: strict servers of HTTP/2, as in Rust, reset
    every call with it (grpc/grpc#38142).
    """
    return [("grpc.default_authority", "localhost")] if address.startswith("unix:") else []


def options(max_message_bytes: int) -> list[tuple[str, int]]:
    """Return the options of a channel."""
    return [*_OPTIONS, *limits(max_message_bytes)]


def open_channel(address: str, max_message_bytes: int = MAX_MESSAGE_BYTES) -> grpc.aio.Channel:
    """Return a channel to `unix:/path` or `host:port`; it connects when first used."""
    chosen = [*options(max_message_bytes), *authority(address)]
    return grpc.aio.insecure_channel(address, options=chosen)


async def serves(address: str, seconds: float = 1.0) -> bool:
    """Tell whether a server says within some seconds that it serves (`grpc.health.v1`)."""
    async with open_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its stubs name no methods
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=seconds)
        except grpc.aio.AioRpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
