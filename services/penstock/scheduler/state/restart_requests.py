"""Restarts that people ask for. Each is carried out once, whoever leads.

The config service keeps the requests with their connector, numbered by markers. The leader *takes*
them: it decides which tasks they mean as things are now, and stores that with the newest marker. A
task that was taken is done as soon as its epoch is newer than the taking. So another leader sees
from revisions alone what is left to do, and restarts nothing twice (invariant 7).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Final

from penstock.model.connector import Restart
from penstock.model.status import ConnectorStatus, RunState
from penstock.scheduler.state.cluster import Cluster
from penstock.scheduler.state.plan_needs import PlanNeeds
from penstock.scheduler.state.records import Owned, Taking
from penstock.scheduler.state.statuses import connector_status
from penstock.scheduler.state.wanted import Wanted, monitor_id

_NOTHING: Final = Taking(0)


class Requests:
    """What was taken of the requests of all connectors, and what of it is left to do."""

    def __init__(self) -> None:
        self._taken: dict[str, Taking] = {}
        self._left: dict[str, int] = {}

    def load(self, taken: Mapping[str, Taking]) -> None:
        """Take in what is stored."""
        self._taken, self._left = {}, {}
        for generation, taking in taken.items():
            self.took(generation, taking)

    def took(self, generation: str, taking: Taking) -> None:
        """Note a taking that was stored."""
        self._taken[generation] = taking
        self._left.update(dict.fromkeys(taking.tasks, taking.revision))

    def left(self, owned: Mapping[str, Owned]) -> set[str]:
        """Return the tasks that are to be restarted still. One that nobody has needs no restart:
        it gets a new epoch anyway.
        """
        self._left = {
            id_: revision
            for id_, revision in self._left.items()
            if id_ in owned and owned[id_].epoch < revision
        }
        return set(self._left)

    def new(self, cluster: Cluster, needs: PlanNeeds) -> Iterator[tuple[str, Taking]]:
        """Yield what is to be taken now, by generation. A request for what has failed waits until
        that is known: a new leader has to hear the workers first.
        """
        for generation, wanted in cluster.wanted.items():
            taken = self._taken.get(generation, _NOTHING)
            asked = [one for one in wanted.connector.restarts if one.marker > taken.marker]
            if asked and (_heard(cluster, wanted) or not any(r.only_failed for r in asked)):
                status = connector_status(cluster, needs, wanted)
                yield generation, self._taking(asked, status, taken)

    def gone(self, wanted: Container[str]) -> list[str]:
        """Return the connectors that something is stored about and that are there no more."""
        gone = [generation for generation in self._taken if generation not in wanted]
        for generation in gone:
            del self._taken[generation]
        return gone

    def _taking(self, asked: list[Restart], status: ConnectorStatus, taken: Taking) -> Taking:
        """Return what requests come to, with what is left of the taking that this one replaces."""
        meant = [restarted(request, status) for request in asked]
        tasks = {id_ for id_ in taken.tasks if id_ in self._left}.union(*meant)
        plan = any(monitor_id(status.generation) in ids for ids in meant)
        return Taking(asked[-1].marker, tuple(sorted(tasks)), plan)


def restarted(request: Restart, status: ConnectorStatus) -> set[str]:
    """Return what a request means as things are. The monitor stands for the connector itself, also
    where there is none.
    """
    states = {RunState.FAILED} if request.only_failed else set(RunState)
    tasks = {task.task_id for task in status.tasks if task.state in states}
    if request.task_id:
        return tasks & {request.task_id}
    itself = {monitor_id(status.generation)} if status.state in states else set()
    return itself | (tasks if request.include_tasks else set())


def _heard(cluster: Cluster, wanted: Wanted) -> bool:
    """Tell whether it is known how the tasks of a connector are."""
    ids = [monitor_id(wanted.generation), *(plan.task_id for plan in wanted.plans)]
    owners = {cluster.owned[id_].record.worker for id_ in ids if id_ in cluster.owned}
    return all(cluster.workers.heard(worker) for worker in owners)
