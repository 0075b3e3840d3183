"""Processes that outlive the command that started them, and are found again by the next one.

`<name>.started` holds the pid and the start time of a process, so that a later process with the
same pid is never mistaken for it, and never signalled. `<name>.pid` holds the pid alone, for users
and their tools. Linux only: the end is observed through a pidfd.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ENDED_STATES: Final = frozenset("ZX")
"""States of a process that has ended and was not reaped yet."""

_LOG_TAIL_BYTES: Final = 4096
"""Bytes at the end of a log that an error may quote from."""


@dataclass(frozen=True, slots=True)
class DetachedProcess:
    """A process of a folder: `<name>.started` identifies it, `<name>.log` holds its output."""

    folder: Path
    name: str

    @property
    def log(self) -> Path:
        """The file of its output."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The pid while it runs, else None."""
        try:
            pid, started = map(int, self._file("started").read_text(encoding="ascii").split())
        except (OSError, ValueError):
            return None
        return pid if _start_time(pid) == started else None

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it, unless it runs. It gets its own session, so that no terminal ends it."""
        if self.pid is not None:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started = _start_time(process.pid)
        self._write("started", str(process.pid) if started is None else f"{process.pid} {started}")
        self._write("pid", str(process.pid))
        # no warning that the child was not waited for: it outlives this process
        process.returncode = 0

    def terminate(self) -> None:
        """Send SIGTERM, if it runs."""
        self._signal(signal.SIGTERM)

    async def wait_ended(self, seconds: float) -> bool:
        """Wait for its end. Returns whether it has ended."""
        with self._handle() as handle, suppress(TimeoutError):
            if handle is not None:
                async with asyncio.timeout(seconds):
                    await _readable(handle)
        if self.pid is not None:
            return False
        for suffix in ("pid", "started"):
            self._file(suffix).unlink(missing_ok=True)
        return True

    def kill(self) -> None:
        """Send SIGKILL, if it runs."""
        self._signal(signal.SIGKILL)

    def last_error(self) -> str:
        """Return the last error line of its output, else the last line."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - _LOG_TAIL_BYTES))
                text = log.read().decode("utf-8", errors="replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error:")]
        return (errors or lines or [""])[-1]

    def _file(self, suffix: str) -> Path:
        return self.folder / f"{self.name}.{suffix}"

    def _write(self, suffix: str, text: str) -> None:
        """Write a file atomically: a reader sees all of it or none."""
        new = self._file(f"{suffix}.new")
        new.write_text(f"{text}\n", encoding="ascii")
        new.replace(self._file(suffix))

    def _signal(self, number: signal.Signals) -> None:
        with self._handle() as handle, suppress(ProcessLookupError):
            if handle is not None:
                signal.pidfd_send_signal(handle, number)

    @contextmanager
    def _handle(self) -> Iterator[int | None]:
        """Yield a pidfd of this process and of no later one; None when it does not run."""
        pid, handle = self.pid, None
        if pid is not None:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
        try:
            # checked again: with an open pidfd the pid cannot go to another process
            yield handle if self.pid == pid else None
        finally:
            if handle is not None:
                os.close(handle)


async def _readable(handle: int) -> None:
    """Wait until a pidfd is readable: its process has ended."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)


def _start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None when it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # the name in brackets may contain brackets and blanks: count fields from the last bracket
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in _ENDED_STATES else int(fields[19])
