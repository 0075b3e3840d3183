"""How connectors and tasks are, made of the records, of what is wanted and of what workers say.
Pure.

Nothing of it is stored: another leader makes the same of the same lists (invariant 7).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from penstock.model.config_def import no_effect
from penstock.model.connector import TargetState, TaskState, TaskStatus
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.status import ClusterStatus, ConnectorStatus, RunState, RunStatus, WorkerStatus
from penstock.scheduler.state.assignment import fits
from penstock.scheduler.state.cluster import Cluster
from penstock.scheduler.state.failures import Fate, History
from penstock.scheduler.state.plan_needs import PlanNeeds
from penstock.scheduler.state.wanted import TaskSpec, Wanted, is_monitor, monitor_id


def reported(cluster: Cluster, wanted: Wanted) -> list[TaskStatus | None]:
    """Return what workers say of each task of a connector; None for one that none has spoken of."""
    owned = ((plan.task_id, cluster.owned.get(plan.task_id)) for plan in wanted.plans)
    return [cluster.workers.status(id_, one) if one else None for id_, one in owned]


def lacks_lag(cluster: Cluster, wanted: Wanted) -> bool:
    """Tell whether a source moves rows and does not say how many are left."""
    statuses = reported(cluster, wanted)
    return any(one is not None and one.rows_left < 0 < one.rows_written for one in statuses)


def without_lag(wanted: Wanted) -> Diagnostic:
    """Return the warning that the `lag.target` of a connector has no effect."""
    tasks = len(wanted.plans)
    return no_effect(
        "lag.target",
        f"the source does not say how many rows are left, so the number of tasks stays {tasks}",
        "Set `tasks.max` alone, or `tasks.min` to the number of tasks that it should have.",
    )


_STATES: Final = {
    TaskState.RUNNING: RunState.RUNNING,
    TaskState.PAUSED: RunState.PAUSED,
    TaskState.RESTARTING: RunState.RESTARTING,
    TaskState.FAILED: RunState.FAILED,
    TaskState.COMPLETED: RunState.COMPLETED,
}


_UNWELL: Final = frozenset({RunState.FAILED, RunState.RESTARTING})
"""States of a monitor that are its connector's."""


def connector_status(cluster: Cluster, needs: PlanNeeds, wanted: Wanted) -> ConnectorStatus:
    """Return how a connector is."""
    specs = (cluster.specs.get(plan.task_id) for plan in wanted.plans)
    failure = needs.failure(wanted)
    monitor = _monitor(cluster, wanted)
    state = _connector_state(wanted, failure)
    diagnostic = failure if state is RunState.FAILED else None
    if state is RunState.RUNNING and monitor is not None and monitor.state in _UNWELL:
        state, diagnostic = monitor.state, monitor.diagnostic
    if state is RunState.RUNNING and needs.scales(wanted) and lacks_lag(cluster, wanted):
        diagnostic = without_lag(wanted)
    if state is RunState.UNASSIGNED and not cluster.workers.members:
        diagnostic = _no_worker(None)
    return ConnectorStatus(
        wanted.connector.name,
        wanted.generation,
        wanted.connector.kind,
        state,
        (monitor.worker if monitor else "") or needs.made_by(wanted.generation),
        diagnostic,
        tuple(task_status(cluster, spec) for spec in specs if spec is not None),
    )


def _monitor(cluster: Cluster, wanted: Wanted) -> RunStatus | None:
    spec = cluster.specs.get(monitor_id(wanted.generation))
    return task_status(cluster, spec) if spec is not None else None


def task_status(cluster: Cluster, spec: TaskSpec) -> RunStatus:
    """Return how a task is."""
    owned = cluster.owned.get(spec.id)
    if owned is None:
        return RunStatus(spec.id, RunState.UNASSIGNED, diagnostic=_why_unassigned(cluster, spec))
    status = cluster.workers.status(spec.id, owned)
    history = cluster.failures.of(spec.id)
    diagnostic = status.diagnostic if status else None
    if history is not None and history.diagnostic is not None:
        diagnostic = history.diagnostic
    return RunStatus(
        spec.id,
        _task_state(status, history),
        owned.record.worker,
        owned.epoch,
        diagnostic,
        owned.record.restarts + (status.restarts if status else 0),
        status,
    )


def cluster_status(cluster: Cluster, leader: str) -> ClusterStatus:
    """Return who is there, and what each has."""
    workers = cluster.workers
    owned = {id_: one for id_, one in cluster.owned.items() if not is_monitor(id_)}
    tasks = Counter(one.record.worker for one in owned.values())
    moving = [owned[id_].record.worker for id_ in cluster.leaving if id_ in owned]
    leaving = Counter(moving)
    return ClusterStatus(
        leader,
        cluster.revision,
        tuple(
            WorkerStatus(
                id_,
                member.name,
                member.address,
                member.labels,
                workers.draining(id_),
                id_ in workers.sessions,
                tasks[id_],
                leaving[id_],
            )
            for id_, member in sorted(workers.members.items())
        ),
        sum(not is_monitor(id_) and id_ not in owned for id_ in cluster.specs),
        len(moving),
        cluster.moves.so_far(),
    )


def _connector_state(wanted: Wanted, failure: Diagnostic | None) -> RunState:
    target = wanted.connector.target_state
    if target is TargetState.STOPPED:
        return RunState.STOPPED
    if failure is not None:
        return RunState.FAILED
    if not wanted.plan_epoch:
        return RunState.UNASSIGNED
    return RunState.PAUSED if target is TargetState.PAUSED else RunState.RUNNING


def _task_state(status: TaskStatus | None, history: History | None) -> RunState:
    if history is not None and history.fate is not None:
        return RunState.FAILED if history.fate is Fate.WAIT else RunState.RESTARTING
    state = _STATES.get(status.state) if status else None
    if state is None:  # it is being opened
        again = history is not None and history.again
        return RunState.RESTARTING if again else RunState.UNASSIGNED
    return state


def _why_unassigned(cluster: Cluster, spec: TaskSpec) -> Diagnostic | None:
    members = cluster.workers.members.values()
    able = (m for m in members if fits(spec.rules.placement, m.labels))
    if any(not cluster.workers.draining(member.id) for member in able):
        return None  # it waits for its turn
    return _no_worker(spec)


def _no_worker(spec: TaskSpec | None) -> Diagnostic:
    placed = spec is not None and bool(spec.rules.placement)
    return ConfigError(
        "scheduler.no_worker",
        f"no worker has the labels that {spec.id} wants"
        if spec and placed
        else "no worker is there",
        fix="Start a worker with these labels, or change `placement`."
        if placed
        else "Start a worker, or end the draining of one.",
        config_path="placement" if placed else "",
    ).diagnostic
