"""Creates the source reader and the sink writer of a task run, by the kind of its connector.

source: plugin → topic · sink: topic → plugin · pipeline: plugin → plugin · mirror: topic → topic
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.model.connector import TaskPlan
from penstock.plugin.host import PluginHost
from penstock.plugin.streams.sink_stream import PluginSinkStream
from penstock.plugin.streams.source_events import PluginMetrics
from penstock.plugin.streams.source_stream import PluginSourceStream
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.config.resolved_config import DLQ_SINK, ResolvedConfig, acquire_plugin
from penstock.worker.dead_letters.dead_letter_writer import SinkWithDeadLetters
from penstock.worker.dead_letters.raw_rows import RawRowParser
from penstock.worker.dead_letters.replay import ReplayReader
from penstock.worker.ports import SchemaAnnouncer, SinkWriter, SourceReader
from penstock.worker.task.drift_handler import DriftHandler


@dataclass(frozen=True, slots=True)
class TaskStreams:
    """Source and sink of one run. `open_reader` opens the source once its offsets are known.
    `schema_announcer` handles columns that the sink lacks. `plugin_metrics` are reported by the
    plugins.
    """

    writer: SinkWithDeadLetters
    schema_announcer: SchemaAnnouncer
    open_reader: Callable[[TaskPlan], SourceReader]
    plugin_metrics: tuple[PluginMetrics, ...] = ()


class StreamFactory:
    """Creates source readers and sink writers from plugins and topics."""

    def __init__(self, host: PluginHost, topics: EmbeddedTopics) -> None:
        self._host, self._topics = host, topics

    async def create(
        self,
        resolved: ResolvedConfig,
        plan: TaskPlan,
        epoch: int,
        *,
        places: bool = False,
        isolated: bool = False,
    ) -> TaskStreams:
        """Return source and sink of a run. Plugin processes are started when they do not run. With
        `places`, rows of topics carry their position. With `isolated`, source and sink get
        processes of their own.
        """
        plugin_metrics: list[PluginMetrics] = []
        rows = await self._writer(resolved, plan, plugin_metrics, isolated=isolated)
        writer = SinkWithDeadLetters(
            rows, await self._dead_letter_writer(resolved, plan), resolved.dead_letter_dataset
        )
        drift = DriftHandler(resolved.settings.drift, rows)
        reader = await self._reader(
            resolved,
            epoch,
            plugin_metrics,
            places=places,
            task=plan.task_id,
            isolated=isolated,
        )
        return TaskStreams(writer, drift, reader, tuple(plugin_metrics))

    async def reader_opener(
        self, resolved: ResolvedConfig, epoch: int, *, places: bool = False
    ) -> Callable[[TaskPlan], SourceReader]:
        """Return what opens a source reader alone."""
        return await self._reader(resolved, epoch, [], places=places)

    async def _writer(
        self,
        resolved: ResolvedConfig,
        plan: TaskPlan,
        plugin_metrics: list[PluginMetrics],
        *,
        isolated: bool,
    ) -> SinkWriter:
        if resolved.writes_plugin:
            process, target = await acquire_plugin(
                self._host, resolved, "sink", plan.task_id, isolated=isolated
            )
            plugin_metrics.append(metrics := PluginMetrics(process.plugin, "sink"))
            is_tolerant = not resolved.settings.rejected_rows.tolerance.is_none
            return PluginSinkStream(
                process, target, plan, metrics=metrics, tolerates_failed_rows=is_tolerant
            )
        rules = resolved.topic_rules
        return self._topics.writer(
            plan.task_id,
            rules.new_topic,
            least_partitions=rules.least_partitions,
            retention=rules.retention,
            require=resolved.reach.require_topic,
        )

    async def _dead_letter_writer(
        self, resolved: ResolvedConfig, plan: TaskPlan
    ) -> SinkWriter | None:
        """Return the writer of dead letters; None when the connector has no place for them."""
        # an own task id: one plugin may write rows and dead letters, and to one table
        beside = TaskPlan(f"{plan.task_id}-letters")
        if resolved.sections.dead_letter_sink:
            process, target = await acquire_plugin(self._host, resolved, DLQ_SINK, plan.task_id)
            return PluginSinkStream(process, target, beside)
        if resolved.dead_letter_dataset:
            return self._topics.writer(beside.task_id, require=resolved.reach.require_topic)
        return None

    async def _reader(
        self,
        resolved: ResolvedConfig,
        epoch: int,
        plugin_metrics: list[PluginMetrics],
        *,
        places: bool,
        task: str = "",
        isolated: bool = False,
    ) -> Callable[[TaskPlan], SourceReader]:
        settings = resolved.settings
        if (replay := settings.replay) is not None:
            resolved.reach.require_topic(resolved.dead_letter_dataset)
            rows = self._topics.rows(resolved.dead_letter_dataset)
            parser = RawRowParser(self._host, resolved)
            return lambda plan: ReplayReader(rows, plan.partitions, replay.edits, parser)
        if resolved.reads_plugin:
            process, target = await acquire_plugin(
                self._host, resolved, "source", task, isolated=isolated
            )
            plugin_metrics.append(metrics := PluginMetrics(process.plugin, "source"))
            credit, until = settings.credit_bytes, settings.until_caught_up
            return lambda plan: PluginSourceStream(
                process,
                target,
                plan,
                epoch,
                credit_bytes=credit,
                until_caught_up=until,
                metrics=metrics,
            )

        def open_topic(plan: TaskPlan) -> SourceReader:
            for topic in {str(one.key["topic"]) for one in plan.partitions}:
                resolved.reach.require_topic(topic, "topics")
            return self._topics.reader(
                plan.partitions, settings.offset_reset, settings.credit_bytes, with_positions=places
            )

        return open_topic
