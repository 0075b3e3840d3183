"""Sockets that receive metrics, and what waits to be read, within bounds."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Final

from penstock_connector import ConfigError, RetriableError
from penstock_metrics.statsd_source.config import StatsdSourceConfig

_log = logging.getLogger(__name__)

_DATAGRAM: Final = 1 << 16
_RECEIVE_BUFFER: Final = 8 << 20
"""What is asked of the system for a burst that comes while rows are made."""

_TURN: Final = 256
"""Datagrams that are received before the other thread may have its turn."""

_LOOK: Final = 0.1
"""Seconds after which a full queue is looked at again, and the end."""


class Receiver:
    """Receives in a thread of its own.

    Attributes:
        dropped: Datagrams that found no room, so far.
        refused: Connections that were one too many, so far.
    """

    def __init__(self, config: StatsdSourceConfig, ready: Callable[[], None]) -> None:
        self._config, self._ready = config, ready
        self._lock = threading.Lock()
        self._blocks: list[bytes] = []
        self._size = self.dropped = self.refused = 0
        self._ending = threading.Event()
        self._failure: Exception | None = None
        self._selector = selectors.DefaultSelector()
        self._rests: dict[socket.socket, bytes] = {}
        self._socket = listening_socket(config)
        self._selector.register(self._socket, selectors.EVENT_READ, self._socket)
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="statsd", daemon=True)
        self._thread.start()

    def take(self) -> bytes:
        """Return what was received, as lines.

        Raises:
            RetriableError: `statsd.failed`; nothing more is received.
        """
        if self._failure is not None:
            raise RetriableError(
                "statsd.failed",
                f"receiving at {self._config.listen_host}:{self.port} ended: {self._failure}",
                fix="The task listens again; look at the network of the worker.",
            )
        with self._lock:
            blocks, self._blocks, self._size = self._blocks, [], 0
        return b"\n".join(blocks)

    def close(self) -> None:
        """Stop, and close all sockets."""
        self._ending.set()
        self._thread.join()
        for one in [*self._rests, self._socket]:
            one.close()
        self._selector.close()

    def _run(self) -> None:
        try:
            self._receive()
        except Exception as error:  # noqa: BLE001 - told by the thread of the task
            self._failure = error
            self._ready()

    def _receive(self) -> None:
        udp = self._config.protocol == "udp"
        while not self._ending.is_set():
            if not udp and self._full():
                self._ending.wait(_LOOK)  # who sends waits, too
                continue
            for key, _ in self._selector.select(_LOOK):
                one: socket.socket = key.data
                if udp:
                    self._datagrams(one)
                elif one is self._socket:
                    self._accept()
                else:
                    self._stream(one)

    def _full(self) -> bool:
        with self._lock:
            return self._size >= self._config.queue_max_bytes

    def _datagrams(self, one: socket.socket) -> None:
        for _ in range(_TURN):
            try:
                block = one.recv(_DATAGRAM)
            except (BlockingIOError, InterruptedError):
                return
            self._put(block)

    def _accept(self) -> None:
        try:
            one, _ = self._socket.accept()
        except OSError:
            return  # it left before it was accepted
        if len(self._rests) >= self._config.max_connections:
            self.refused += 1
            one.close()
            return
        one.setblocking(False)
        self._rests[one] = b""
        self._selector.register(one, selectors.EVENT_READ, one)

    def _stream(self, one: socket.socket) -> None:
        try:
            block = one.recv(_DATAGRAM)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            block = b""
        lines, newline, rest = (self._rests[one] + block).rpartition(b"\n")
        if not block:  # its last line may have no newline
            lines, newline, rest = rest, rest, b""
        if newline:
            self._put(lines, wait=True)
        if len(rest) > self._config.max_line_bytes:
            self._put(rest, wait=True)  # it becomes a bad row, and its end is not known
            block = b""
        self._rests[one] = rest
        if not block:
            self._selector.unregister(one)
            del self._rests[one]
            one.close()

    def _put(self, block: bytes, *, wait: bool = False) -> None:
        """Keep a block. A block of a connection is kept beyond the bound: it was acknowledged."""
        if not block:
            return
        with self._lock:
            if not wait and self._size + len(block) > self._config.queue_max_bytes:
                self.dropped += 1
                return
            first = not self._blocks
            self._blocks.append(block)
            self._size += len(block)
        if first:
            self._ready()


def listening_socket(config: StatsdSourceConfig) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ConfigError: `statsd.listen`.
    """
    udp = config.protocol == "udp"
    kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
    made = None
    try:
        family, _, _, _, place = socket.getaddrinfo(
            config.listen_host, config.listen_port, type=kind, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind)
        if udp:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        if not udp:
            made.listen()
        made.setblocking(False)
    except OSError as error:
        if made is not None:
            made.close()
        raise ConfigError(
            "statsd.listen",
            f"cannot listen at {config.listen_host}:{config.listen_port} ({config.protocol}): "
            f"{error.strerror or error}",
            fix="Set `listen.host` to an address of the worker and `listen.port` to a free port.",
            config_path="listen.port",
        ) from None
    return made
