"""One channel at a time, to one of several members. Whoever sees it fail moves all to the next."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from penstock.etcd.methods import A, Method, Q
from penstock.etcd.settings import EtcdSettings, Tls
from penstock.model.errors import ConfigError

LARGEST_ANSWER: Final = 64 << 20
"""Bytes of one answer (invariant 12): a page of values. Watches are cut by etcd at 2 MB."""

_GRACE: Final = 0.5
"""Seconds that calls on a channel that was left may still take."""

_CONNECT_MS: Final = 3000
"""Milliseconds that a connection may take, before another member is tried."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    ("grpc.max_send_message_length", LARGEST_ANSWER),  # etcd refuses with words, gRPC without
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # not a backoff, whatever it is called
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    # A member that hangs is left after 8 s even by a watch that waits for events. etcd closes
    # connections that ask more often than every 5 s.
    ("grpc.keepalive_time_ms", 6000),
    ("grpc.keepalive_timeout_ms", 2000),
    ("grpc.keepalive_permit_without_calls", 0),
    # Two clients of one process share no connection: a test of one must not cut the other.
    ("grpc.use_local_subchannel_pool", 1),
)


class Channel:
    """The way to etcd. Belongs to one event loop; `close` ends it."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Choose the first member; it connects when first used."""
        self._settings = settings
        self.generation = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._open()

    @property
    def endpoint(self) -> str:
        """The member that is spoken to now."""
        endpoints = self._settings.endpoints
        return endpoints[self.generation % len(endpoints)]

    def unary(self, method: Method[Q, A]) -> grpc.aio.UnaryUnaryMultiCallable[Q, A]:
        """Return a call with one answer."""
        call: grpc.aio.UnaryUnaryMultiCallable[Q, A] = self._callable("unary_unary", method)
        return call

    def stream(self, method: Method[Q, A]) -> grpc.aio.StreamStreamMultiCallable[Q, A]:
        """Return a call of two streams."""
        call: grpc.aio.StreamStreamMultiCallable[Q, A] = self._callable("stream_stream", method)
        return call

    def leave(self, generation: int) -> None:
        """Go to the next member, unless another caller has left that one already."""
        if generation != self.generation:
            return
        self.generation += 1
        self._let_go(self._channel)
        self._open()

    async def close(self) -> None:
        """Cut every call. Idempotent."""
        await self._channel.close()
        for task in tuple(self._closing):
            await task

    def _open(self) -> None:
        options = list(_OPTIONS)
        tls = self._settings.tls
        self._callables: dict[str, Any] = {}
        if tls is None:
            self._channel = grpc.aio.insecure_channel(self.endpoint, options)
        else:
            self._channel = grpc.aio.secure_channel(self.endpoint, _credentials(tls), options)

    def _let_go(self, channel: grpc.aio.Channel) -> None:
        task = asyncio.get_running_loop().create_task(channel.close(_GRACE))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _callable(self, shape: str, method: Method[Q, A]) -> Any:
        if method.path not in self._callables:
            make = getattr(self._channel, shape)
            self._callables[method.path] = make(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.answer,
            )
        return self._callables[method.path]


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        *(_read(getattr(tls, name), name) for name in ("authority", "key", "certificate"))
    )


def _read(file: Path | None, name: str) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(
            "etcd.tls_unreadable",
            f"{file} cannot be read: {error.strerror}",
            fix="Check the path, and that this user may read it.",
            config_path=f"etcd.tls.{name}",
        ) from error
