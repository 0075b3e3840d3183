"""A plugin's process as the kit starts it: bare, so that everything it does can be seen.

The host guards what it starts; the kit does not, because a guard would tidy up what a plugin leaves
behind, and that is what some cases look for. The kit tidies up itself, after it looked.
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
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.conformance.verdict import RuleBrokenError, require
from penstock.model.errors import InternalError
from penstock.plugin.installed.manifest import Manifest
from penstock.plugin.process.handshake import Handshake, address_of, find
from penstock.plugin.process.launch import (
    CREDENTIAL_KEY,
    Launch,
    how_it_ended,
    prepare,
    remove_folder,
)
from penstock.plugin.process.logs import LineCutter
from penstock.rpc.channels import authority

_MOST_KEPT: Final = 4 << 20
"""Bytes of output that are kept to be looked through, of each process."""
_MOST_MESSAGE: Final = 256 << 20
_COUNTED: Final = {"PENSTOCK_INSPECTABLE": "1"}
"""The kit counts open files and looks for what is left, without more rights than the plugin has."""
_READY_WITHIN: Final = 30.0
"""Seconds to the handshake. A plugin takes 10 to 200 ms; a machine that is busy takes its time."""
_ENDS_WITHIN: Final = 10.0


class Plugin:
    """A started plugin: its lines, its handshake, its calls. Made by `started`."""

    def __init__(self, launch: Launch, process: asyncio.subprocess.Process) -> None:
        self.launch = launch
        self.pid = process.pid
        self.handshakes: list[Handshake] = []
        self.broken_lines: list[str] = []
        self.unanswered: dict[str, float] = {}
        """Kinds of frames that never came, and how many seconds they were waited for."""
        self._process = process
        self._out, self._err = bytearray(), bytearray()
        self._news = asyncio.Event()
        self._pumps = [
            asyncio.create_task(self._listen(process.stdout, self._out, self._line)),
            asyncio.create_task(self._listen(process.stderr, self._err, None)),
        ]
        self._waiting = asyncio.create_task(process.wait())
        self._channels: list[grpc.aio.Channel] = []
        self.channel: grpc.aio.Channel

    @property
    def output(self) -> str:
        """All that it printed, on both pipes."""
        return (self._out + b"\n" + self._err).decode("utf-8", "replace")

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What every call carries."""
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
        """How it ended, None while it lives."""
        return self._process.returncode

    async def handshake(self, seconds: float = _READY_WITHIN) -> Handshake:
        """Wait for the handshake, on stdout or in the file.

        Raises:
            RuleBrokenError: there is none.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while not (shaken := self._shaken()):
            require(self.exit_code is None, f"{self._how()} before its handshake: {self._last()}")
            require(clock() < until, f"no handshake within {seconds:g} s: {self._last()}")
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await self._news.wait()
        return shaken

    async def connect(self) -> None:
        """Dial it once it shook hands."""
        try:
            address = address_of(await self.handshake(), self.launch.folder)
        except InternalError as error:
            raise RuleBrokenError(str(error)) from None
        options = [
            ("grpc.max_receive_message_length", _MOST_MESSAGE),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            *authority(address),
        ]
        self.channel = grpc.aio.insecure_channel(address, options)
        self._channels.append(self.channel)

    async def kill(self) -> None:
        """End it as a crash would: it alone, at once."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        await self._waiting

    def terminate(self) -> None:
        """Ask it to end, as an operator does."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def leave(self) -> None:
        """Close its standard input: the host is gone."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def ends(self, seconds: float) -> bool:
        """Wait for its end; tell whether it came in time."""
        await asyncio.wait([self._waiting], timeout=seconds)
        return self._waiting.done()

    async def heard_all(self) -> None:
        """Wait for the last lines of a process that ended."""
        await asyncio.wait(self._pumps, timeout=1.0)

    def relatives(self) -> list[int]:
        """Return the processes that it started and that live, whatever group they went to."""
        mark = os.fsencode(f"PLUGIN_UNIX_SOCKET_DIR={self.launch.folder}")
        found = (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())
        return [pid for pid in found if pid != self.pid and mark in _environment(pid)]

    async def end(self) -> None:
        """End it and all that it started, and let go of everything."""
        for channel in self._channels:
            await channel.close()
        self.leave()
        await self.kill()
        for pid in self.relatives():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self.heard_all()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, self._waiting, return_exceptions=True)
        remove_folder(self.launch.folder)

    def _shaken(self) -> Handshake | None:
        if not self.handshakes and self.launch.handshake_file.is_file():
            for line in self.launch.handshake_file.read_text(errors="replace").splitlines():
                self._line(line.encode())
        require(not self.broken_lines, f"a broken handshake line: {self.broken_lines[:1]}")
        return self.handshakes[0] if self.handshakes else None

    def _line(self, raw: bytes) -> None:
        text = raw.decode("utf-8", "replace")
        try:
            found = find(text)
        except InternalError:
            self.broken_lines.append(text[:200])
            return
        if found:
            self.handshakes.append(found)

    async def _listen(self, pipe: asyncio.StreamReader | None, kept: bytearray, take: Any) -> None:
        assert pipe is not None  # noqa: S101 - both are pipes
        cutter = LineCutter()
        while chunk := await pipe.read(65536):
            kept += chunk[: max(0, _MOST_KEPT - len(kept))]
            for line in cutter.feed(chunk):
                if take:
                    take(line)
            self._news.set()

    def _how(self) -> str:
        return f"the process {how_it_ended(self.exit_code or 0)}"

    def _last(self) -> str:
        lines = self.output.strip().splitlines()[-3:]
        return " | ".join(lines)[-600:] or "it printed nothing"


@asynccontextmanager
async def started(
    manifest: Manifest,
    runtime_dir: Path,
    *,
    without: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Plugin]:
    """Start a plugin; at the end nothing of it is left.

    Args:
        manifest: Which one.
        runtime_dir: Where its private folder is made.
        without: Variables that the host would set and that are left out.
        environment: Variables that are set otherwise than the host would.
    """
    order = prepare(manifest, runtime_dir)
    told = {k: v for k, v in order.environment.items() if k not in without}
    order = replace(order, environment={**told, **_COUNTED, **(environment or {})})
    process = await asyncio.create_subprocess_exec(
        *order.argv,
        env=dict(order.environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    plugin = Plugin(order, process)
    try:
        yield plugin
    finally:
        await plugin.end()


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
