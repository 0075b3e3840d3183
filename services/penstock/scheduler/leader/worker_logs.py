"""Follows the logs of workers, so that their warnings and errors outlive them.

A worker that is killed takes its log along, and its machine may be gone. The leader reads the
warnings of every worker as they are logged, and stores them. A new leader reads the last ones of
the workers that are there: what its predecessor did not store is lost only where the worker died,
too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final, Protocol

from penstock.aio import cancel_and_wait
from penstock.client import WorkerClient
from penstock.model.errors import PenstockError
from penstock.model.logs import LogFilter, LogLine, LogLines
from penstock.rpc.channels import Dial, open_channel
from penstock.scheduler.state.log_lines import LOWEST_LEVEL, MAX_LINES_PER_READ

log = logging.getLogger(__name__)

PASS_INTERVAL_S: Final = 1.0
"""Seconds between two times that lines of a worker are passed on: the last ones of that time. With
a shorter one, a worker that logs a warning for every row takes the time of the leader."""

CHECK_INTERVAL_S: Final = 2.0
"""Seconds between two looks for workers whose logs are not followed, because they have just come or
could not be reached."""

FOLLOWED: Final = LogFilter(level=LOWEST_LEVEL, tail=MAX_LINES_PER_READ, follow=True)


class LogSource(Protocol):
    """Reads the log of a worker."""

    def watch(self, address: str) -> AsyncGenerator[LogLines, None]:
        """Iterate over the last warnings of the worker at an address, and then over new ones."""


class WorkerLogSource:
    """Calls workers, each over a channel of its own."""

    def __init__(self, dial: Dial = open_channel) -> None:
        """`dial` opens channels to workers."""
        self._dial = dial

    async def watch(self, address: str) -> AsyncGenerator[LogLines, None]:
        """Iterate over the last warnings of the worker at an address, and then over new ones."""
        async with (
            WorkerClient(address, dial=self._dial) as worker,
            aclosing(worker.watch_logs(FOLLOWED)) as answers,
        ):
            async for lines in answers:
                yield lines


class _Gathered:
    """The last lines of a worker that were not passed on, and the number of those before them. Its
    log is read without a pause: the last lines of a worker that dies say why.
    """

    def __init__(self) -> None:
        self.lines: deque[LogLine] = deque(maxlen=MAX_LINES_PER_READ)
        self.has_lines = asyncio.Event()
        self._missed = 0

    def take(self, read: LogLines) -> None:
        """Take lines that were read."""
        dropped = max(len(self.lines) + len(read.lines) - MAX_LINES_PER_READ, 0)
        self._missed += read.missed + dropped
        self.lines.extend(read.lines)
        if self.lines:
            self.has_lines.set()

    def give(self) -> tuple[Sequence[LogLine], int]:
        """Return the lines, and how many before them are left out."""
        given = (tuple(self.lines), self._missed)
        self.lines.clear()
        self._missed = 0
        self.has_lines.clear()
        return given


class WorkerLogs:
    """Follows the logs of all workers that have a session, in `run`, until it is cancelled."""

    def __init__(
        self,
        source: LogSource,
        connected: Callable[[], Mapping[str, str]],
        add: Callable[[str, Sequence[LogLine], int], None],
    ) -> None:
        """`connected` returns the addresses of the workers by id; `add` gets the id of a worker,
        its lines, and the number of lines before them that could not be read.
        """
        self._source, self._connected, self._add = source, connected, add
        self._following: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Follow."""
        try:
            while True:
                connected = self._connected()
                for worker, address in connected.items():
                    if worker not in self._following or self._following[worker].done():
                        task = asyncio.create_task(self._follow(worker, address))
                        self._following[worker] = task
                gone = [id_ for id_ in self._following if id_ not in connected]
                await cancel_and_wait(*(self._following.pop(id_) for id_ in gone))
                await asyncio.sleep(CHECK_INTERVAL_S)
        finally:
            await cancel_and_wait(*self._following.values())

    async def _follow(self, worker: str, address: str) -> None:
        gathered = _Gathered()
        passing = asyncio.create_task(self._pass_on(worker, gathered))
        with suppress(asyncio.CancelledError):
            try:
                async with aclosing(self._source.watch(address)) as answers:
                    async for read in answers:
                        gathered.take(read)
            except PenstockError as error:  # it is gone, or has too many readers: tried again
                log.debug("cannot follow the log of worker %s: %s", worker, error)
            finally:
                passing.cancel()
                self._pass(worker, gathered)

    async def _pass_on(self, worker: str, gathered: _Gathered) -> None:
        while True:
            await gathered.has_lines.wait()
            self._pass(worker, gathered)
            await asyncio.sleep(PASS_INTERVAL_S)

    def _pass(self, worker: str, gathered: _Gathered) -> None:
        if gathered.lines:
            self._add(worker, *gathered.give())
