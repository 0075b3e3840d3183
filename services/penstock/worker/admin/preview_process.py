"""Previews run in a process of their own, beside the engine that moves rows.

A preview evaluates expressions that nobody has run before, for whoever may configure a connector.
In the engine that moves rows one of them could take the memory or the slots of every connector
here. So the first preview starts a second process with a JVM of its own (some seconds), which ends
after a minute without any; a preview that ends it harms the other previews alone.

The child is started by `python -m penstock.worker.admin.preview_process`. It reads its settings as
a line of JSON from its standard input, so that no secret is in its command line, and ends when the
input does: with the worker, however that ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1.worker_service_pb2_grpc import (
    WorkerServiceServicer,
    add_WorkerServiceServicer_to_server,
)
from penstock.client import WorkerClient
from penstock.model.connector import Connector
from penstock.model.errors import PenstockError, RetriableError
from penstock.model.preview_rows import Given, Rehearsed
from penstock.plugin import PluginHost
from penstock.rpc import Server
from penstock.secrets import secrets_of
from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings
from penstock.telemetry import Secret, set_up
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files import folder_of
from penstock.wire import rehearsal
from penstock.wire.config import connector_from_proto
from penstock.worker.admin.preview import Rehearsals, Tasting
from penstock.worker.planning.plans import Planner
from penstock.worker.process_settings import MachineSettings, machine_settings

log = logging.getLogger(__name__)


IDLE_S: Final = 60.0
"""Seconds without a preview after which the process ends. A person who tries a transform asks again
within seconds; a JVM that is kept for longer takes some 400 MB for nothing."""

START_WITHIN_S: Final = 50.0
"""Seconds for the start: less than those of the call that waits for it. It takes five on a machine
with nothing else to do."""

_END_WITHIN_S: Final = 5.0
_SLOTS: Final = 2
_HEAP: Final = "512m"
"""Heap of its JVM: at most a thousand rows are in it."""

_READY: Final = b"ready\n"
_LOST: Final = 3
"""Exit code of a process that lost its JVM. Plugins and Python workers end with it."""


class PreviewProcess:
    """Previews in a process that is started when one is asked for. Owned by the worker: `close`."""

    def __init__(
        self,
        settings: MachineSettings,
        runtime: Path,
        check: Callable[[Connector], Awaitable[None]],
    ) -> None:
        """Take the settings of the worker, and a folder for sockets and scratch files. `check`
        raises for a connector that is not worth the start of a process.
        """
        self._settings, self._runtime, self._check = settings, runtime, check
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._client: WorkerClient | None = None
        self._under_way = 0
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def of(self, connector: Connector, given: Given) -> Rehearsed:
        """Return what becomes of rows, as `Rehearsals.of`.

        Raises:
            ConfigError: the connector is not valid.
            RetriableError: `preview.not_started`, `preview.lost`.
        """
        if not self._runs():
            await self._check(connector)
        self._under_way += 1
        self._keep()
        try:
            client = await self._started()
            process = self._process
            try:
                return await client.rehearse(connector, given)
            except PenstockError:
                if process is not None and process.returncode is not None:
                    raise _lost(process.returncode) from None
                raise
        finally:
            self._under_way -= 1
            self._end_when_idle()

    async def close(self) -> None:
        """End the process. Idempotent."""
        self._keep()
        await asyncio.gather(*self._ending, return_exceptions=True)
        async with self._lock:
            await self._end()

    def _runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def _started(self) -> WorkerClient:
        async with self._lock:
            if self._client is None or not self._runs():
                await self._end()
                try:
                    async with asyncio.timeout(START_WITHIN_S):
                        self._client = await self._start()
                except TimeoutError:
                    await self._end()
                    why = f"it was not ready within {START_WITHIN_S:g} s"
                    raise _not_started(why) from None
            return self._client

    async def _start(self) -> WorkerClient:
        address = f"unix:{self._runtime / 'preview'}"
        orders = {
            "values": {key: _plain(value) for key, value in self._settings.values.items()},
            "extra": dict(self._settings.extra),
            "topics_dir": self._settings.topics_dir,
            "runtime": str(self._runtime / "previews"),
            "address": address,
        }
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        with suppress(ConnectionError):  # it ended already: the next line says so
            process.stdin.write(json.dumps(orders).encode() + b"\n")
            await process.stdin.drain()
        if await process.stdout.readline() != _READY:
            raise _not_started(f"it ended with {await process.wait()}")
        log.info("previews run in process %d", process.pid)
        return WorkerClient(address)

    def _keep(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _end_when_idle(self) -> None:
        if not self._under_way:
            self._keep()
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end_soon)

    def _end_soon(self) -> None:
        ending = asyncio.ensure_future(self._end_idle())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end_idle(self) -> None:
        async with self._lock:
            if not self._under_way:
                await self._end()

    async def _end(self) -> None:
        """End the process and everything that it started: it leads a group."""
        client, self._client = self._client, None
        process, self._process = self._process, None
        if client is not None:
            await client.close()
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_WITHIN_S):
                await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


class _Previews(WorkerServiceServicer):
    """The one method of the worker's service that is answered here."""

    def __init__(self, rehearsals: Rehearsals) -> None:
        self._rehearsals = rehearsals

    async def RehearseRows(  # noqa: N802 - gRPC's name
        self, request: pb.RehearseRowsRequest, context: Any
    ) -> pb.RehearseRowsResponse:
        """Tell what becomes of rows."""
        del context
        connector = connector_from_proto(request.connector)
        given = rehearsal.given_from_proto(request)
        return rehearsal.rehearsed_to_proto(await self._rehearsals.of(connector, given))


