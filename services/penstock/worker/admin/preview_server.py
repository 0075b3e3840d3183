"""The process in which previews run: a child of the worker (`preview_process.py`), which sends its
settings as one line on standard input. It ends when that input ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from penstock.aio import run_until_first, wait_for_first
from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1.worker_service_pb2_grpc import (
    WorkerServiceServicer,
    add_WorkerServiceServicer_to_server,
)
from penstock.plugin.host import PluginHost
from penstock.rpc.server import Server
from penstock.secrets.provider_settings import create_secrets
from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings
from penstock.telemetry.logs import configure_logging
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files.locations import open_folder
from penstock.wire import worker_rows
from penstock.wire.config import CONNECTOR
from penstock.worker.admin.preview import EnginePreviews, PreviewSource
from penstock.worker.admin.preview_process import READY
from penstock.worker.config.reach import ConnectorBounds
from penstock.worker.config.resolved_config import WorkerContext
from penstock.worker.process_settings import read_worker_settings
from penstock.worker.task_plans import Planner

log = logging.getLogger(__name__)

_SLOTS: Final = 2
_HEAP: Final = "512m"
"""Heap of the JVM: it holds a thousand rows at most."""

_LOST: Final = 3
"""Exit code after the loss of the JVM. Plugins and Python workers end with the process."""


class _PreviewService(WorkerServiceServicer):
    """The one method of the worker service that this process serves."""

    def __init__(self, previews: EnginePreviews) -> None:
        self._previews = previews

    async def PreviewRows(  # noqa: N802 - gRPC's name
        self, request: pb.PreviewRowsRequest, context: Any
    ) -> pb.PreviewRowsResponse:
        """Return what the chain makes of the rows."""
        connector = CONNECTOR.from_proto(request.connector)
        rows = worker_rows.PREVIEW_REQUEST.from_proto(request)
        return worker_rows.PREVIEW.to_proto(await self._previews.preview(connector, rows))


async def serve(settings_line: Mapping[str, Any], stopped: asyncio.Event) -> None:
    """Serve previews until `stopped` is set, or until the JVM is lost."""
    runtime = Path(settings_line["runtime"])
    settings = read_worker_settings(
        settings_line["values"], settings_line["extra"], Path(settings_line["topics_dir"])
    )
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
        host = PluginHost(plugins.path, runtime / "p", max_memory_bytes=plugins.memory_max)
        stack.push_async_callback(host.close, 0.0)
        topics = EmbeddedTopics(
            open_folder(settings.topics_dir, settings.topics_s3), settings.topics_retention
        )
        await stack.enter_async_context(topics)
        secrets = create_secrets(settings.providers)
        stack.push_async_callback(secrets.close)
        stack.push_async_callback(engine.stop)
        await engine.start()
        bounds = ConnectorBounds(settings.overrides, settings.reach)
        context = WorkerContext(host, secrets, bounds, settings.functions_path, settings.brokers)
        source = PreviewSource(host, Planner(context, topics), topics)
        previews = EnginePreviews(context, engine, source)
        server = Server(settings_line["address"])
        # the omitted methods are abstract only in the type stubs: they return UNIMPLEMENTED
        service = _PreviewService(previews)  # type: ignore[abstract]
        server.add(add_WorkerServiceServicer_to_server, service)
        await stack.enter_async_context(server)
        sys.stdout.buffer.write(READY)
        sys.stdout.flush()
        await run_until_first(stopped.wait(), engine.lost.wait())
        if engine.lost.is_set():
            log.warning("the preview process lost its JVM; the next preview starts another")
            # the host starts another process for the next preview
            os.write(settings_line["loss"], b"!")
            # exit at once: a preview that arrives during an orderly close would fail needlessly
            os._exit(_LOST)


async def main() -> None:
    """Read the settings from standard input, and serve until it ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    settings_line = json.loads(await reader.readline())
    stopped = asyncio.Event()
    serving = asyncio.create_task(serve(settings_line, stopped))
    input_ended = asyncio.create_task(reader.read())
    await wait_for_first(serving, input_ended)
    if not serving.done():
        stopped.set()
    input_ended.cancel()
    await serving


if __name__ == "__main__":
    configure_logging()
    asyncio.run(main())
