"""Run a penstock process in a folder of its own: wait for it, kill it, find what it leaves.

    with PenstockProcess(folder, "standalone", "source.yaml", "sink.yaml") as worker:
        worker.wait_for(lambda: read_ledger(path).rows >= 1000, 60, "1000 rows at the sink")
        worker.kill()
    assert not worker.leftovers().processes

Sockets and temporary files of a process go below a short folder that `TMPDIR` names. So leftovers
are found, and so is any process that outlives it: its environment names the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock_kit.testing.process_tree import (
    Process,
    Usage,
    find_processes,
    list_tree,
    read_process,
    usage_of,
)

_POLL_INTERVAL_S: Final = 0.02
"""First time between two checks of a condition. Shorter costs CPU that the process under test
needs; longer is added to every wait."""

_MAX_POLL_INTERVAL_S: Final = 0.25
"""Last one: the time grows as a twentieth of the wait so far."""

_TREE_INTERVAL_S: Final = 0.5
"""Time between two readings of the process tree during a wait. Each reads all of /proc: more of
them disturb a measurement, fewer miss a child that ends soon after its parent."""

_KILL_TIMEOUT_S: Final = 10.0
"""Time for killed processes to be gone, on a machine that is busy."""

_MAX_LOG_CHARACTERS: Final = 4000
"""End of a log that an error shows."""


def wait_until(condition: Callable[[], object], deadline: float, stage: str) -> None:
    """Return when the condition holds.

    Raises:
        TimeoutError: it does not hold within `deadline` seconds; the message names `stage`.
    """
    started_at = time.monotonic()
    while not condition():
        waited = time.monotonic() - started_at
        if waited > deadline:
            raise TimeoutError(f"waited {deadline:g} s for {stage}")
        time.sleep(min(max(_POLL_INTERVAL_S, waited / 20), _MAX_POLL_INTERVAL_S))


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is left of a run: processes that name its folder, sockets and files in the folder."""

    processes: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.processes or self.sockets or self.files)

    def __str__(self) -> str:
        kinds = {"process": self.processes, "socket": self.sockets, "file": self.files}
        lines = [f"{kind} {item}" for kind, items in kinds.items() for item in items]
        return "\n".join(lines) or "nothing is left"


def find_leftovers(folder: Path) -> Leftovers:
    """Find what is left of a run whose sockets and temporary files are below `folder`."""
    # os.walk skips what vanishes meanwhile: a process may be cleaning up
    found = [Path(place, name) for place, _, names in os.walk(folder) for name in sorted(names)]
    return Leftovers(
        processes=tuple(str(process) for process in find_processes(str(folder))),
        sockets=tuple(str(path) for path in found if path.is_socket()),
        files=tuple(str(path) for path in found if not path.is_socket()),
    )


class PenstockProcess:
    """One penstock command, its log, and its descendants.

    Leaving the `with` block kills all of them.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        module: str = "penstock.cli",
    ) -> None:
        """Prepare `penstock <arguments>` with `folder` as its working folder. `prefix` comes before
        the command, and executes it: `ip netns exec NAME`. `module` has the command line.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        # short: the path of a unix socket has at most 107 bytes
        self.scratch = Path(tempfile.mkdtemp(prefix="pst-"))
        self.log = folder / "process.log"
        self._command = [*prefix, sys.executable, "-m", module, *map(str, arguments)]
        self._env = {**os.environ, **(env or {}), "TMPDIR": str(self.scratch)}
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[tuple[int, int], Process] = {}
        self._tree_read_at = 0.0

    def start(self) -> Self:
        """Start it in a session of its own; its output is appended to `log`."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._running().pid

    @property
    def returncode(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._running().poll()

    @property
    def output(self) -> str:
        """Its output so far."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def wait_for(self, condition: Callable[[], object], deadline: float, stage: str) -> None:
        """Return when the condition holds while the process runs.

        Raises:
            TimeoutError: it does not hold in time; names the stage and the end of the log.
            RuntimeError: the process ended before.
        """

        def holds() -> object:
            if time.monotonic() - self._tree_read_at > _TREE_INTERVAL_S:
                self.record_tree()
            # the exit code first: a condition that its last step made true still counts
            code = self.returncode
            holds_now = condition()
            if not holds_now and code is not None:
                raise RuntimeError(
                    f"ended with {code} before {stage}\n{self.output[-_MAX_LOG_CHARACTERS:]}"
                )
            return holds_now

        try:
            wait_until(holds, deadline, stage)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.output[-_MAX_LOG_CHARACTERS:]}") from None

    def wait(self, deadline: float) -> int:
        """Return the exit code.

        Raises:
            TimeoutError: it does not end in time.
        """
        self.wait_for(lambda: self.returncode is not None, deadline, "the process to end")
        return self._running().wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        self.record_tree()
        if self.returncode is None:
            self._running().send_signal(number)

    def stop(self, deadline: float = 30) -> int:
        """Stop it with SIGTERM; return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(deadline)

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL). Its children stay."""
        self.signal(signal.SIGKILL)
        self._running().wait()

    def process_tree(self) -> list[Process]:
        """Return the process and its descendants."""
        return list_tree(self.pid)

    def usage(self) -> Usage:
        """Return the use of the process and its descendants now."""
        return usage_of(self.pid)

    def record_tree(self) -> None:
        """Record the processes of the tree, so that an orphan is found later."""
        self._tree_read_at = time.monotonic()
        if self._process is not None:
            self._known.update({process.identity: process for process in list_tree(self.pid)})

    def leftovers(self) -> Leftovers:
        """Return its live processes, recorded or with its folder's name, and sockets and files."""
        left = find_leftovers(self.scratch)
        live = tuple(str(process) for process in self._live())
        return Leftovers(live, left.sockets, left.files)

    def close(self) -> None:
        """Kill all of its processes, and remove its temporary files."""
        self.record_tree()
        for process in self._live():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        with contextlib.suppress(TimeoutError):  # the kernel ends them in its own time
            wait_until(lambda: not self._live(), _KILL_TIMEOUT_S, "the end of killed processes")
        shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _live(self) -> list[Process]:
        """Return its live processes, in the tree or orphaned."""
        self._known.update(
            {process.identity: process for process in find_processes(str(self.scratch))}
        )
        now = map(read_process, sorted({pid for pid, _ in self._known}))
        return [process for process in now if process and process.identity in self._known]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the process was not started")
        return self._process
