"""All plugin processes of a worker: one per plugin and connector, shared by the tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from penstock.model.errors import ConfigError, PenstockError, RetriableError
from penstock.plugin.deadlines import Deadlines
from penstock.plugin.installed.manifest import ConnectorEntry, Manifest
from penstock.plugin.installed.registry import PluginPath, Registry, tell_changes, tell_problems
from penstock.plugin.process.launch import sweep
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.process.start import Ground, start_plugin


@dataclass(slots=True)
class Backoff:
    """Waits `first` seconds, doubling to `longest`; forgets after `healthy_after` seconds of life.

    A smaller `first` spins on a plugin that dies at once; a larger `longest` leaves a cured plugin
    down.
    """

    first: float = 0.1
    longest: float = 10.0
    healthy_after: float = 30.0
    failures: int = 0
    not_before: float = float("-inf")

    def ended(self, *, started: float, now: float) -> None:
        """Note that a process which was started at `started` ended, unasked, at `now`."""
        if now - started >= self.healthy_after:
            self.failures = 0
        wait = min(self.longest, self.first * 2.0 ** min(self.failures, 60))
        self.failures += 1
        self.not_before = now + wait

    def delay(self, now: float) -> float:
        """Return how long to wait from `now`; 0 when a start may be tried."""
        return max(0.0, self.not_before - now)


IDLE: Final = 30.0
"""Seconds that a process nobody uses is kept: a task that starts again, or only now because Spark
took its time, finds it warm."""

RETIRE_GRACE: Final = 5.0

_MAY_BE_NEW: Final = frozenset({"plugin.not_installed", "plugin.no_such_version"})

_Key: TypeAlias = tuple[str, str, str, str, str]
"""Plugin, connector, version, fingerprint: what is replaced gets a process of its own. Then the
task whose own it is; empty: all tasks share it."""

MAX_OWNERS: Final = 4
"""Tasks of a worker that may have processes of their own at once: each takes memory. More tasks
wait longer until it is known which of them makes a plugin crash."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Seat:
    """The place of one process: it, or its start, or when it may be started again."""

    backoff: Backoff = field(default_factory=Backoff)
    process: PluginProcess | None = None
    starting: asyncio.Task[PluginProcess] | None = None
    starts: int = 0

    @property
    def is_free(self) -> bool:
        """Whether nobody has it."""
        return self.process is None and self.starting is None


