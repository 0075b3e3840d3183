"""Creates tasks and monitors from assignments, and the spec of each of their runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.client import OffsetClient, SchedulerClient
from penstock.connector_config.settings import read_restart_policy
from penstock.model.connector import Connector, ConnectorKind
from penstock.plugin.host import PluginHost
from penstock.plugin.streams.monitor_stream import PluginMonitor
from penstock.spark.engine import Engine
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker import ports
from penstock.worker.config.plugin_transforms import attach_plugins, build_connector_chain
from penstock.worker.config.resolved_config import (
    ResolvedConfig,
    SecretWatch,
    WatchSpec,
    WorkerContext,
    acquire_plugin,
)
from penstock.worker.dead_letters.dead_letter_writer import (
    DeadLetterOrigin,
    DeadLetterPlace,
    DeadLetterWriter,
)
from penstock.worker.dead_letters.rejected_rows import MAX_LOGGED_ROWS, RejectedRowHandler
from penstock.worker.streams import StreamFactory
from penstock.worker.task.monitor import Monitor, MonitorSpec
from penstock.worker.task.supervisor import Assignment
from penstock.worker.task.task import Task
from penstock.worker.task.task_offsets import StoredOffsets
from penstock.worker.task.task_run import RunSpec
from penstock.worker.task_plans import make_topic_watch

log = logging.getLogger(__name__)


def make_rejected_row_handler(
    resolved: ResolvedConfig,
    task_id: str,
    epoch: int,
    engine: ports.Engine,
    place: DeadLetterPlace,
    reader: ports.SourceReader,
) -> RejectedRowHandler:
    """Create the handler for rejected rows of one task run. Dead letters are written to `place`."""
    settings, rules = resolved.settings, resolved.settings.rejected_rows
    if not resolved.dead_letter_dataset:
        return RejectedRowHandler(rules)
    # a replayed row that is rejected again belongs to the original connector
    name = settings.replay.connector if settings.replay else resolved.connector.name
    origin = DeadLetterOrigin(name, task_id, epoch, settings.stall_timeout_s)
    max_texts = MAX_LOGGED_ROWS if rules.log and rules.log_rows else 0
    writer = DeadLetterWriter(
        origin, engine, reader, place, settings.retries, headers=rules.headers, max_texts=max_texts
    )
    return RejectedRowHandler(rules, writer)


def with_topic_warning(
    resolved: ResolvedConfig, report: Callable[[str, str], None]
) -> Callable[[str, str], None]:
    """Return the callback for datasets of moved rows with a warning, once, when `topic` is set and
    means nothing: the rows name where they go. Only rows tell, since a source need not name it.
    """
    topic = resolved.sections.framework.get("topic", "")
    if not topic or not resolved.reads_plugin:
        return report
    is_warned = False

    def report_and_warn(before: str, after: str) -> None:
        nonlocal is_warned
        if not is_warned and topic not in {before, after}:
            is_warned = True
            log.warning(
                "connector %s: `topic` is %r, but rows of %r go to %r: it is for rows that name no "
                "dataset. Remove it, or change the dataset by a transform: RegexRouter.",
                *(resolved.connector.name, topic, before, after),
            )
        report(before, after)

    return report_and_warn


@dataclass(frozen=True, slots=True)
class RunSpecFactory:
    """Creates run specs with the resources of a worker. `record_topics` returns the callback for
    the datasets of moved rows of a connector.
    """

    context: WorkerContext
    engine: Engine
    topics: EmbeddedTopics
    streams: StreamFactory
    offsets: OffsetClient
    record_topics: Callable[[Connector], Callable[[str, str], None]]

    async def create(self, assignment: Assignment, *, isolated: bool = False) -> RunSpec:
        """Return the spec of a task run. `isolated`: with plugin processes of its own, if there is
        memory for them.

        Raises:
            PenstockError: the configuration is not valid, or its secrets cannot be read.
        """
        task_id = assignment.plan.task_id
        isolated = isolated and self.context.host.reserve(task_id)
        try:
            return await self._run(assignment, isolated=isolated)
        except BaseException:
            self.context.host.release(task_id)
            raise

    async def _run(self, assignment: Assignment, *, isolated: bool) -> RunSpec:
        resolved = await self.context.resolve_valid(assignment.connector)
        chain = build_connector_chain(self.context.host, resolved, self.context.functions)
        await self.engine.wait_until_ready()
        plan, epoch, settings = assignment.plan, assignment.epoch, resolved.settings
        streams = await self.streams.create(
            resolved, plan, epoch, places=chain.needs_positions, isolated=isolated
        )
        report = with_topic_warning(resolved, self.record_topics(resolved.connector))
        task_chain, keep_alive = await attach_plugins(self.context.host, chain, resolved, report)
        generation = resolved.connector.generation
        return RunSpec(
            plan=plan,
            epoch=epoch,
            commit_mode=settings.commit_mode,
            flush_rules=settings.flush_rules,
            schema_announcer=streams.schema_announcer,
            stall_timeout_s=settings.stall_timeout_s,
            chain=task_chain,
            keep_alive=keep_alive,
            engine=self.engine,
            offsets=StoredOffsets(self.offsets, generation, plan.task_id, epoch),
            writer=streams.writer,
            open_reader=streams.open_reader,
            wait_for_change=SecretWatch(self.context.secrets, resolved).wait_for_change,
            make_rejected_row_handler=partial(
                make_rejected_row_handler,
                resolved,
                plan.task_id,
                epoch,
                self.engine,
                streams.writer,
            ),
            retries=settings.retries,
            plugin_version=_version(self.context.host, resolved),
            plugin_metrics=lambda: tuple(
                one for metrics in streams.plugin_metrics for one in metrics.current()
            ),
            is_isolated=isolated,
            watch_attempts=partial(self.context.host.attempts.watch, plan.task_id, epoch),
            release=partial(self.context.host.release, plan.task_id),
        )

    async def create_watch(self, connector: Connector) -> WatchSpec:
        """Return the partition watch of a monitor's run, and the watch of its secrets.

        Raises:
            PenstockError: as `create`.
        """
        resolved = await self.context.resolve_valid(connector)
        watch: ports.PartitionWatch = make_topic_watch(self.topics, resolved)
        if resolved.reads_plugin:
            process, target = await acquire_plugin(self.context.host, resolved, "source")
            watch = PluginMonitor(process, target, resolved.settings.tasks_max)
        return WatchSpec(watch, SecretWatch(self.context.secrets, resolved))


def _version(host: PluginHost, resolved: ResolvedConfig) -> str:
    """Return the version of the connector's plugin; empty for a mirror."""
    if resolved.kind is ConnectorKind.MIRROR:
        return ""
    is_sink = resolved.kind is ConnectorKind.SINK
    target = resolved.target("sink" if is_sink else "source")
    manifest, _ = host.find(target.connector, target.version)
    return manifest.version


@dataclass(frozen=True, slots=True)
class TaskFactory:
    """Creates tasks and monitors that do not run yet. Monitors read plans of `scheduler`."""

    run_specs: RunSpecFactory
    scheduler: SchedulerClient

    def create(
        self,
        assignment: Assignment,
        on_change: Callable[[], None],
        request_replan: Callable[[str, str], None],
    ) -> Task | Monitor:
        """Return a task or a monitor. `on_change` is called at each change of state,
        `request_replan` by a monitor. An error in the configuration ends the first run.
        """
        connector = assignment.connector
        restarts = read_restart_policy(connector.config)
        if assignment.is_monitor:
            request = partial(request_replan, connector.generation)
            watch = partial(self.run_specs.create_watch, connector)
            plans = partial(self.scheduler.list_plans, connector.generation)
            spec = MonitorSpec(watch, plans, request)
            return Monitor(assignment, spec, restarts, on_change)
        return Task(assignment, partial(self.run_specs.create, assignment), restarts, on_change)
