"""Makes plans and stores them: the one place of this room that asks workers and the config service.

- a worker with the plugin says what there is to do
- `resplit` divides it so that as few tasks as possible change
- the config service stores the plans; a record of ours says which configuration they were made for,
  so that a crash between the two only makes the plans again
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from penstock.client import ConfigClient, PlannedConnector, WorkerClient
from penstock.model.connector import ApplyAction, Connector, TaskPlan
from penstock.model.errors import PenstockError, error_of
from penstock.rpc import deadline, open_channel
from penstock.rpc.channels import Dial
from penstock.scheduler.leading.leadership import Leadership
from penstock.scheduler.state.events import PlanWish
from penstock.scheduler.state.records import PLANNED, Planned, encode_planned
from penstock.scheduler.state.resplit import content, resplit
from penstock.scheduler.state.wanted import MOST_TASKS, Wanted, config_digest, too_large, too_many
from penstock.wire.connector import plan_to_proto

log = logging.getLogger(__name__)


PLAN_DEADLINE: Final = 60.0
"""Seconds for a plan: a plugin may have to be started, and may ask a database for its tables.
Longer holds a place of the few that plan at once; shorter fails a slow but healthy database."""


APPLY_DEADLINE: Final = 150.0
"""Seconds for what is set up outside: longer than the plugin has for it."""

PLAN_BYTES: Final = 8 << 20
"""Bytes of one task's plan. It travels in one message, and gRPC refuses those of more than 16 MiB:
a worker would get no assignment at all."""


class PlanMaker(Protocol):
    """What splits a connector into tasks."""

    async def plan(self, address: str, connector: Connector) -> PlannedConnector:
        """Return the plans that the worker at an address makes."""

    async def apply(
        self, address: str, connector: Connector, action: ApplyAction, last: Connector | None
    ) -> None:
        """Have the worker at an address set up or change what a connector owns outside. `last` has
        the configuration that was applied last.
        """


class WorkerPlans:
    """Asks workers, each over a channel that is closed again: plans are seldom made."""

    def __init__(self, dial: Dial = open_channel) -> None:
        """`dial` opens channels to workers."""
        self._dial = dial

    async def plan(self, address: str, connector: Connector) -> PlannedConnector:
        """Return the plans that the worker at an address makes."""
        async with WorkerClient(address, PLAN_DEADLINE, self._dial) as worker:
            return await worker.plan(connector)

    async def apply(
        self, address: str, connector: Connector, action: ApplyAction, last: Connector | None
    ) -> None:
        """Have the worker at an address set up or change what a connector owns outside. `last` has
        the configuration that was applied last.
        """
        async with WorkerClient(address, APPLY_DEADLINE, self._dial) as worker:
            applied = await worker.apply(connector, action, last)
        for found in applied.diagnostics:
            log.warning("connector %s: %s", connector.name, error_of(found))


class Plans:
    """The plans of all connectors."""

    def __init__(self, config: ConfigClient, maker: PlanMaker | None = None) -> None:
        """`config` is where plans are stored; its maker closes it. `maker` is by default whichever
        worker is chosen.
        """
        self.config = config
        self._maker = maker or WorkerPlans()

    async def read(self, connector: Connector, planned: Mapping[str, Planned]) -> Wanted:
        """Return a connector with its plans in force."""
        stored = await self.config.list_plans(connector.name, connector.generation)
        epoch = stored[0].epoch if stored else 0
        made = planned.get(connector.generation)
        form = made.config if made is not None and made.epoch == epoch else ""
        monitor = made is not None and made.monitor
        return Wanted(connector, tuple(one.plan for one in stored), epoch, form, monitor)

    async def apply(self, wish: PlanWish, before: Planned, leadership: Leadership) -> Planned:
        """Have plugins set up outside what is new about a connector; returns what was noted. That
        is stored at once, since the plan that follows may fail. `before` was noted before.

        Raises:
            PenstockError: it could not be set up, or not be stored.
        """
        connector = wish.connector
        if wish.action is None:
            return before
        last = await self._last_applied(connector, before.applied)
        async with deadline(f"scheduler.apply of {connector.name}", APPLY_DEADLINE):
            await self._maker.apply(wish.address, connector, wish.action, last)
        applied = replace(before, applied=connector.version)
        await self._note(connector, applied, leadership)
        return applied

    async def _last_applied(self, connector: Connector, version: int) -> Connector | None:
        if not version:
            return None
        try:
            revision = await self.config.revision(connector.name, version)
        except PenstockError as error:
            if error.code != "config.revision_not_found":  # it is not kept for ever
                raise
            return None
        return replace(connector, kind=revision.kind, config=revision.config, version=version)

    async def make(self, wish: PlanWish, before: Planned, leadership: Leadership) -> Planned:
        """Plan a connector and store what comes; returns what was noted about it. `before` was
        noted before.

        Raises:
            PenstockError: it could not be planned, or not be stored.
        """
        connector = wish.connector
        asked = replace(connector, config={**connector.config, "tasks.max": str(wish.tasks)})
        async with deadline(f"scheduler.plan of {connector.name}", PLAN_DEADLINE):
            made = await self._maker.plan(wish.address, asked)
        # in a thread: a hundred thousand partitions take a second, and the lease must be renewed
        plans = await asyncio.to_thread(_divided, wish, made.plans)
        epoch = await self._stored(wish, plans)
        planned = Planned(config_digest(connector), epoch, made.monitor, before.applied)
        await self._note(connector, planned, leadership)
        return planned

    async def _note(self, connector: Connector, planned: Planned, leadership: Leadership) -> None:
        key = f"{PLANNED}{connector.generation}"
        await leadership.write([], [(key, encode_planned(planned))])

    async def _stored(self, wish: PlanWish, plans: Sequence[TaskPlan]) -> int:
        """Store plans, unless they say what those in force say; returns their epoch."""
        connector = wish.connector
        if wish.old and _said(plans) == _said(wish.old):
            stored = await self.config.list_plans(connector.name, connector.generation)
            if stored and _said([one.plan for one in stored]) == _said(plans):
                return stored[0].epoch
        return await self.config.put_plans(connector.name, connector.generation, plans)


def _divided(wish: PlanWish, fresh: Sequence[TaskPlan]) -> tuple[TaskPlan, ...]:
    """Return the plans that follow the old ones, if they can be carried out."""
    plans = resplit(wish.connector.generation, wish.old, fresh, wish.tasks)
    if len(plans) > MOST_TASKS:
        raise error_of(too_many(len(plans)))
    for plan in plans:
        size = plan_to_proto(plan).ByteSize()
        if size > PLAN_BYTES:
            raise error_of(too_large(plan.task_id, size, PLAN_BYTES))
    return plans


def _said(plans: Sequence[TaskPlan]) -> dict[str, object]:
    return {plan.task_id: content(plan) for plan in plans}