class PluginHost:
    """Starts, shares and ends plugin processes. One per worker; close it before its loop ends.

    What is installed may change: who asks for a plugin gets what is installed then, and whoever has
    a process keeps it.
    """

    def __init__(
        self,
        installed: Registry | PluginPath,
        runtime_dir: Path,
        *,
        deadlines: Deadlines | None = None,
        telemetry: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        idle: float = IDLE,
        memory_max: int = 0,
    ) -> None:
        """`memory_max`: bytes that a plugin's processes may keep in memory; 0: any."""
        self._path = installed if isinstance(installed, PluginPath) else None
        self.registry = installed.load() if isinstance(installed, PluginPath) else installed
        tell_problems(self.registry)
        self._ground = Ground(runtime_dir, deadlines or Deadlines(), telemetry, memory_max)
        self._clock = clock
        self._idle = idle
        self._seats: dict[_Key, _Seat] = {}
        self._owners: set[str] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._swept = False
        self._closed = False

    def list_plugins(self) -> tuple[Manifest, ...]:
        """Return what is installed."""
        return self.registry.manifests

    def reload(self) -> bool:
        """Look again at what is installed; tell whether it changed. Reads some files."""
        return self._path is not None and self._install(self._path.load())

    async def refresh(self) -> bool:
        """Do the same beside what else the loop does."""
        return self._path is not None and self._install(await asyncio.to_thread(self._path.load))

    def reload_every(self, seconds: float) -> None:
        """Look again at an interval, from now on; 0: only when it is asked for."""
        if seconds and self._path and self._looking is None:
            self._looking = asyncio.create_task(self._look(seconds))

    def find(self, connector_class: str, version: str = "") -> tuple[Manifest, ConnectorEntry]:
        """Return what serves a class of connectors, also when it was installed just now.

        Raises:
            ConfigError: `plugin.not_installed` and the others of `Registry.find`.
        """
        try:
            return self.registry.find(connector_class, version)
        except ConfigError as error:
            if error.code not in _MAY_BE_NEW or not self.reload():
                raise
        return self.registry.find(connector_class, version)

    def reserve(self, owner: str) -> bool:
        """Let a task have processes of its own; False when there is no room for it now."""
        if owner not in self._owners and len(self._owners) >= MAX_OWNERS:
            return False
        self._owners.add(owner)
        return True

    def release(self, owner: str) -> None:
        """End the processes that are a task's own."""
        self._owners.discard(owner)
        for key in [key for key in self._seats if owner and key[-1] == owner]:
            process = self._seats.pop(key).process
            if process is not None:
                self._end(process, RETIRE_GRACE)

    async def acquire(
        self, connector_class: str, version: str = "", owner: str = ""
    ) -> PluginProcess:
        """Return the process that serves a class of connectors; start it when there is none.

        All callers share one start. After a crash the start waits for its back-off first. With
        `owner`, a task that was given room by `reserve`, the process is shared with no other task.

        Raises:
            PenstockError: `plugin.not_installed`, or why the process could not be started.
        """
        if self._closed:
            raise _closed()
        manifest, entry = self.find(connector_class, version)
        seat = self._seats.setdefault((*_key(manifest, entry), owner), _Seat())
        if seat.process and await seat.process.answers() and seat.process:
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
        if self._looking:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        starting = [seat.starting for seat in self._seats.values() if seat.starting]
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        running = [seat.process for seat in self._seats.values() if seat.process]
        await asyncio.gather(*(process.stop(grace) for process in running), *self._ending)

    def statistics(self) -> dict[str, dict[str, int]]:
        """Return starts and failures in a row by `plugin/connector`, of all versions together."""
        found: dict[str, dict[str, int]] = {}
        for (plugin, connector, *_), seat in self._seats.items():
            numbers = found.setdefault(f"{plugin}/{connector}", {"starts": 0, "failures": 0})
            numbers["starts"] += seat.starts
            numbers["failures"] += seat.backoff.failures
        return found

    async def _look(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except OSError as error:  # it may be there again next time
                _log.warning("the plugin path cannot be read: %s", error)

    def _install(self, registry: Registry) -> bool:
        before, self.registry = self.registry, registry
        keys = {
            (*_key(manifest, entry), "")
            for manifest in registry.manifests
            for entry in manifest.connectors
        }
        for key in [k for k, seat in self._seats.items() if k not in keys and seat.is_free]:
            del self._seats[key]
        return tell_changes(before, registry)

    async def _start(self, seat: _Seat, manifest: Manifest, entry: ConnectorEntry) -> PluginProcess:
        if not self._swept:
            self._swept = True
            sweep(self._ground.runtime_dir)
        await asyncio.sleep(seat.backoff.delay(self._clock()))
        started = self._clock()
        seat.starts += 1
        try:
            process = await start_plugin(manifest, entry, self._ground)
        except PenstockError:
            seat.backoff.ended(started=started, now=self._clock())
            raise
        seat.process = process
        process.exited.add_done_callback(lambda _: self._ended(seat, process, started))
        process.link.idleness.tell(self._idle, lambda: self._retire(seat, process))
        return process

    def _retire(self, seat: _Seat, process: PluginProcess) -> None:
        """End a process that nobody uses: a connector that is stopped has none (KIP-875)."""
        if seat.process is not process:
            return
        _log.info("plugin %s ends: unused for %g s", process.who, self._idle)
        seat.process = None
        self._end(process, RETIRE_GRACE)

    def _ended(self, seat: _Seat, process: PluginProcess, started: float) -> None:
        if self._closed or seat.process is not process:
            return
        seat.backoff.ended(started=started, now=self._clock())
        _log.warning(
            "%s; it may be started again in %.1f s",
            process.link.death(),
            seat.backoff.delay(self._clock()),
        )
        seat.process = None
        self._end(process, 0)

    def _end(self, process: PluginProcess, grace: float) -> None:
        ending = asyncio.create_task(process.stop(grace))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


def _key(manifest: Manifest, entry: ConnectorEntry) -> tuple[str, str, str, str]:
    return (manifest.name, entry.name, manifest.version, manifest.fingerprint)


def _closed() -> PenstockError:
    return RetriableError(
        "plugin.host_closed",
        "this worker is stopping",
        fix="Nothing is to be done: another worker takes the task.",
    )


def _started(seat: _Seat, task: asyncio.Task[PluginProcess]) -> None:
    seat.starting = None
    if not task.cancelled():
        task.exception()  # looked at here: all callers may have given up
