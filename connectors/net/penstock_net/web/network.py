"""The sockets below the library: opened where they may lead, and cut off from another thread."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpcore

from penstock_connector.addresses import AddressPolicy


@dataclass(frozen=True, slots=True)
class Way:
    """How we came to a server.

    Attributes:
        configured: The configuration names its origin.
        led_from: Else the host that led there; empty for one that a row names.
    """

    configured: bool
    led_from: str = ""


class Network(httpcore.NetworkBackend):
    """Opens the very address that was looked at.

    Attributes:
        way: How we came to the server that is connected to next.
        opened: Connections so far.
    """

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._sockets = httpcore.SyncBackend()
        self._newest: httpcore.NetworkStream | None = None
        self.way, self.opened = Way(True), 0

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Return a connection to the first address of a host that takes one.

        Raises:
            ConfigError: `http.address_refused`.
        """
        failure: Exception = OSError(f"{host} has no address")
        for address in self._policy.addresses(
            host.strip("[]"), port, configured=self.way.configured, led_from=self.way.led_from
        ):
            try:
                stream = self._sockets.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                self.opened += 1
                return self.watched(stream)
        raise failure

    def watched(self, stream: httpcore.NetworkStream) -> httpcore.NetworkStream:
        """Take note of a connection, or of what TLS makes of it."""
        self._newest = _Watched(stream, self)
        return self._newest

    def cut(self) -> None:
        """End the newest connection now; for other threads."""
        if self._newest is not None:
            with contextlib.suppress(OSError):
                self._newest.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class _Watched(httpcore.NetworkStream):
    """A connection of the library, which tells when TLS replaces its socket."""

    def __init__(self, stream: httpcore.NetworkStream, network: Network) -> None:
        self._stream, self._network = stream, network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        return self._network.watched(self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
