"""Fixtures of the tests of the plugin host: scripted plugins; no process may be left at the end."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pyarrow as pa
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.model.connector import Partition, Target, TaskPlan
from penstock.model.errors import PenstockError
from penstock.plugin.catalog.manifest import ConnectorEntry, Kind, Manifest
from penstock.plugin.catalog.registry import Registry
from penstock.plugin.limits import Deadlines, LaunchOptions
from penstock.plugin.process.connection import SERVING
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.process.startup import start_plugin
from penstock_values.identity import partition_id

T = TypeVar("T")

HERE = Path(__file__).parent
SCRIPTED = HERE / "plugins" / "scripted.py"
QUICK = Deadlines(
    handshake_s=60, health_s=60, describe_s=60, validate_s=60, open_s=60, send_s=60, end_s=0.5
)
"""Long enough for a machine that is busy; a test that waits for a deadline changes that one."""
KEY = {"file": "a"}
ID = partition_id(KEY)
SCHEMA = pa.schema([pa.field("line", pa.string())])


class Kit:
    """Makes plugins and what they are given."""

    def __init__(self, runtime_dir: Path) -> None:
        self.runtime_dir = runtime_dir
        self.deadlines = QUICK
        self.partition = ID
        self.schema = SCHEMA

    def manifest(self, *command: str, name: str = "scripted") -> Manifest:
        """Return a manifest of a source and a sink."""
        return Manifest(
            name=name,
            version="1",
            command=command,
            folder=HERE / "plugins",
            connectors=(
                ConnectorEntry("source", Kind.SOURCE, ("org.example.Source",)),
                ConnectorEntry("sink", Kind.SINK),
            ),
        )

    def scripted(self, *modes: str) -> Manifest:
        """Return the manifest of the scripted plugin in some modes."""
        return self.manifest("{python}", str(SCRIPTED), *modes)

    def registry(self, *modes: str) -> Registry:
        """Return a registry of the scripted plugin alone."""
        return Registry([self.scripted(*modes)])

    async def start(
        self,
        *modes: str,
        connector: str = "source",
        deadlines: Deadlines = QUICK,
        max_memory_bytes: int = 0,
    ) -> PluginProcess:
        """Start the scripted plugin."""
        manifest = self.scripted(*modes)
        entry = next(e for e in manifest.connectors if e.name == connector)
        options = LaunchOptions(self.runtime_dir, deadlines, max_memory_bytes=max_memory_bytes)
        return await start_plugin(manifest, entry, options)

    async def start_of(self, manifest: Manifest) -> PluginProcess:
        """Start a plugin of another manifest."""
        options = LaunchOptions(self.runtime_dir, self.deadlines)
        return await start_plugin(manifest, manifest.connectors[0], options)

    @asynccontextmanager
    async def running(self, *modes: str, **more: Any) -> AsyncIterator[PluginProcess]:
        """Start the scripted plugin and stop it at the end."""
        process = await self.start(*modes, **more)
        try:
            yield process
        finally:
            await process.stop(0.5)

    async def is_healthy(self, process: PluginProcess) -> bool:
        """Return whether a process runs and its health service is serving."""
        if not process.alive:
            return False
        with suppress(PenstockError):
            return await process.connection.check_health(process.deadlines.health_s) == SERVING
        return False

    def target(self, connector: str = "source", **config: str) -> Target:
        """Return a configured connector."""
        return Target(connector, "mine", config, {"password": "s3cr3t-canary"})

    def script(self, frames: Sequence[Message | dict[str, Any]]) -> str:
        """Return frames and orders as the text that the scripted plugin plays."""
        return json.dumps(
            [
                {"frame": json_format.MessageToDict(f)} if isinstance(f, Message) else f
                for f in frames
            ]
        )

    def plan(self, *, partitions: Sequence[Partition] = (Partition(KEY),)) -> TaskPlan:
        """Return a plan of one partition."""
        return TaskPlan("g-0", tuple(partitions))

    # ── frames of a source ──

    def opened(self, heartbeat: float = 30) -> source_pb.ReadResponse:
        """Return the first frame of a source."""
        frame = source_pb.ReadResponse(opened=source_pb.ReadOpened(encoding=1, needs_commit=True))
        frame.opened.heartbeat_every.FromMilliseconds(int(heartbeat * 1000))
        return frame

    def schema_frame(self, schema: pa.Schema = SCHEMA, id_: int = 1) -> source_pb.ReadResponse:
        """Return a schema."""
        frame = source_pb.ReadResponse()
        frame.schema.schema_id, frame.schema.dataset = id_, "d"
        frame.schema.arrow_schema = schema.serialize().to_pybytes()
        return frame

    def ready(self, seq: int, rows: int = 10, size: int = 100) -> source_pb.ReadResponse:
        """Return a batch."""
        return source_pb.ReadResponse(
            ready=source_pb.BatchReady(seq=seq, schema_id=1, partition_id=ID, rows=rows, bytes=size)
        )

    def checkpoint(
        self, id_: int, rows: int = 10, last_seq: int = 1, **more: Any
    ) -> source_pb.ReadResponse:
        """Return a checkpoint with an offset."""
        frame = source_pb.ReadResponse(
            checkpoint=source_pb.Checkpoint(checkpoint_id=id_, rows=rows, last_seq=last_seq, **more)
        )
        frame.checkpoint.offsets[ID].fields["byte"].int_value = last_seq * 1000
        return frame

    def drained(self, id_: int) -> source_pb.ReadResponse:
        """Return the end."""
        return source_pb.ReadResponse(drained=source_pb.Drained(checkpoint_id=id_))

    # ── processes ──

    def processes(self) -> list[psutil.Process]:
        """Return the processes that were started under this test's folder, watchers too."""
        return [p for p in psutil.process_iter() if self._is_ours(p)]

    def seen(self, count: int, what: str, seconds: float) -> list[psutil.Process]:
        """Return the processes as soon as there are so many, or fail."""
        found: list[psutil.Process] = []

        def enough() -> bool:
            found[:] = self.processes()
            return len(found) >= count

        self.wait_for(enough, what, seconds)
        return found

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            folder = process.environ().get("PLUGIN_UNIX_SOCKET_DIR", "")
            return (
                folder.startswith(str(self.runtime_dir))
                and process.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.Error:
            return False

    async def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for a condition, or fail."""
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.01)

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
        """Wait for a condition outside of this process, or fail."""
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, f"{what}: not within {seconds} s"
            time.sleep(0.01)


@pytest.fixture
def kit() -> Iterator[Kit]:
    """A kit with a short folder; at the end no process and no file of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="pt-"))
    made = Kit(folder / "r")
    yield made
    left = made.processes()
    try:
        made.wait_for(lambda: not made.processes(), f"processes left: {left}")
        files = [str(f) for f in made.runtime_dir.rglob("*")] if made.runtime_dir.exists() else []
        assert not files, f"files left: {files}"
    finally:
        for process in made.processes():
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, T]], T]:
    """Runs a coroutine to its end, 120 s at most."""

    def run_it(coroutine: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(120):
                return await coroutine

        return asyncio.run(bounded())

    return run_it
