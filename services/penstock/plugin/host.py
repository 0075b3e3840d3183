"""All plugin processes of a worker: one per plugin and connector, shared by the tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.model.errors import PenstockError, RetriableError
from penstock.plugin.backoff import Backoff
from penstock.plugin.deadlines import Deadlines
from penstock.plugin.launch import how_it_ended, sweep
from penstock.plugin.manifest import ConnectorEntry, Manifest
from penstock.plugin.process import PluginProcess, start_process
from penstock.plugin.registry import Registry

IDLE: Final = 30.0
"""Seconds that a process nobody uses is kept: a task that starts again, or only now because Spark
took its time, finds it warm."""

RETIRE_GRACE: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Seat:
    """The place of one process: it, or its start, or when it may be started again."""

    backoff: Backoff = field(default_factory=Backoff)
    process: PluginProcess | None = None
    starting: asyncio.Task[PluginProcess] | None = None
    starts: int = 0


class PluginHost:
    """Starts, shares and ends plugin processes. One per worker; close it before its loop ends."""

    def __init__(
        self,
        registry: Registry,
        runtime_dir: Path,
        *,
        deadlines: Deadlines | None = None,
        telemetry: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        idle: float = IDLE,
    ) -> None:
        self.registry = registry
        self._runtime_dir = runtime_dir
        self._deadlines = deadlines or Deadlines()
        self._telemetry = telemetry
        self._clock = clock
        self._idle = idle
        self._seats: dict[tuple[str, str], _Seat] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._swept = False
        self._closed = False

    def list_plugins(self) -> tuple[Manifest, ...]:
        """Return what is installed."""
        return self.registry.manifests

    async def acquire(self, connector_class: str) -> PluginProcess:
        """Return the process that serves a class of connectors; start it when there is none.

        All callers share one start. After a crash the start waits for its back-off first.

        Raises:
            PenstockError: `plugin.not_installed`, or why the process could not be started.
        """
        if self._closed:
            raise _closed()
        manifest, entry = self.registry.find(connector_class)
        seat = self._seats.setdefault((manifest.name, entry.name), _Seat())
        if seat.process and seat.process.alive:
            seat.process.link.idleness.touch()
            return seat.process
        if seat.starting is None:
            seat.starting = asyncio.create_task(self._start(seat, manifest, entry))
            seat.starting.add_done_callback(lambda task: _started(seat, task))
        # One caller that gives up must not end the start that others wait for.
        starting = seat.starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if starting.cancelled():
                raise _closed() from None
            raise

    async def close(self, grace: float = 5.0) -> None:
        """End all processes. Idempotent; nothing is left when it returns."""
        self._closed = True
        starting = [seat.starting for seat in self._seats.values() if seat.starting]
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        running = [seat.process for seat in self._seats.values() if seat.process]
        await asyncio.gather(*(process.stop(grace) for process in running), *self._ending)

    def statistics(self) -> dict[str, dict[str, int]]:
        """Return starts and failures in a row by `plugin/connector`."""
        return {
            "/".join(key): {"starts": seat.starts, "failures": seat.backoff.failures}
            for key, seat in self._seats.items()
        }

    async def _start(self, seat: _Seat, manifest: Manifest, entry: ConnectorEntry) -> PluginProcess:
        if not self._swept:
            self._swept = True
            sweep(self._runtime_dir)
        await asyncio.sleep(seat.backoff.delay(self._clock()))
        started = self._clock()
        seat.starts += 1
        try:
            process = await start_process(
                manifest, entry, self._runtime_dir, self._deadlines, self._telemetry
            )
        except PenstockError:
            seat.backoff.ended(started=started, now=self._clock())
            raise
        seat.process = process
        process.exited.add_done_callback(lambda end: self._ended(seat, process, started, end))
        process.link.idleness.tell(self._idle, lambda: self._retire(seat, process))
        return process

    def _retire(self, seat: _Seat, process: PluginProcess) -> None:
        """End a process that nobody uses: a connector that is stopped has none (KIP-875)."""
        if seat.process is not process:
            return
        _log.info("plugin %s ends: unused for %g s", process.who, self._idle)
        seat.process = None
        self._end(process, RETIRE_GRACE)

    def _ended(
        self, seat: _Seat, process: PluginProcess, started: float, end: asyncio.Future[int]
    ) -> None:
        if self._closed or seat.process is not process:
            return
        seat.backoff.ended(started=started, now=self._clock())
        _log.warning(
            "plugin %s %s; it may be started again in %.1f s",
            process.who,
            how_it_ended(end.result()),
            seat.backoff.delay(self._clock()),
        )
        seat.process = None
        self._end(process, 0)

    def _end(self, process: PluginProcess, grace: float) -> None:
        ending = asyncio.create_task(process.stop(grace))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


def _closed() -> PenstockError:
    return RetriableError("plugin.host_closed", "this worker is stopping")


def _started(seat: _Seat, task: asyncio.Task[PluginProcess]) -> None:
    seat.starting = None
    if not task.cancelled():
        task.exception()  # looked at here: all callers may have given up