async def serve(orders: Mapping[str, Any], until: asyncio.Event) -> None:
    """Answer previews until the event, or until the JVM is lost."""
    runtime = Path(orders["runtime"])
    settings = machine_settings(orders["values"], orders["extra"], Path(orders["topics_dir"]))
    engine = Engine(
        EngineSettings(
            master=f"local[{_SLOTS},1]",
            slots=_SLOTS,
            driver_memory=_HEAP,
            local_dir=runtime / "spark",
            jars=settings.engine.jars,
            extra={k: v for k, v in settings.engine.extra.items() if k != "spark.master"},
        )
    )
    async with AsyncExitStack() as stack:
        plugins = settings.plugins
        host = PluginHost(plugins.path, runtime / "p", memory_max=plugins.memory_max)
        stack.push_async_callback(host.close, 0.0)
        topics = EmbeddedTopics(
            folder_of(settings.topics_dir, settings.topics_s3), settings.topics_retention
        )
        await stack.enter_async_context(topics)
        secrets = secrets_of(settings.providers)
        stack.push_async_callback(secrets.close)
        stack.push_async_callback(engine.stop)
        await engine.start()
        tasting = Tasting(host, Planner(host, topics, secrets, settings.reach), topics)
        rehearsals = Rehearsals(
            host, engine, tasting, settings.functions_path, secrets, settings.reach
        )
        server = Server(orders["address"])
        # the methods that are left out are abstract in the stubs alone: they answer UNIMPLEMENTED
        previews = _Previews(rehearsals)  # type: ignore[abstract]
        server.add(add_WorkerServiceServicer_to_server, previews)
        await stack.enter_async_context(server)
        sys.stdout.buffer.write(_READY)
        sys.stdout.flush()
        waits = {asyncio.ensure_future(until.wait()), asyncio.ensure_future(engine.lost.wait())}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
        if engine.lost.is_set():
            log.warning("previews lost their JVM; the next one starts another")
            # at once: a preview that comes while all is closed in order would fail for nothing
            os._exit(_LOST)


async def main() -> None:
    """Read the settings from standard input, and serve until it ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    orders = json.loads(await reader.readline())
    until = asyncio.Event()
    serving = asyncio.create_task(serve(orders, until))
    ended = asyncio.create_task(reader.read())
    await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        until.set()
    ended.cancel()
    await serving


def _plain(value: Any) -> Any:
    """Return the value of a key as JSON has it; the child needs the secrets, too."""
    return value.reveal() if isinstance(value, Secret) else value


def _not_started(why: str) -> RetriableError:
    return RetriableError(
        "preview.not_started",
        f"stage preview.start: the process that runs previews did not start: {why}",
        fix="See the log of the worker, and its free memory; then ask again.",
    )


def _lost(code: int) -> RetriableError:
    return RetriableError(
        "preview.lost",
        f"the process that runs previews ended with {code} while this one ran",
        fix="Look for an expression that makes much of one row or computes for minutes; rows that "
        "move were not touched.",
    )


if __name__ == "__main__":
    set_up()
    asyncio.run(main())
