"""One plugin that runs, here or elsewhere, from its start to its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration

from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.model.errors import PenstockError
from penstock.plugin import describe
from penstock.plugin.control import ControlCalls
from penstock.plugin.deadlines import Deadlines
from penstock.plugin.installed.manifest import ConnectorEntry, Manifest
from penstock.plugin.process.connection import SERVING, Life, Link


class PluginProcess(ControlCalls):
    """A running plugin that serves one connector to many tasks. Made by `start_plugin`.

    `exited` is done, with the exit code, when the process has ended, however it did; streams watch
    it. Owned by the host; ends exactly once.
    """

    def __init__(
        self,
        manifest: Manifest,
        entry: ConnectorEntry,
        life: Life,
        link: Link,
        description: describe.PluginDescription,
        deadlines: Deadlines,
    ) -> None:
        super().__init__(link, deadlines)
        self.plugin = manifest.name
        self.connector = entry.name
        self.description = description
        self._running = life

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
    def dial(self) -> dict[str, Any]:
        """What executors need to reach it, for a ticket."""
        place: dict[str, Any] = {"address": self.address, "credential": self.credential}
        if self.link.tls:
            place["tls"] = self.link.tls.to_dict()
        return place

    @property
    def pid(self) -> int:
        """The process, which leads a group of the same number; 0 for a plugin elsewhere."""
        return self._running.pid

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
            return await self.link.health(self.deadlines.health) == SERVING
        except PenstockError:
            return False

    async def answers(self) -> bool:
        """Tell whether a task may count on it. One elsewhere is asked: nobody sees it end."""
        if self.alive and not self.pid:
            await self._running.ended(self.deadlines.health)
        return self.alive

    async def stop(self, grace: float = 5.0) -> None:
        """End the process: Shutdown, then SIGTERM, then SIGKILL of its group. One elsewhere is
        only let go: others may use it. Idempotent.
        """
        if self.alive and self.pid:
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
        await self._running.ended(min(until - clock(), self.deadlines.end))
