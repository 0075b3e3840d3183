"""A plugin's process on this machine: its pipes, its memory, its end."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Final

from penstock.model.errors import PenstockError
from penstock.plugin import errors
from penstock.plugin.process import memory
from penstock.plugin.process.handshake import FirstHandshake
from penstock.plugin.process.launch import Child, how_it_ended, remove_folder
from penstock.plugin.process.logs import LineCutter, PluginLog, forward

_TERM_GRACE: Final = 1.0
"""Seconds between SIGTERM and SIGKILL, after a Shutdown that was not followed. Longer holds up the
end of the host; shorter takes the last lines of a log from a plugin that is merely slow."""
_LAST_LINES: Final = 1.0
"""Seconds given to the pipes of a process that ended."""


class Running:
    """The process and its two pipes. `who` is `plugin/connector`, for people."""

    def __init__(self, who: str, child: Child, folder: Path, log: PluginLog) -> None:
        self.who, self.child, self.folder, self.log = who, child, folder, log
        self.exited = child.exited
        self.first = FirstHandshake()
        self.cutter = LineCutter()
        self._pumps: list[asyncio.Task[None]] = []
        self._memory: asyncio.Task[None] | None = None
        self.killed_for: PenstockError | None = None

    @property
    def pid(self) -> int:
        """The process, which leads a group of the same number."""
        return self.child.pid

    async def ended(self, within: float) -> bool:
        """Wait for the end, so many seconds at most; tell whether it came."""
        return await self.child.ended(within)

    def death(self) -> PenstockError | None:
        """Return why it ended, None while it lives."""
        if not self.exited.done():
            return None
        how = how_it_ended(self.exited.result())
        return self.killed_for or errors.crashed(self.who, how, self.log.tail)

    def limit_memory(self, most: int) -> None:
        """End it when it has more memory than this, in bytes; 0: never."""
        if most:
            self._memory = asyncio.create_task(
                memory.watch(self.pid, most, lambda now: self._too_large(most, now))
            )

    async def listen(self) -> None:
        """Begin to take away what the process prints."""
        stdout, stderr = await self.child.stdout(), await self.child.stderr()
        self._pumps = [
            asyncio.create_task(forward(stdout, self.cutter, self._stdout_line)),
            asyncio.create_task(forward(stderr, LineCutter(), self.log.line)),
        ]

    async def drained(self) -> None:
        """Wait for the last lines of a process that ended."""
        if self._pumps:
            await asyncio.wait(self._pumps, timeout=_LAST_LINES)

    async def end(self) -> None:
        """End the process group, by force when needed, and let go of everything."""
        if self._memory:
            self._memory.cancel()
        self.child.close_stdin()
        self.child.signal_group(signal.SIGTERM)
        if not await self.child.ended(_TERM_GRACE):
            self.child.signal_group(signal.SIGKILL)
            await self.child.exited
        await self.drained()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        self.log.note_dropped()
        self.child.close()
        remove_folder(self.folder)

    def _too_large(self, most: int, now: int) -> None:
        self.killed_for = memory.too_much(self.who, most, now)
        self.child.signal_group(signal.SIGKILL)

    def _stdout_line(self, raw: bytes) -> None:
        if self.first.result.done() or not self.first.took(raw.decode("utf-8", "replace")):
            self.log.line(raw)
