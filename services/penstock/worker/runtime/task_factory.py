"""What takes the bad rows of a run: made of what its connector says about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.client import ConfigClient, OffsetClient
from penstock.model.connector import Connector, ConnectorKind, TaskPlan
from penstock.plugin import PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.spark.engine import Engine
from penstock.worker import ports
from penstock.worker.config.plugin_transforms import chain_of, plug
from penstock.worker.config.reach import NO_RULES, Rules
from penstock.worker.config.resolved_config import (
    Design,
    Renewal,
    Watched,
    design_of,
    refuse_errors,
)
from penstock.worker.config.settings import restarts_of
from penstock.worker.dead_letters.publishing import Post, Posting, Sender
from penstock.worker.dead_letters.rejected_rows import SHOWN, Letters
from penstock.worker.endpoints import EndMaker, ServiceOffsets
from penstock.worker.planning.monitor import Monitor, MonitorSpec
from penstock.worker.task.run_spec import RunSpec
from penstock.worker.task.supervisor import Assigned
from penstock.worker.task.task import Task


def letters_of(
    design: Design,
    task_id: str,
    epoch: int,
    engine: ports.Engine,
    post: Post,
    reader: ports.ReadStream,
) -> Letters:
    """Return what takes the bad rows of one run of a task; `post` takes letters of them."""
    settings, rules = design.settings, design.settings.letters
    if not design.letters_to:
        return Letters(rules)
    # a row that fails again is still one of the connector that had it first
    name = settings.replay.of if settings.replay else design.connector.name
    sender = Sender(name, task_id, epoch, settings.stall)
    texts = SHOWN if rules.log and rules.texts else 0
    posting = Posting(
        sender, engine, reader, post, settings.retries, headers=rules.headers, texts=texts
    )
    return Letters(rules, posting)


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


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes tasks and monitors that do not run yet. `config` has the plans that monitors are
    told.
    """

    opener: Opener
    config: ConfigClient

    def make(
        self,
        assigned: Assigned,
        changed: Callable[[], None],
        wish: Callable[[str, str], None],
    ) -> Task | Monitor:
        """Return a task, which says that its state `changed`; or a monitor, which may `wish` for
        another plan of a generation. What is wrong with its configuration ends its first life.
        """
        connector = assigned.connector
        restarts = restarts_of(connector.config)
        if assigned.monitor:
            wants = partial(wish, connector.generation)
            watch = partial(self.opener.watch, connector)
            spec = MonitorSpec(watch, partial(self._plans, connector), wants)
            return Monitor(assigned, spec, restarts, changed)
        return Task(assigned, partial(self.opener.run, assigned), restarts, changed)

    async def _plans(self, connector: Connector) -> list[TaskPlan]:
        """Return the plans in force."""
        stored = await self.config.list_plans(connector.name, connector.generation)
        return [one.plan for one in stored]
