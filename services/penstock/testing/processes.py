"""Starts a penstock process in a folder of its own, waits, kills, and counts what is left.

    with PenstockProcess(folder, "standalone", "source.yaml", "sink.yaml") as worker:
        worker.wait_for(lambda: read_ledger(path).rows >= 1000, 60, "1000 rows at the sink")
        worker.kill()
    assert not worker.leftovers().processes

Everything a process makes for a while (sockets, temporary files) goes below a short folder that
`TMPDIR` names, so that what it leaves is found, and so is any process that outlived it.
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

from penstock.testing.procfs import Process, marked, process_of, tree
from penstock.testing.rss import Usage, usage_of

_POLL: Final = 0.02
"""Seconds between two looks at a condition, at first. Shorter costs CPU that the process under test
needs; longer is added to every wait."""

_POLL_MAX: Final = 0.25
"""Seconds between two looks at a condition that takes long: a twentieth of what it took so far."""

_LOOK: Final = 0.5
"""Seconds between two looks at who belongs to a process while it is waited for. A look reads all of
/proc: more of them disturb a measurement, fewer miss a child that ends soon after its parent."""

_TAIL: Final = 4000
"""Characters of a log that an error shows."""


def wait_until(condition: Callable[[], object], deadline: float, stage: str) -> None:
    """Return when the condition holds.

    Raises:
        TimeoutError: it did not within `deadline` seconds; the message names `stage`.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > deadline:
            raise TimeoutError(f"waited {deadline:g} s for {stage}")
        time.sleep(min(max(_POLL, waited / 20), _POLL_MAX))


@dataclass(frozen=True, slots=True)
class Census:
    """What is left below a folder: processes that name it, sockets and files inside it."""

    processes: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.processes or self.sockets or self.files)

    def __str__(self) -> str:
        kinds = {"process": self.processes, "socket": self.sockets, "file": self.files}
        lines = [f"{kind} {item}" for kind, items in kinds.items() for item in items]
        return "\n".join(lines) or "nothing is left"


def census(folder: Path) -> Census:
    """Count what is left of a run that kept its sockets and temporary files below `folder`."""
    # os.walk passes over what vanishes while it looks: a process may be cleaning up
    found = [Path(place, name) for place, _, names in os.walk(folder) for name in sorted(names)]
    return Census(
        processes=tuple(str(process) for process in marked(str(folder))),
        sockets=tuple(str(path) for path in found if path.is_socket()),
        files=tuple(str(path) for path in found if not path.is_socket()),
    )


class PenstockProcess:
    """One penstock command, its log, and the processes that came of it.

    Owned by the test that made it: leaving the `with` block kills whatever is left.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        """Prepare `penstock <arguments>` with `folder` as its working folder. `within` comes before
        the command, and executes it: `ip netns exec NAME`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        # Short, because the path of a unix socket may have no more than 107 bytes.
        self.scratch = Path(tempfile.mkdtemp(prefix="pst-"))
        self.log = folder / "process.log"
        self._command = [*within, sys.executable, "-m", "penstock.cli", *map(str, arguments)]
        self._env = {**os.environ, **(env or {}), "TMPDIR": str(self.scratch)}
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: dict[tuple[int, int], Process] = {}
        self._looked = 0.0

    def start(self) -> Self:
        """Start it, in a session of its own; its output is added to `log`."""
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
        """Its exit code, None while it runs."""
        return self._running().poll()

    @property
    def output(self) -> str:
        """All it has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def wait_for(self, condition: Callable[[], object], deadline: float, stage: str) -> None:
        """Return when the condition holds while the process lives.

        Raises:
            TimeoutError: it did not in time; names the stage and shows the log's end.
            RuntimeError: the process ended before.
        """

        def holds() -> object:
            if time.monotonic() - self._looked > _LOOK:
                self.remember()
            # Read the exit first: a condition that its last act made true still counts.
            code = self.returncode
            held = condition()
            if not held and code is not None:
                raise RuntimeError(f"ended with {code} before {stage}\n{self.output[-_TAIL:]}")
            return held

        try:
            wait_until(holds, deadline, stage)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.output[-_TAIL:]}") from None

    def wait(self, deadline: float) -> int:
        """Return the exit code.

        Raises:
            TimeoutError: it did not end in time.
        """
        self.wait_for(lambda: self.returncode is not None, deadline, "the process to end")
        return self._running().wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        self.remember()
        if self.returncode is None:
            self._running().send_signal(number)

    def stop(self, deadline: float = 30) -> int:
        """Ask it to stop (SIGTERM) and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(deadline)

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL). Its children are left as they are."""
        self.signal(signal.SIGKILL)
        self._running().wait()

    def family(self) -> list[Process]:
        """Return the process and all that descend from it."""
        return tree(self.pid)

    def usage(self) -> Usage:
        """Return what the process and all that descend from it use now."""
        return usage_of(self.pid)

    def remember(self) -> None:
        """Note who belongs to the process now, so that an orphan is known later."""
        self._looked = time.monotonic()
        if self._process is not None:
            self._seen.update({process.identity: process for process in tree(self.pid)})

    def leftovers(self) -> Census:
        """Count what is left: processes that were seen or that name its folder, sockets, files."""
        left = census(self.scratch)
        alive = tuple(str(process) for process in self._alive())
        return Census(alive, left.sockets, left.files)

    def close(self) -> None:
        """Kill whatever is left and remove its temporary files."""
        self.remember()
        for process in self._alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
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

    def _alive(self) -> list[Process]:
        """Return who of the process's family is alive, in the tree or out of it."""
        self._seen.update({process.identity: process for process in marked(str(self.scratch))})
        now = map(process_of, sorted({pid for pid, _ in self._seen}))
        return [process for process in now if process and process.identity in self._seen]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the process was not started")
        return self._process
