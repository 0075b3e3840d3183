"""A worker with all that it runs on: Spark, plugins and topics, started and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Self

from penstock.client import ConfigClient, OffsetClient
from penstock.model.metrics import OF_PLUGIN, Number, numbers_of
from penstock.plugin import PluginHost
from penstock.secrets import secrets_of
from penstock.spark.engine import Engine
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files import folder_of
from penstock.worker.admin.preview import check_design
from penstock.worker.admin.preview_process import PreviewProcess
from penstock.worker.config.reach import Bounds
from penstock.worker.process_settings import MachineSettings
from penstock.worker.runtime import otel_metrics
from penstock.worker.runtime.worker import Worker

PLUGIN_GRACE: Final = 1.0
"""Seconds that plugins get to end when the process stops: their tasks have ended before. Longer
lets a plugin that hangs hold the end of the process up; it is killed 3 s after this."""


class Hosting:
    """`async with Hosting(…) as hosting`, then use its `worker`. Spark warms up in the
    background. `lost` ends when the JVM is gone: the process must then be started anew.
    """

    def __init__(
        self,
        settings: MachineSettings,
        offsets: OffsetClient,
        config: ConfigClient,
        runtime: Path,
    ) -> None:
        """`runtime` is a folder for sockets and scratch files; the clients are closed by their
        makers.
        """
        self._settings, self._offsets, self._config = settings, offsets, config
        self._runtime = runtime
        self._stack = AsyncExitStack()
        self._engine: Engine
        self._host: PluginHost
        self._starting: asyncio.Task[None]
        self.worker: Worker

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def lost(self) -> None:
        """Return when the JVM is gone; raise when it could not be started."""
        gone = asyncio.create_task(self._engine.lost.wait())
        try:
            await asyncio.wait({gone, self._starting}, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                self._starting.result()
                await gone
        finally:
            gone.cancel()

    async def ready(self) -> None:
        """Wait until Spark is warm; raise when it could not be started."""
        await asyncio.shield(self._starting)

    def numbers(self) -> Iterator[Number]:
        """Tell what Spark and the host of the plugins have done."""
        yield from numbers_of("engine", self._engine.statistics())
        for name, counts in self._host.statistics().items():
            plugin, _, connector = name.partition("/")
            labels = dict(zip(OF_PLUGIN, (plugin, connector), strict=True))
            yield from numbers_of("host", counts, labels)

    async def _start(self) -> None:
        self._start_engine()
        plugins = self._settings.plugins
        host = self._host = PluginHost(
            plugins.path, self._runtime / "p", memory_max=plugins.memory_max
        )
        host.reload_every(plugins.reload)
        self._stack.push_async_callback(host.close, PLUGIN_GRACE)
        topics = await self._stack.enter_async_context(
            EmbeddedTopics(
                folder_of(self._settings.topics_dir, self._settings.topics_s3),
                self._settings.topics_retention,
            )
        )
        secrets = secrets_of(self._settings.providers)
        self._stack.push_async_callback(secrets.close)
        previews = None
        if self._settings.previews_apart:
            check = partial(check_design, host, secrets, self._settings.reach)
            previews = PreviewProcess(self._settings, self._runtime, check)
            self._stack.push_async_callback(previews.close)
        self.worker = Worker(
            host,
            self._engine,
            topics,
            self._offsets,
            self._config,
            functions=self._settings.functions_path,
            secrets=secrets,
            bounds=Bounds(self._settings.overrides, self._settings.reach),
            previews=previews,
        )
        otel_metrics.observe(self.worker.holdings)
        noting = asyncio.create_task(self.worker.noting.run())
        self._stack.push_async_callback(_ended, noting)
        self._stack.push_async_callback(self.worker.holdings.release)

    def _start_engine(self) -> None:
        settings = self._settings.engine
        if settings.local_dir is None:
            settings = replace(settings, local_dir=self._runtime / "spark")
        self._engine = Engine(settings)
        self._stack.push_async_callback(self._engine.stop)
        self._starting = asyncio.create_task(self._engine.start())
        self._stack.push_async_callback(self._end_start)

    async def _end_start(self) -> None:
        # a session that is half started cannot be stopped, and nobody wants to wait for it
        while not self._starting.done():
            self._engine.abandon()
            await asyncio.wait({self._starting}, timeout=0.1)
        await asyncio.gather(self._starting, return_exceptions=True)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
