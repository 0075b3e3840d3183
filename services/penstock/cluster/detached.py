"""Processes that outlive the command that started them, and are found again by the next one.

`<name>.started` names each by its number and the moment of its start, so that another process that
got the number later is never taken for it, and never signalled. `<name>.pid` has the number alone,
for people and their tools. Linux: the end is seen through a pidfd.
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

_ENDED: Final = frozenset("ZX")
"""States of a process that is only waiting to be forgotten."""

_LAST_BYTES: Final = 4096
"""Bytes of a log that an error may quote from."""


@dataclass(frozen=True, slots=True)
class Detached:
    """A process of a folder: `<name>.started` says which, `<name>.log` has what it prints."""

    folder: Path
    name: str

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """Return its number while it runs."""
        try:
            pid, started = map(int, self._file("started").read_text(encoding="ascii").split())
        except (OSError, ValueError):
            return None
        return pid if _started(pid) == started else None

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it, unless it runs; in a session of its own, so that no terminal ends it."""
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
        started = _started(process.pid)
        self._write("started", str(process.pid) if started is None else f"{process.pid} {started}")
        self._write("pid", str(process.pid))
        # whoever starts it does not wait for its end: that is what `pid` and `stop` are for
        process.returncode = 0

    def ask_to_end(self) -> None:
        """Send SIGTERM, if it runs."""
        self._signal(signal.SIGTERM)

    async def ended(self, seconds: float) -> bool:
        """Wait for its end; tell whether it came."""
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

    def last_words(self) -> str:
        """Return the last error that it printed, else its last line."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - _LAST_BYTES))
                text = log.read().decode("utf-8", errors="replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error:")]
        return (errors or lines or [""])[-1]

    def _file(self, suffix: str) -> Path:
        return self.folder / f"{self.name}.{suffix}"

    def _write(self, suffix: str, text: str) -> None:
        """Write a file in one step: who reads it sees all of it or none."""
        new = self._file(f"{suffix}.new")
        new.write_text(f"{text}\n", encoding="ascii")
        new.replace(self._file(suffix))

    def _signal(self, number: signal.Signals) -> None:
        with self._handle() as handle, suppress(ProcessLookupError):
            if handle is not None:
                signal.pidfd_send_signal(handle, number)

    @contextmanager
    def _handle(self) -> Iterator[int | None]:
        """Yield a handle of this process and of no later one; None when it does not run."""
        pid, handle = self.pid, None
        if pid is not None:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
        try:
            # asked again now that its number cannot go to another process
            yield handle if self.pid == pid else None
        finally:
            if handle is not None:
                os.close(handle)


async def _readable(handle: int) -> None:
    """Wait until a process has ended: then its handle can be read."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None when it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in brackets may itself hold brackets and blanks: fields count from the last one.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in _ENDED else int(fields[19])
