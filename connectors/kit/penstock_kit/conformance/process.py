"""The process of a plugin under test: started without a guard, so that all it does is visible.

The host guards the processes that it starts. The kit does not: a guard would remove what a plugin
leaves behind, and some cases look for that. The kit cleans up after its checks.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2_grpc

from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.connector.v1.plugin_service_pb2 import DescribeRequest
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.model.errors import InternalError
from penstock.plugin.catalog.manifest import Manifest
from penstock.plugin.process.connection import CREDENTIAL_KEY
from penstock.plugin.process.handshake import Handshake, dial_address, parse_handshake
from penstock.plugin.process.local_process import (
    LaunchSpec,
    describe_exit,
    prepare_launch,
    remove_folder,
)
from penstock.plugin.process.logs import LineBuffer
from penstock.rpc.channels import authority_options
from penstock_kit.conformance.calls import call
from penstock_kit.conformance.results import RuleBrokenError, require
from penstock_values.memory_files import can_read, own_memory_file

_MAX_OUTPUT_BYTES: Final = 4 << 20
"""Output that is kept for the checks, of each pipe."""
_MAX_MESSAGE_BYTES: Final = 256 << 20
_INSPECTABLE: Final = {"PENSTOCK_INSPECTABLE": "1"}
"""Lets the kit count open files and find child processes with the rights of the plugin's user."""
_HANDSHAKE_TIMEOUT_S: Final = 30.0
"""A plugin takes 10 to 200 ms; a busy machine takes longer."""
_POLL_INTERVAL_S: Final = 0.02
_STABLE_S: Final = 0.2
"""Time without a change after which a count is stable. A later change makes a case more lenient,
not red: the baseline is too high then."""


