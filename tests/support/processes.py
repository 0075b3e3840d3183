"""What processes of tests are started with: free ports, an end with the test, the plain engine."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

DIES_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
"""In front of a command: it is killed when the process that started it ends, however it ends."""

PLAIN: Final = "support.plain_engine"
"""The module with the command line whose worker has no Spark."""

TESTS: Final = os.pathsep.join(
    part for part in (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")) if part
)
"""`PYTHONPATH` of a process that finds `support`."""


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
