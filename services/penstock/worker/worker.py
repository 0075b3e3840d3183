"""A worker: its plugins, its engine, its topics and its tasks, put together."""

from __future__ import annotations

import logging
from functools import partial

from penstock.client import OffsetClient
from penstock.model.connector import Connector, TaskPlan
from penstock.plugin import PluginHost
from penstock.spark.engine import Engine
from penstock.topic.embedded import EmbeddedTopics
from penstock.transform import build_chain
from penstock.worker.ends import EndMaker, ServiceOffsets
from penstock.worker.planning import Design, Planner, design_of, refuse_errors
from penstock.worker.routing import Routed
from penstock.worker.run import RunSpec
from penstock.worker.task import Task
from penstock.worker.tasks import Tasks

log = logging.getLogger(__name__)


class Worker:
    """Runs tasks. The maker starts and stops the engine, the plugin host and the topics."""

    def __init__(
        self, host: PluginHost, engine: Engine, topics: EmbeddedTopics, offsets: OffsetClient
    ) -> None:
        self.host = host
        self.engine = engine
        self.planner = Planner(host, topics)
        self.tasks = Tasks()
        self._ends = EndMaker(host, topics)
        self._offsets = offsets

    async def start_task(self, connector: Connector, plan: TaskPlan, epoch: int) -> None:
        """Run a task at an epoch; see `Tasks.start`.

        Raises:
            ConfigError: the configuration is not valid.
        """
        design = design_of(self.host, connector)
        refuse_errors(design.findings)
        chain = Routed(build_chain(design.parts.chain), design.settings.topic)

        spec = partial(self._spec, design, chain, plan, epoch)
        make = partial(
            Task,
            connector.name,
            plan.task_id,
            epoch,
            spec,
            design.settings.restarts,
            self.tasks.changed,
        )
        await self.tasks.start(plan.task_id, epoch, make)

    async def stop(self) -> None:
        """Drain all tasks."""
        await self.tasks.stop_all()

    async def _spec(self, design: Design, chain: Routed, plan: TaskPlan, epoch: int) -> RunSpec:
        await self.engine.ready()
        ends = await self._ends.make(design, plan, epoch)
        settings = design.settings
        return RunSpec(
            plan=plan,
            epoch=epoch,
            commit_mode=settings.commit_mode,
            rules=settings.rules,
            stall=settings.stall,
            chain=chain,
            engine=self.engine,
            offsets=ServiceOffsets(self._offsets, design.connector.generation, plan.task_id, epoch),
            writer=ends.writer,
            open_reader=ends.open_reader,
        )
