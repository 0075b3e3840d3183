"""Makes what an assignment names: a task, or the monitor of a connector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.client import ConfigClient, OffsetClient
from penstock.model.connector import Connector, TaskPlan
from penstock.plugin import PluginHost
from penstock.spark.engine import Engine
from penstock.transform import Chain, Outside, build_chain
from penstock.worker.assigned import Assigned
from penstock.worker.ends import EndMaker, ServiceOffsets
from penstock.worker.monitor import Monitor, MonitorSpec
from penstock.worker.planning import Design, design_of, refuse_errors
from penstock.worker.plugging import plug, served_by
from penstock.worker.run import RunSpec
from penstock.worker.task import Task


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes tasks and monitors that do not run yet, out of what a worker has."""

    host: PluginHost
    engine: Engine
    ends: EndMaker
    offsets: OffsetClient
    config: ConfigClient
    functions: Sequence[Path] = ()

    def make(
        self,
        assigned: Assigned,
        changed: Callable[[], None],
        wish: Callable[[str, str], None],
    ) -> Task | Monitor:
        """Return a task, which says that its state `changed`; or a monitor, which may `wish` for
        another plan of a generation.

        Raises:
            ConfigError: the configuration is not valid.
        """
        design = design_of(self.host, assigned.connector)
        refuse_errors(design.findings)
        restarts = design.settings.restarts
        if assigned.monitor:
            wants = partial(wish, assigned.connector.generation)
            return Monitor(assigned, self._monitor(design, wants), restarts, changed)
        chain = build_chain(design.parts.chain, Outside(self.functions, served_by(self.host)))
        return Task(assigned, partial(self._run, design, chain, assigned), restarts, changed)

    def _monitor(self, design: Design, wish: Callable[[str], None]) -> MonitorSpec:
        watch = partial(self.ends.watch, design)
        return MonitorSpec(watch, partial(self._plans, design.connector), wish)

    async def _plans(self, connector: Connector) -> list[TaskPlan]:
        """Return the plans in force."""
        stored = await self.config.list_plans(connector.name, connector.generation)
        return [one.plan for one in stored]

    async def _run(self, design: Design, chain: Chain, assigned: Assigned) -> RunSpec:
        await self.engine.ready()
        plan, epoch, settings = assigned.plan, assigned.epoch, design.settings
        ends = await self.ends.make(design, plan, epoch, places=chain.wants_places)
        routed, held = await plug(self.host, chain, design.connector.name, settings)
        generation = design.connector.generation
        return RunSpec(
            plan=plan,
            epoch=epoch,
            commit_mode=settings.commit_mode,
            rules=settings.rules,
            drift=ends.drift,
            stall=settings.stall,
            chain=routed,
            held=held,
            engine=self.engine,
            offsets=ServiceOffsets(self.offsets, generation, plan.task_id, epoch),
            writer=ends.writer,
            open_reader=ends.open_reader,
        )
