"""All plugin processes of a worker: one per plugin and connector, shared by the tasks. There are
several where a process takes a limited number of tasks (`max_tasks` of the manifest), and where a
connector or a task has processes of its own (`plugin.isolation`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from penstock.aio import cancel_and_wait
from penstock.model.backoff import RestartPolicy
from penstock.model.errors import ConfigError, PenstockError, RetriableError
from penstock.plugin.catalog.manifest import ConnectorEntry, Manifest
from penstock.plugin.catalog.registry import PluginPath, Registry, log_changes, log_problems
from penstock.plugin.limits import Deadlines, LaunchOptions
from penstock.plugin.process.attempts import AttemptListeners
from penstock.plugin.process.local_process import remove_stale_folders
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.process.startup import start_plugin

IDLE_TIMEOUT_S: Final = 30.0
"""Time that an unused process is kept. A task that restarts, or that waits for Spark before it
starts, finds it running."""

RETIRE_GRACE_S: Final = 5.0

MAX_OWNERS: Final = 4
"""Tasks of a worker that may have processes of their own at once, since each process takes memory.
With more such tasks it takes longer to find the one that makes a plugin crash."""

_RELOAD_CODES: Final = frozenset({"plugin.not_installed", "plugin.no_such_version"})
"""Codes of `Registry.find` after which the plugin path is read again."""

_ProcessKey: TypeAlias = tuple[str, str, str, str]
"""Plugin, connector, version and fingerprint, so that a replaced plugin gets a new process."""

_Key: TypeAlias = tuple[_ProcessKey, str, int]
"""A process; who owns it, empty when all tasks share it: a task, or the generation of a connector;
its number where one process is not enough for all."""

_log = logging.getLogger(__name__)


PROCESS_RESTARTS: Final = RestartPolicy(first_delay_s=0.1, max_delay_s=10.0, healthy_after_s=30.0)
"""Restarts of a plugin process. A smaller first delay spins on a plugin that crashes at once; a
larger maximum leaves a repaired plugin down."""


@dataclass(slots=True)
class StartDelay:
    """The time until a plugin process may be started again, by its failures in a row."""

    failures: int = 0
    not_before: float = float("-inf")

    def record_failure(self, *, started_at: float, now: float) -> None:
        """Record that a process which was started at `started_at` ended unexpectedly at `now`."""
        if now - started_at >= PROCESS_RESTARTS.healthy_after_s:
            self.failures = 0
        self.not_before = now + PROCESS_RESTARTS.delay_s(self.failures)
        self.failures += 1

    def delay(self, now: float) -> float:
        """Return the seconds from `now` until a start is allowed."""
        return max(0.0, self.not_before - now)


@dataclass(slots=True)
class _Slot:
    """The state of one key: its process, or the start of one, and the delay of the next; the tasks
    that use it, where they are limited.
    """

    start_delay: StartDelay = field(default_factory=StartDelay)
    process: PluginProcess | None = None
    starting: asyncio.Task[PluginProcess] | None = None
    starts: int = 0
    tasks: set[str] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        """Whether no process runs or starts."""
        return self.process is None and self.starting is None


class PluginHost:
    """Starts, shares and ends plugin processes. One per worker; close it before its loop ends.

    Installed plugins may change while it runs. A caller that acquires a plugin gets the version
    that is installed then; callers that have a process keep it.
    """

    def __init__(
        self,
        installed: Registry | PluginPath,
        runtime_dir: Path,
        *,
        deadlines: Deadlines | None = None,
        telemetry: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        max_memory_bytes: int = 0,
        isolation: str = "shared",
    ) -> None:
        """`max_memory_bytes`: limit for a plugin process and its descendants; 0: unlimited.
        `isolation`: who shares a process where a connector does not say it.
        """
        self.isolation = isolation
        self._path = installed if isinstance(installed, PluginPath) else None
        self.registry = installed.load() if isinstance(installed, PluginPath) else installed
        log_problems(self.registry)
        self.attempts = AttemptListeners()
        """Passes failed attempts of plugins to connect to those that run the tasks."""
        self._options = LaunchOptions(
            runtime_dir, deadlines or Deadlines(), telemetry, max_memory_bytes
        )
        self._clock = clock
        self._idle_timeout_s = idle_timeout_s
        self._slots: dict[_Key, _Slot] = {}
        self._owners: set[str] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._reloading: asyncio.Task[None] | None = None
        self._stale_removed = False
        self._closed = False

    def list_plugins(self) -> tuple[Manifest, ...]:
        """Return the manifests of the installed plugins."""
        return self.registry.manifests

    def reload(self) -> bool:
        """Read the plugin path again; return whether it changed. Blocks for some file reads."""
        return self._path is not None and self._install(self._path.load())

    async def reload_async(self) -> bool:
        """Read the plugin path again without blocking the loop; return whether it changed."""
        return self._path is not None and self._install(await asyncio.to_thread(self._path.load))

    def start_reloading(self, interval_s: float) -> None:
        """Read the plugin path at an interval; 0: only when a missing plugin is looked up."""
        if interval_s and self._path and self._reloading is None:
            self._reloading = asyncio.create_task(self._reload_forever(interval_s))

    def find(self, connector_class: str, version: str = "") -> tuple[Manifest, ConnectorEntry]:
        """Return the plugin of a connector class, also when it was installed since the last read.

        Raises:
            ConfigError: `plugin.not_installed` and the other codes of `Registry.find`.
        """
        try:
            return self.registry.find(connector_class, version)
        except ConfigError as error:
            if error.code not in _RELOAD_CODES or not self.reload():
                raise
        return self.registry.find(connector_class, version)

    def reserve(self, owner: str) -> bool:
        """Allow a task processes of its own; return False when `MAX_OWNERS` tasks have some."""
        if owner not in self._owners and len(self._owners) >= MAX_OWNERS:
            return False
        self._owners.add(owner)
        return True

    def release(self, task: str) -> None:
        """End the processes that a task owns, and make room in those that it shared."""
        if not task:
            return
        self._owners.discard(task)
        for slot in self._slots.values():
            slot.tasks.discard(task)
        for key in [key for key in self._slots if key[1] == task]:
            process = self._slots.pop(key).process
            if process is not None:
                self._stop(process, RETIRE_GRACE_S)

    async def acquire(
        self, connector_class: str, version: str = "", task: str = "", owner: str = ""
    ) -> PluginProcess:
        """Return the process that serves a connector class; start it when none runs.

        All callers share one start. After a crash the start waits for its back-off first. With
        `task`, a connector that limits the tasks of a process has room for it there, until
        `release`. With `owner`, a task or a generation, nobody else uses the process.

        Raises:
            PenstockError: `plugin.not_installed`, or why the process could not be started.
        """
        if self._closed:
            raise _host_closed()
        manifest, entry = self.find(connector_class, version)
        slot = self._slot(manifest, entry, task, owner)
        if slot.process and await slot.process.is_reachable() and slot.process:
            slot.process.connection.idle_timer.restart()
            return slot.process
        if slot.starting is None:
            slot.starting = asyncio.create_task(self._start(slot, manifest, entry))
            slot.starting.add_done_callback(lambda task: _finish_start(slot, task))
        # A cancelled caller must not cancel the start that others wait for.
        starting = slot.starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if starting.cancelled():
                raise _host_closed() from None
            raise

    def _slot(self, manifest: Manifest, entry: ConnectorEntry, task: str, owner: str) -> _Slot:
        key = _process_key(manifest, entry)
        if not task or not entry.max_tasks:
            return self._slots.setdefault((key, owner, 0), _Slot())
        for known, slot in self._slots.items():
            if known[:2] == (key, owner) and task in slot.tasks:
                return slot
        number = 0
        slot = self._slots.setdefault((key, owner, number), _Slot())
        while len(slot.tasks) >= entry.max_tasks:
            number += 1
            slot = self._slots.setdefault((key, owner, number), _Slot())
        slot.tasks.add(task)
        return slot

    async def close(self, grace_s: float = 5.0) -> None:
        """End all processes. Idempotent; no process is left when it returns."""
        self._closed = True
        if self._reloading:
            await cancel_and_wait(self._reloading)
        await cancel_and_wait(*(slot.starting for slot in self._slots.values() if slot.starting))
        running = [slot.process for slot in self._slots.values() if slot.process]
        await asyncio.gather(*(process.stop(grace_s) for process in running), *self._stopping)

    def statistics(self) -> dict[str, dict[str, int]]:
        """Return starts and consecutive failures by `plugin/connector`, all versions together."""
        totals: dict[str, dict[str, int]] = {}
        for ((plugin, connector, *_), *_), slot in self._slots.items():
            counts = totals.setdefault(f"{plugin}/{connector}", {"starts": 0, "failures": 0})
            counts["starts"] += slot.starts
            counts["failures"] += slot.start_delay.failures
        return totals

    async def _reload_forever(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.reload_async()
            except OSError as error:  # it may be readable at the next interval
                _log.warning("the plugin path cannot be read: %s", error)

    def _install(self, registry: Registry) -> bool:
        before, self.registry = self.registry, registry
        installed = {
            _process_key(manifest, entry)
            for manifest in registry.manifests
            for entry in manifest.connectors
        }
        for key, slot in list(self._slots.items()):
            if key[0] not in installed and slot.is_empty and not slot.tasks:
                del self._slots[key]
        return log_changes(before, registry)

    async def _start(self, slot: _Slot, manifest: Manifest, entry: ConnectorEntry) -> PluginProcess:
        if not self._stale_removed:
            self._stale_removed = True
            remove_stale_folders(self._options.runtime_dir)
        await asyncio.sleep(slot.start_delay.delay(self._clock()))
        started_at = self._clock()
        slot.starts += 1
        try:
            process = await start_plugin(manifest, entry, self._options, self.attempts.report)
        except PenstockError:
            slot.start_delay.record_failure(started_at=started_at, now=self._clock())
            raise
        slot.process = process
        process.exited.add_done_callback(lambda _: self._handle_exit(slot, process, started_at))
        process.connection.idle_timer.start(
            self._idle_timeout_s, lambda: self._retire(slot, process)
        )
        return process

    def _retire(self, slot: _Slot, process: PluginProcess) -> None:
        """End an unused process: a stopped connector keeps none (KIP-875)."""
        if slot.process is not process:
            return
        _log.info("plugin %s is stopped: unused for %g s", process.name, self._idle_timeout_s)
        slot.process = None
        # an owner may be gone for good; a shared process keeps its counts
        self._slots = {k: one for k, one in self._slots.items() if one is not slot or not k[1]}
        self._stop(process, RETIRE_GRACE_S)

    def _handle_exit(self, slot: _Slot, process: PluginProcess, started_at: float) -> None:
        if self._closed or slot.process is not process:
            return
        slot.start_delay.record_failure(started_at=started_at, now=self._clock())
        _log.warning(
            "%s; it may be started again in %.1f s",
            process.connection.exit_error(),
            slot.start_delay.delay(self._clock()),
        )
        slot.process = None
        self._stop(process, 0)

    def _stop(self, process: PluginProcess, grace_s: float) -> None:
        stopping = asyncio.create_task(process.stop(grace_s))
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)


def _process_key(manifest: Manifest, entry: ConnectorEntry) -> _ProcessKey:
    return (manifest.name, entry.name, manifest.version, manifest.fingerprint)


def _host_closed() -> PenstockError:
    return RetriableError(
        "plugin.host_closed",
        "this worker is stopping",
        fix="No action is needed: another worker takes the task.",
    )


def _finish_start(slot: _Slot, task: asyncio.Task[PluginProcess]) -> None:
    slot.starting = None
    if not task.cancelled():
        task.exception()  # retrieved here, because all callers may have been cancelled
