"""A worker: its tasks and its admin operations, on Spark, plugins and topics that `WorkerHost`
starts and stops together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Self

from penstock.aio import cancel_and_wait, run_together, wait_for_first
from penstock.client import ConfigClient, OffsetClient, SchedulerClient
from penstock.model.metrics import PLUGIN_LABELS, ProcessMetric, metrics_from_statistics
from penstock.plugin.host import PluginHost
from penstock.secrets.provider_settings import create_secrets
from penstock.spark.engine import Engine
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files.locations import open_folder
from penstock.worker.admin.connector_plugins import Validator
from penstock.worker.admin.datasets import DatasetLister
from penstock.worker.admin.dead_letter_reader import DeadLetterReader
from penstock.worker.admin.external_state import OffsetAlterer, StateApplier
from penstock.worker.admin.preview import EnginePreviews, PreviewSource
from penstock.worker.admin.preview_process import PreviewProcess
from penstock.worker.admin.signals import SignalSender
from penstock.worker.config.reach import ConnectorBounds
from penstock.worker.config.resolved_config import WorkerContext
from penstock.worker.dead_letters.raw_rows import open_parser
from penstock.worker.ports import Previews
from penstock.worker.process_settings import WorkerSettings
from penstock.worker.runtime import otel_metrics
from penstock.worker.runtime.task_factory import RunSpecFactory, TaskFactory
from penstock.worker.runtime.task_registry import TaskRegistry
from penstock.worker.runtime.topic_tracking import TopicTracker
from penstock.worker.streams import StreamFactory
from penstock.worker.task_plans import Planner


class AdminOperations:
    """Validation, plans, datasets, signals, previews, altered offsets, dead letters."""

    def __init__(
        self,
        context: WorkerContext,
        engine: Engine,
        topics: EmbeddedTopics,
        offsets: OffsetClient,
        previews: Previews | None,
    ) -> None:
        """The arguments are those of `Worker`."""
        self.validator = Validator(context)
        self.datasets = DatasetLister(context)
        self.signals = SignalSender(context)
        self.planner = Planner(context, topics)
        self.offset_alterer = OffsetAlterer(context)
        self.state_applier = StateApplier(context)
        preview_source = PreviewSource(context.host, self.planner, topics)
        engine_previews = EnginePreviews(context, engine, preview_source)
        self.previews: Previews = previews or engine_previews
        self.dead_letters = DeadLetterReader(
            topics, offsets, context.bounds.reach, context.brokers, partial(open_parser, context)
        )


class Worker:
    """Runs tasks. `WorkerHost` starts and stops the engine, the plugin host and the topics."""

    def __init__(
        self,
        context: WorkerContext,
        engine: Engine,
        topics: EmbeddedTopics,
        offsets: OffsetClient,
        config: ConfigClient,
        scheduler: SchedulerClient,
        *,
        previews: Previews | None = None,
    ) -> None:
        """`scheduler` has the plans for monitors. The caller closes the clients and the secrets of
        the context. Without `previews`, previews run in `engine`.
        """
        self.host = context.host
        self.admin = AdminOperations(context, engine, topics, offsets, previews)
        self.task_registry = TaskRegistry(
            lambda one: self._task_factory.create(
                one, self.task_registry.notify_changed, self.task_registry.request_replan
            )
        )
        self.topic_tracker = TopicTracker(config)
        streams = StreamFactory(context.host, topics)
        record_topics = self.topic_tracker.recorder_for
        run_specs = RunSpecFactory(context, engine, topics, streams, offsets, record_topics)
        self._task_factory = TaskFactory(run_specs, scheduler)


PLUGIN_GRACE_S: Final = 1.0
"""Time for plugins to end when the process stops; their tasks have ended before. Longer lets a
plugin that hangs delay the end; it is killed 3 s after this.
"""


class WorkerHost:
    """`async with WorkerHost(…) as host`, then use `host.worker`. Spark starts in the background.
    When `wait_until_lost` returns, the JVM is lost and the process must start anew.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        offsets: OffsetClient,
        config: ConfigClient,
        scheduler: SchedulerClient,
        runtime: Path,
    ) -> None:
        """`runtime` is a folder for sockets and scratch files. The caller closes the clients."""
        self._settings, self._runtime = settings, runtime
        self._offsets, self._config, self._scheduler = offsets, config, scheduler
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

    async def wait_until_lost(self) -> None:
        """Return when the JVM is lost; raise when it could not start."""
        async with run_together(self._engine.lost.wait()) as (gone,):
            await wait_for_first(gone, self._starting)
            if not gone.done():
                self._starting.result()
                await gone

    async def wait_until_ready(self) -> None:
        """Wait until Spark has started; raise when it could not start."""
        await asyncio.shield(self._starting)

    def metrics(self) -> Iterator[ProcessMetric]:
        """Return the metrics of the engine and of the plugin host."""
        yield from metrics_from_statistics("engine", self._engine.statistics())
        for name, counts in self._host.statistics().items():
            plugin, _, connector = name.partition("/")
            labels = dict(zip(PLUGIN_LABELS, (plugin, connector), strict=True))
            yield from metrics_from_statistics("host", counts, labels)

    async def _start(self) -> None:
        self._start_engine()
        plugins = self._settings.plugins
        host = self._host = PluginHost(
            plugins.path,
            self._runtime / "p",
            max_memory_bytes=plugins.memory_max,
            isolation=plugins.isolation,
        )
        host.start_reloading(plugins.reload)
        self._stack.push_async_callback(host.close, PLUGIN_GRACE_S)
        topics = await self._stack.enter_async_context(
            EmbeddedTopics(
                open_folder(self._settings.topics_dir, self._settings.topics_s3),
                self._settings.topics_retention,
            )
        )
        secrets = create_secrets(self._settings.providers)
        self._stack.push_async_callback(secrets.close)
        bounds = ConnectorBounds(self._settings.overrides, self._settings.reach)
        context = WorkerContext(
            host,
            secrets,
            bounds,
            self._settings.functions_path,
            self._settings.brokers,
            self._settings.is_shared,
        )
        previews = None
        if self._settings.previews_in_process:
            previews = PreviewProcess(self._settings, self._runtime, context.resolve_valid)
            self._stack.push_async_callback(previews.close)
        self.worker = Worker(
            context,
            self._engine,
            topics,
            self._offsets,
            self._config,
            self._scheduler,
            previews=previews,
        )
        otel_metrics.register(self.worker.task_registry.statuses)
        topic_tracker = asyncio.create_task(self.worker.topic_tracker.run())
        self._stack.push_async_callback(cancel_and_wait, topic_tracker)
        self._stack.push_async_callback(self.worker.task_registry.release)

    def _start_engine(self) -> None:
        settings = self._settings.engine
        if settings.local_dir is None:
            settings = replace(settings, local_dir=self._runtime / "spark")
        self._engine = Engine(settings)
        self._stack.push_async_callback(self._engine.stop)
        self._starting = asyncio.create_task(self._engine.start())
        self._stack.push_async_callback(self._cancel_start)

    async def _cancel_start(self) -> None:
        # a half-started session cannot be stopped, and waiting for it would delay the end
        while not self._starting.done():
            self._engine.abort_start()
            await asyncio.wait({self._starting}, timeout=0.1)
        await asyncio.gather(self._starting, return_exceptions=True)
