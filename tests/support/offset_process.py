"""Offset services as processes of their own: started, killed, started again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from support.processes import DIES_WITH_US

READY = 90.0
"""Seconds until a service serves."""


class OffsetProcess:
    """One service at `address`. Leaving the `with` block kills it."""

    def __init__(self, folder: Path, name: str, store: str) -> None:
        """`store` is as `support.offset_service` takes it."""
        self._socket = folder / name
        self._store = store
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it serves."""
        return f"unix:{self._socket}"

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until its socket is there."""
        self._socket.unlink(missing_ok=True)
        command = [sys.executable, "-m", "support.offset_service", self.address, self._store]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen([*DIES_WITH_US, *command], env=environment)
        end = time.monotonic() + READY
        while not self._socket.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the offset service did not start")
            time.sleep(0.01)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
