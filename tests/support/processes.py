"""What processes of tests are started with: free ports, an end with the test, the plain engine."""

from __future__ import annotations

import itertools
import os
import random
import socket
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


_LANES: Final = 4
_LANE: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw3").removeprefix("gw")) % _LANES
_PORTS: Final = range(10_240 + 4 * _LANE, 32_000, 4 * _LANES)
"""Ports for servers that are killed and started again: below those that the system gives to
connections, one of which could take the port meanwhile, and for this lane of tests alone. A server
may use the three before its own, too.
"""

_TAKEN = set[int]()


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody listens on; those that were returned before come last:
    their servers may be about to start again.
    """
    candidates = random.SystemRandom().sample(_PORTS, len(_PORTS))
    candidates.sort(key=lambda port: port in _TAKEN)
    found = list(itertools.islice(filter(_is_free, candidates), count))
    assert len(found) == count, f"no {count} of {len(_PORTS)} ports are free"
    _TAKEN.update(found)
    return found


def _is_free(port: int) -> bool:
    try:
        for used in range(port - 3, port + 1):
            with socket.socket() as one:
                one.bind(("127.0.0.1", used))
    except OSError:
        return False
    return True