class Plugin:
    """A started plugin: output, handshake, services. Create it by `start_plugin_process`."""

    def __init__(self, launch: LaunchSpec, process: asyncio.subprocess.Process) -> None:
        self.launch = launch
        self.pid = process.pid
        self.handshakes: list[Handshake] = []
        self.malformed_lines: list[str] = []
        self.unanswered: dict[str, float] = {}
        """Kinds of frames that never came, with the seconds of the wait."""
        self._process = process
        self._out, self._err = bytearray(), bytearray()
        self._output_changed = asyncio.Event()
        self._pumps = [
            asyncio.create_task(self._listen(process.stdout, self._out, self._read_line)),
            asyncio.create_task(self._listen(process.stderr, self._err, None)),
        ]
        self._exit = asyncio.create_task(process.wait())
        self._channels: list[grpc.aio.Channel] = []
        self.channel: grpc.aio.Channel

    @property
    def output(self) -> str:
        """Its output so far, of both pipes."""
        return (self._out + b"\n" + self._err).decode("utf-8", "replace")

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of every call."""
        return ((CREDENTIAL_KEY, self.launch.credential),)

    @property
    def plugins(self) -> PluginServiceStub:
        """The service of the process."""
        return PluginServiceStub(self.channel)

    @property
    def connectors(self) -> ConnectorServiceStub:
        """The service of its connectors."""
        return ConnectorServiceStub(self.channel)

    @property
    def sources(self) -> SourceServiceStub:
        """The service of its sources."""
        return SourceServiceStub(self.channel)

    @property
    def sinks(self) -> SinkServiceStub:
        """The service of its sinks."""
        return SinkServiceStub(self.channel)

    @property
    def health(self) -> Any:
        """The health service; its stub names no methods."""
        return health_pb2_grpc.HealthStub(self.channel)

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.returncode

    async def handshake(self, seconds: float = _HANDSHAKE_TIMEOUT_S) -> Handshake:
        """Wait for the handshake, on stdout or in the file.

        Raises:
            RuleBrokenError: there is none.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        while not (handshake := self._find_handshake()):
            require(
                self.exit_code is None,
                f"{self._exit_text()} before its handshake: {self._last_lines()}",
            )
            require(clock() < deadline, f"no handshake within {seconds:g} s: {self._last_lines()}")
            self._output_changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await self._output_changed.wait()
        return handshake

    async def connect(self) -> None:
        """Connect to the address of its handshake."""
        try:
            address = dial_address(await self.handshake(), self.launch.folder)
        except InternalError as error:
            raise RuleBrokenError(str(error)) from None
        options = [
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            *authority_options(address),
        ]
        self.channel = grpc.aio.insecure_channel(address, options)
        self._channels.append(self.channel)

    async def shares_memory(self) -> bool:
        """Return whether batches may pass in memory files: it opens those of this process, and
        shows one of its own.
        """
        request = DescribeRequest(memory_file=own_memory_file())
        answer = await call(self.plugins.Describe, request, self.metadata)
        return answer.HasField("memory_file") and can_read(answer.memory_file)

    async def kill(self) -> None:
        """End it alone, as a crash would (SIGKILL)."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        await self._exit

    def terminate(self) -> None:
        """Send SIGTERM, as an operator does."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def close_stdin(self) -> None:
        """Close its standard input, which means that the host is gone."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def wait_for_exit(self, seconds: float) -> bool:
        """Wait for its exit; return whether it came in time."""
        await asyncio.wait([self._exit], timeout=seconds)
        return self._exit.done()

    async def wait_for_output(self) -> None:
        """Wait for the last lines of a process that has ended."""
        await asyncio.wait(self._pumps, timeout=1.0)

    def child_processes(self) -> list[int]:
        """Return the live processes that it started, of any process group."""
        mark = os.fsencode(f"PLUGIN_UNIX_SOCKET_DIR={self.launch.folder}")
        found = (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())
        return [pid for pid in found if pid != self.pid and mark in _environment(pid)]

    async def end(self) -> None:
        """Kill it and its child processes, close its channels, remove its folder."""
        for channel in self._channels:
            await channel.close()
        self.close_stdin()
        await self.kill()
        for pid in self.child_processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self.wait_for_output()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, self._exit, return_exceptions=True)
        remove_folder(self.launch.folder)

    def _find_handshake(self) -> Handshake | None:
        if not self.handshakes and self.launch.handshake_file.is_file():
            for line in self.launch.handshake_file.read_text(errors="replace").splitlines():
                self._read_line(line.encode())
        require(not self.malformed_lines, f"malformed handshake line: {self.malformed_lines[:1]}")
        return self.handshakes[0] if self.handshakes else None

    def _read_line(self, raw: bytes) -> None:
        text = raw.decode("utf-8", "replace")
        try:
            found = parse_handshake(text)
        except InternalError:
            self.malformed_lines.append(text[:200])
            return
        if found:
            self.handshakes.append(found)

    async def _listen(
        self, pipe: asyncio.StreamReader | None, output: bytearray, take_line: Any
    ) -> None:
        assert pipe is not None  # noqa: S101 - both are pipes
        lines = LineBuffer()
        while chunk := await pipe.read(65536):
            output += chunk[: max(0, _MAX_OUTPUT_BYTES - len(output))]
            for line in lines.feed(chunk):
                if take_line:
                    take_line(line)
            self._output_changed.set()

    def _exit_text(self) -> str:
        return f"the process {describe_exit(self.exit_code or 0)}"

    def _last_lines(self) -> str:
        lines = self.output.strip().splitlines()[-3:]
        return " | ".join(lines)[-600:] or "it printed nothing"


@asynccontextmanager
async def start_plugin_process(
    manifest: Manifest,
    runtime_dir: Path,
    *,
    without: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Plugin]:
    """Start a plugin; at the end of the block nothing of it is left.

    Args:
        manifest: Its manifest.
        runtime_dir: The folder for its private folder.
        without: Variables of a host that are not set.
        environment: Variables with other values than those of a host.
    """
    launch = prepare_launch(manifest, runtime_dir)
    variables = {k: v for k, v in launch.environment.items() if k not in without}
    launch = replace(launch, environment={**variables, **_INSPECTABLE, **(environment or {})})
    process = await asyncio.create_subprocess_exec(
        *launch.argv,
        env=dict(launch.environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    plugin = Plugin(launch, process)
    try:
        yield plugin
    finally:
        await plugin.end()


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


async def stable_resource_count(pid: int, seconds: float) -> int:
    """Return the number of threads and open files of a process, once it is stable.

    Raises:
        RuleBrokenError: it changes all the time.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    found, since = _resource_count(pid), clock()
    while clock() - since < _STABLE_S:
        require(clock() < deadline, f"its threads and open files change for {seconds:g} s")
        await asyncio.sleep(_POLL_INTERVAL_S)
        if (now := _resource_count(pid)) != found:
            found, since = now, clock()
    return found


async def wait_for_release(pid: int, limit: int, seconds: float) -> int:
    """Wait until a process has at most `limit` threads and open files; return the excess.

    A task ends some time after its host is lost: what it has open until then is no leak.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while True:
        more = _resource_count(pid) - limit
        if more <= 0 or clock() > deadline:
            return max(more, 0)
        await asyncio.sleep(_POLL_INTERVAL_S)


def _resource_count(pid: int) -> int:
    return sum(len(list(Path(f"/proc/{pid}/{kind}").iterdir())) for kind in ("fd", "task"))
