"""What one life of a task, or of a monitor, is opened with: its configuration as it is now, secrets
included, and out of that its ends, its chain and its offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.client import OffsetClient
from penstock.model.connector import Connector, ConnectorKind
from penstock.plugin import PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.spark.engine import Engine
from penstock.worker.assigned import Assigned
from penstock.worker.bad_rows import letters_of
from penstock.worker.design import Design, design_of, refuse_errors
from penstock.worker.ends import EndMaker, ServiceOffsets
from penstock.worker.plugging import chain_of, plug
from penstock.worker.reach import NO_RULES, Rules
from penstock.worker.renewal import Renewal, Watched
from penstock.worker.run_spec import RunSpec


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens lives with what a worker has. `telling` gives what a connector's chain tells of rows
    that moved.
    """

    host: PluginHost
    engine: Engine
    ends: EndMaker
    offsets: OffsetClient
    telling: Callable[[Connector], Callable[[str, str], None]]
    functions: Sequence[Path] = ()
    secrets: Secrets = NO_SECRETS
    reach: Rules = NO_RULES

    async def run(self, assigned: Assigned, *, alone: bool = False) -> RunSpec:
        """Return what a run of a task is made of; `alone`: with plugin processes of its own, when
        there is room for them.

        Raises:
            PenstockError: the configuration is not valid, or its secrets cannot be read.
        """
        task_id = assigned.plan.task_id
        owner = task_id if alone and self.host.reserve(task_id) else ""
        try:
            return await self._run(assigned, owner)
        except BaseException:
            self.host.release(owner)
            raise

    async def _run(self, assigned: Assigned, owner: str) -> RunSpec:
        design = await self._design(assigned.connector)
        chain = chain_of(self.host, design, self.functions)
        await self.engine.ready()
        plan, epoch, settings = assigned.plan, assigned.epoch, design.settings
        ends = await self.ends.make(design, plan, epoch, places=chain.wants_places, owner=owner)
        tell = self.telling(design.connector)
        routed, held = await plug(self.host, chain, design, tell)
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
            changed=Renewal(self.secrets, design).changed,
            letters=partial(letters_of, design, plan.task_id, epoch, self.engine, ends.writer),
            retries=settings.retries,
            plugin_version=_version(self.host, design),
            plugin_numbers=lambda: tuple(one for end in ends.numbers for one in end.now()),
            is_alone=bool(owner),
            release=partial(self.host.release, owner),
        )

    async def watch(self, connector: Connector) -> Watched:
        """Return what a life of a monitor listens to, and until when its secrets hold.

        Raises:
            PenstockError: as `run`.
        """
        design = await self._design(connector)
        return Watched(await self.ends.watch(design), Renewal(self.secrets, design))

    async def _design(self, connector: Connector) -> Design:
        design = await design_of(self.host, self.secrets, connector, self.reach)
        refuse_errors(design.findings)
        return design


def _version(host: PluginHost, design: Design) -> str:
    """Return the version of the plugin that a connector is of; empty when no end is a plugin."""
    if design.kind is ConnectorKind.MIRROR:
        return ""
    is_sink = design.kind is ConnectorKind.SINK
    target = design.target("sink" if is_sink else "source")
    manifest, _ = host.find(target.connector, target.version)
    return manifest.version
