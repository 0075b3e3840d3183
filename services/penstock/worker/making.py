"""Makes what an assignment names: a task, or the monitor of a connector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.client import ConfigClient
from penstock.model.connector import Connector, TaskPlan
from penstock.worker.assigned import Assigned
from penstock.worker.monitor import Monitor, MonitorSpec
from penstock.worker.opening import Opener
from penstock.worker.settings import restarts_of
from penstock.worker.task import Task


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
