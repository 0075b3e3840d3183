"""Sockets that receive what others send (UDP, TCP, TLS), and what waits to be read, within bounds.

A sender is not asked again: what came waits in memory until the task takes it. Beyond the bound
datagrams are dropped and counted, and connections are not read, so that their senders wait.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from penstock_connector import ConfigError, RetriableError

_log = logging.getLogger(__name__)

_DATAGRAM: Final = 1 << 16
_RECEIVE_BUFFER: Final = 8 << 20
"""What is asked of the system for a burst that comes while rows are made."""

_TURN: Final = 256
"""Datagrams, or pieces of a connection, that are received before another socket has its turn."""

_LOOK: Final = 0.1
"""Seconds after which a full queue is looked at again, and the end."""

_HANDSHAKE_S: Final = 10.0
"""Longest time for a handshake of TLS. Shorter would refuse senders on slow lines; longer would let
those that say nothing hold a connection."""

_ITEM_BYTES: Final = 64
"""What Python takes for a piece beside its bytes: many small ones must not grow past the bound."""

MAX_CONNECTIONS: Final = 4096
LEAST_QUEUE: Final = 1 << 16
"""A datagram has so many bytes."""


class Received(NamedTuple):
    """A piece that came: its bytes, the address of its sender, and what is wrong with it."""

    data: bytes
    sender: str
    fault: str = ""


class Framing(Protocol):
    """Takes the bytes of one connection apart."""

    is_broken: bool
    """Where the next piece begins is not known: the connection is closed."""

    def feed(self, block: bytes) -> Sequence[tuple[bytes, str]]:
        """Return the pieces that are whole now, and what is wrong with each."""

    def end(self) -> Sequence[tuple[bytes, str]]:
        """Return what is left when the sender has closed the connection."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where is listened, and how.

    Attributes:
        host: Address to listen at.
        port: Port to listen at.
        is_udp: By datagrams; else by connections.
        host_key: The key of `host`.
        port_key: The key of `port`.
    """

    host: str
    port: int
    is_udp: bool
    host_key: str = "listen.host"
    port_key: str = "listen.port"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    sender: str
    framing: Framing
    greet_until: float = 0.0  # 0: the handshake is over, or there is none


class Listener:
    """Receives in a thread of its own.

    Args:
        place: Where.
        framing: Makes what takes a connection apart.
        ready: Called when something comes where nothing was.
        max_bytes: Most bytes that wait.
        max_connections: Most connections at once.
        tls: How TLS is spoken; None without.

    Raises:
        OSError: It cannot listen there.

    Attributes:
        dropped: Datagrams that found no room, so far.
        refused: Connections that were one too many, so far.
        unsecured: Connections that did not agree on TLS, so far.
        unsecured_why: Why the last of them did not.
    """

    def __init__(
        self,
        place: Place,
        framing: Callable[[], Framing],
        ready: Callable[[], None],
        *,
        max_bytes: int,
        max_connections: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._place, self._framing, self._ready, self._tls = place, framing, ready, tls
        self._max_bytes, self._max_connections = max_bytes, max_connections
        self._lock = threading.Lock()
        self._pieces: list[Received] = []
        self._size = self.dropped = self.refused = self.unsecured = 0
        self.unsecured_why = ""
        self._ending = threading.Event()
        self._failure: Exception | None = None
        self._socket = listening_socket(place)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, _Connection] = {}
        self._selector.register(self._socket, selectors.EVENT_READ)
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(
            target=self._run, name=f"listener-{place.port}", daemon=True
        )
        self._thread.start()

    def take(self) -> list[Received]:
        """Return what was received.

        Raises:
            OSError: Nothing more is received.
        """
        if self._failure is not None:
            raise OSError(str(self._failure)) from self._failure
        with self._lock:
            pieces, self._pieces, self._size = self._pieces, [], 0
        return pieces

    def close(self) -> None:
        """Stop, and close all sockets."""
        self._ending.set()
        self._thread.join()
        for one in [*self._connections, self._socket]:
            one.close()
        self._selector.close()

    def _run(self) -> None:
        try:
            self._receive()
        except Exception as error:  # noqa: BLE001 - told by the thread of the task
            self._failure = error
            self._ready()

    def _receive(self) -> None:
        while not self._ending.is_set():
            if not self._place.is_udp and self._is_full():
                self._ending.wait(_LOOK)  # who sends waits, too
                continue
            for key, _ in self._selector.select(_LOOK):
                if key.data is not None:
                    self._read(key.data)
                elif self._place.is_udp:
                    self._read_datagrams()
                else:
                    self._accept()
            self._end_slow_handshakes()

    def _is_full(self) -> bool:
        with self._lock:
            return self._size >= self._max_bytes

    def _read_datagrams(self) -> None:
        for _ in range(_TURN):
            try:
                block, sender = self._socket.recvfrom(_DATAGRAM)
            except (BlockingIOError, InterruptedError):
                return
            self._put(block, sender[0])

    def _accept(self) -> None:
        try:
            one, sender = self._socket.accept()
        except OSError:
            return  # it left before it was accepted
        if len(self._connections) >= self._max_connections:
            self.refused += 1
            one.close()
            return
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a sender may be gone for good
        greet_until = 0.0
        if self._tls is not None:
            one = self._tls.wrap_socket(one, server_side=True, do_handshake_on_connect=False)
            greet_until = time.monotonic() + _HANDSHAKE_S
        connection = _Connection(one, sender[0], self._framing(), greet_until)
        self._connections[one] = connection
        self._selector.register(one, selectors.EVENT_READ, connection)

    def _greet(self, connection: _Connection, one: ssl.SSLSocket) -> bool:
        """Go on with the handshake; return whether it is over."""
        try:
            one.do_handshake()
        except ssl.SSLWantReadError:
            self._selector.modify(one, selectors.EVENT_READ, connection)
            return False
        except ssl.SSLWantWriteError:
            self._selector.modify(one, selectors.EVENT_WRITE, connection)
            return False
        except OSError as error:
            self._refuse(connection, str(getattr(error, "reason", "") or error))
            return False
        connection.greet_until = 0.0
        self._selector.modify(one, selectors.EVENT_READ, connection)
        return True

    def _end_slow_handshakes(self) -> None:
        if self._tls is None:
            return
        now = time.monotonic()
        for connection in list(self._connections.values()):
            if connection.greet_until and now > connection.greet_until:
                self._refuse(connection, f"no handshake within {_HANDSHAKE_S:g} s")

    def _refuse(self, connection: _Connection, why: str) -> None:
        self.unsecured_why = f"{connection.sender}: {why}"
        self.unsecured += 1
        self._close(connection)
        self._ready()

    def _read(self, connection: _Connection) -> None:
        one, framing = connection.socket, connection.framing
        if (
            connection.greet_until
            and isinstance(one, ssl.SSLSocket)
            and not self._greet(connection, one)
        ):
            return
        for _ in range(_TURN):
            try:
                block = one.recv(_DATAGRAM)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:
                block = b""
            for data, fault in framing.feed(block) if block else framing.end():
                self._put(data, connection.sender, fault, wait=True)
            if not block or framing.is_broken:
                self._close(connection)
                return
            # bytes that TLS has unpacked are not seen by the selector
            if not isinstance(one, ssl.SSLSocket) or not one.pending():
                return

    def _close(self, connection: _Connection) -> None:
        self._selector.unregister(connection.socket)
        del self._connections[connection.socket]
        with contextlib.suppress(OSError):
            connection.socket.close()

    def _put(self, data: bytes, sender: str, fault: str = "", *, wait: bool = False) -> None:
        """Keep a piece. That of a connection is kept beyond the bound: it was acknowledged."""
        if not data:
            return
        size = len(data) + _ITEM_BYTES
        with self._lock:
            first = not self._pieces
            if not wait and not first and self._size + size > self._max_bytes:
                self.dropped += 1
                return
            self._pieces.append(Received(data, sender, fault))
            self._size += size
        if first:
            self._ready()


class LossReport:
    """Counts what a listener lost, and warns of it.

    Args:
        metrics: The numbers of the task.
        code: Code of the warning.
        advice: Of each thing that is lost: what to do.
    """

    def __init__(self, metrics: Any, code: str, advice: Mapping[str, str]) -> None:
        self._metrics, self._code, self._advice = metrics, code, advice
        self._reported = dict.fromkeys(advice, 0)

    def report(self, lost: Mapping[str, int]) -> None:
        """Report what was lost since the last report; `lost` counts from the beginning."""
        for name, count in lost.items():
            more = count - self._reported[name]
            if more:
                self._metrics.add(f"{name}_total", more)
                _log.warning("[%s] %d more %s: %s", self._code, more, name.replace("_", " "),
                             self._advice[name])  # fmt: skip
        self._reported.update(lost)


def listening_socket(place: Place) -> socket.socket:
    """Return a socket that listens.

    Raises:
        OSError: It cannot.
    """
    kind = socket.SOCK_DGRAM if place.is_udp else socket.SOCK_STREAM
    family, _, _, _, address = socket.getaddrinfo(
        place.host, place.port, type=kind, flags=socket.AI_PASSIVE
    )[0]
    made = socket.socket(family, kind)
    try:
        if place.is_udp:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        if not place.is_udp:
            made.listen()
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def listen_error(code: str, place: Place, error: OSError) -> ConfigError:
    """Return the error of a place where it cannot listen."""
    return ConfigError(
        code,
        f"cannot listen at {place} ({'udp' if place.is_udp else 'tcp'}): {error.strerror or error}",
        fix=f"Set `{place.host_key}` to an address of the worker and `{place.port_key}` to a "
        "free port.",
        config_path=place.port_key,
    )


def receive_error(code: str, place: Place, error: OSError) -> RetriableError:
    """Return the error of a listener that receives nothing more."""
    return RetriableError(
        code,
        f"receiving at {place} ended: {error}",
        fix="The task listens again; look at the network of the worker.",
    )
