"""One plugin process, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.model.errors import InternalError, PenstockError, RetriableError
from penstock.plugin import describe, launch
from penstock.plugin.control import ControlCalls
from penstock.plugin.deadlines import Deadlines
from penstock.plugin.handshake import (
    EarlyExit,
    FirstHandshake,
    Handshake,
    address_of,
    exited_early,
    first_handshake,
)
from penstock.plugin.lines import LineCutter
from penstock.plugin.link import Link
from penstock.plugin.logs import PluginLog, forward
from penstock.plugin.manifest import ConnectorEntry, Manifest
from penstock.plugin.redact import Redactor

_log = logging.getLogger(__name__)

_HEALTH_SERVICE: Final = "plugin"
_TERM_GRACE: Final = 1.0
"""Seconds between SIGTERM and SIGKILL, after a Shutdown that was not followed. Longer holds up the
end of the host; shorter takes the last lines of a log from a plugin that is merely slow."""
_LAST_LINES: Final = 1.0
"""Seconds given to the pipes of a process that ended."""


class PluginProcess(ControlCalls):
    """A running plugin that serves one connector to many tasks. Made by `start_process`.

    `exited` is done, with the exit code, when the process has ended, however it did; streams watch
    it. Owned by the host; ends exactly once.
    """

    def __init__(
        self,
        manifest: Manifest,
        entry: ConnectorEntry,
        running: _Running,
        link: Link,
        description: describe.PluginDescription,
        deadlines: Deadlines,
    ) -> None:
        super().__init__(link, deadlines)
        self.plugin = manifest.name
        self.connector = entry.name
        self.description = description
        self._running = running

    @property
    def who(self) -> str:
        """`plugin/connector`, for people."""
        return self.link.who

    @property
    def address(self) -> str:
        """Where executors dial it."""
        return self.link.address

    @property
    def credential(self) -> str:
        """What calls must carry; made anew at each launch."""
        return self.link.credential

    @property
    def pid(self) -> int:
        """The process, which leads a group of the same number."""
        return self._running.child.pid

    @property
    def exited(self) -> asyncio.Future[int]:
        """The end of the process."""
        return self.link.exited

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self.exited.done()

    @property
    def spec(self) -> describe.ConnectorSpec:
        """What the plugin says about the connector."""
        spec = self.description.connector(self.connector)
        assert spec is not None  # noqa: S101 - checked at the start
        return spec

    async def healthy(self) -> bool:
        """Ask the health service; a process that ended is not healthy."""
        if not self.alive:
            return False
        try:
            await _check_health(self.link, self.deadlines)
        except PenstockError:
            return False
        return True

    async def stop(self, grace: float = 5.0) -> None:
        """End the process: Shutdown, then SIGTERM, then SIGKILL of its group. Idempotent."""
        if self.alive:
            await self._shutdown(grace)
        await self.link.close()
        await self._running.end()

    async def _shutdown(self, grace: float) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + grace + self.deadlines.end
        asked = Duration()
        asked.FromTimedelta(timedelta(seconds=grace))
        request = pb.ShutdownRequest(grace=asked)
        stub = PluginServiceStub(self.link.channel)
        with suppress(PenstockError):
            await self.link.call("plugin.shutdown", until - clock(), stub.Shutdown, request)
        # Those that answered end by themselves; the others had their time.
        await self._running.child.ended(min(until - clock(), self.deadlines.end))


class _Running:
    """The process and its two pipes."""

    def __init__(self, child: launch.Child, folder: Path, log: PluginLog) -> None:
        self.child, self.folder, self.log = child, folder, log
        self.first = FirstHandshake()
        self.cutter = LineCutter()
        self._pumps: list[asyncio.Task[None]] = []

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
        launch.remove_folder(self.folder)

    def _stdout_line(self, raw: bytes) -> None:
        if self.first.result.done() or not self.first.took(raw.decode("utf-8", "replace")):
            self.log.line(raw)


async def start_process(
    manifest: Manifest,
    entry: ConnectorEntry,
    runtime_dir: Path,
    deadlines: Deadlines | None = None,
    telemetry: Mapping[str, str] | None = None,
) -> PluginProcess:
    """Start a plugin and return it when it serves; when it does not, nothing of it is left.

    Raises:
        PenstockError: `plugin.exited_early`, `plugin.handshake_timeout`, `plugin.bad_handshake`,
            `plugin.wrong_protocol`, `plugin.foreign_address`, `plugin.not_serving`,
            `plugin.describe_mismatch` and the others of `handshake` and `launch`.
    """
    limits = deadlines or Deadlines()
    order = launch.prepare(manifest, runtime_dir, telemetry)
    redact = Redactor()
    redact.learn([order.credential])
    log = PluginLog(manifest.name, entry.name, redact)
    try:
        child = launch.Child.spawn(order)
    except PenstockError:
        launch.remove_folder(order.folder)
        raise
    running = _Running(child, order.folder, log)
    link = None
    try:
        handshake = await _handshake(running, order, limits)
        who = f"{manifest.name}/{entry.name}"
        address = address_of(handshake, order.folder)
        link = Link(who, address, order.credential, child, log, redact)
        await _check_health(link, limits)
        description = await _describe(link, entry, limits)
    except BaseException:  # cancelled too: no process without an owner
        if link:
            await link.close()
        await running.end()
        raise
    _log.info("plugin %s %s started, process %d", who, manifest.version, child.pid)
    return PluginProcess(manifest, entry, running, link, description, limits)


async def _handshake(running: _Running, order: launch.Launch, limits: Deadlines) -> Handshake:
    await running.listen()
    try:
        return await first_handshake(
            running.first,
            running.child.exited,
            order.handshake_file,
            limits.handshake,
            lambda: running.cutter.held.decode("utf-8", "replace"),
        )
    except EarlyExit:
        await running.drained()
        how = launch.how_it_ended(running.child.exited.result())
        raise exited_early(how, running.log.tail) from None


async def _check_health(link: Link, limits: Deadlines) -> None:
    stub: Any = health_pb2_grpc.HealthStub(link.channel)  # its stubs name no methods
    request = health_pb2.HealthCheckRequest(service=_HEALTH_SERVICE)
    try:
        answer = await stub.Check(
            request, timeout=limits.health, wait_for_ready=True, metadata=link.metadata
        )
        why = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    except grpc.aio.AioRpcError as error:
        why = (await link.failure(error, "plugin.health", limits.health)).diagnostic.message
    if why != "SERVING":
        raise link.death() or RetriableError(
            "plugin.not_serving",
            f"plugin {link.who} shook hands, but its health service is not serving: {why}",
            fix="Serve grpc.health.v1 with the service name 'plugin' before the handshake.",
        )


async def _describe(
    link: Link, entry: ConnectorEntry, limits: Deadlines
) -> describe.PluginDescription:
    stub = PluginServiceStub(link.channel)
    response = await link.call(
        "plugin.describe", limits.describe, stub.Describe, pb.DescribeRequest()
    )
    description = describe.from_proto(response)
    spec = description.connector(entry.name)
    if spec is None or spec.kind is not entry.kind:
        served = ", ".join(f"{s.name} ({s.kind})" for s in description.connectors) or "nothing"
        raise InternalError(
            "plugin.describe_mismatch",
            f"the manifest promises the {entry.kind} {entry.name!r}; the plugin serves {served}",
            fix="Install the manifest that belongs to this version of the plugin.",
        )
    return description
