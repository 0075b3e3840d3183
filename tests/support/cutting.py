"""A TCP proxy on a private port whose connections can be cut, as a firewall or a cable would.

with CuttingProxy(server.port) as proxy:
    connect(proxy.port)
    proxy.cut()
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Final, Self

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: closing resets the connection instead of ending it in order."""


class CuttingProxy:
    """Passes bytes on to a port of this machine. Leaving the `with` block cuts everything."""

    def __init__(self, target: int, late_s: float = 0.0) -> None:
        """Listen; `target` may begin to listen later, and connections are refused until then.
        `late_s`: how late the first bytes of its answer are.
        """
        self._target, self._late_s = target, late_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    def cut(self) -> int:
        """Reset all connections; returns how many there were."""
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads it, which closes
        return len(ends) // 2

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                near, _ = self._listener.accept()
                self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        with self._lock:
            self._open |= {near, far}
        for ends in ((near, far, 0.0), (far, near, self._late_s)):
            threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, late_s: float) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                time.sleep(late_s)
                late_s = 0.0
                sink.sendall(data)
        with self._lock:
            self._open -= {source, sink}
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # nobody may read what is closed next
        source.close()
        sink.close()
