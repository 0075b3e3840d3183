"""Ports for servers of tests, and servers that die with the test."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Final

DIES_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
"""In front of a command: it is killed when the process that started it ends, however it ends."""


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
