"""Channels with the same limits as the servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import grpc.aio

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
