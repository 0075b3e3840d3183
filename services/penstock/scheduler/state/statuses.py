"""The statuses of connectors, tasks and the cluster, derived from records, desired state and the
reports of workers. Pure.

Nothing of it is stored: another leader derives the same statuses from the same lists (invariant 7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from penstock.model.config_def import no_effect_warning
from penstock.model.connector import TargetState, TaskState, TaskStatus
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.status import ClusterStatus, ConnectorStatus, RunState, RunStatus, WorkerStatus
from penstock.scheduler.state.assignment import matches_placement
from penstock.scheduler.state.cluster import Cluster
from penstock.scheduler.state.desired_state import (
    DesiredConnector,
    TaskSpec,
    is_monitor_id,
    monitor_id,
)
from penstock.scheduler.state.plans import PlanSchedule
from penstock.scheduler.state.restarts import FailureAction, RestartHistory


def reported_statuses(cluster: Cluster, desired: DesiredConnector) -> list[TaskStatus | None]:
    """Return what workers report of each task of a connector; None for a task without a report."""
    owned = ((plan.task_id, cluster.owned.get(plan.task_id)) for plan in desired.plans)
    return [cluster.workers.task_status(id_, one) if one else None for id_, one in owned]


def has_unknown_lag(cluster: Cluster, desired: DesiredConnector) -> bool:
    """Return whether a source moves rows and does not report how many are left."""
    statuses = reported_statuses(cluster, desired)
    return any(one is not None and one.rows_left < 0 < one.rows_written for one in statuses)


def unknown_lag_warning(desired: DesiredConnector) -> Diagnostic:
    """Return the warning that `lag.target` of a connector has no effect."""
    tasks = len(desired.plans)
    return no_effect_warning(
        "lag.target",
        f"the source does not report how many rows are left, so the number of tasks stays {tasks}",
        "Set only `tasks.max`, or set `tasks.min` to the number of tasks that it should have.",
    )


_RUN_STATES: Final = {
    TaskState.RUNNING: RunState.RUNNING,
    TaskState.PAUSED: RunState.PAUSED,
    TaskState.RESTARTING: RunState.RESTARTING,
    TaskState.FAILED: RunState.FAILED,
    TaskState.COMPLETED: RunState.COMPLETED,
}


_UNHEALTHY_MONITOR: Final = frozenset({RunState.FAILED, RunState.RESTARTING})
"""States of a monitor that become the state of its connector."""


def derive_connector_status(
    cluster: Cluster, schedule: PlanSchedule, desired: DesiredConnector
) -> ConnectorStatus:
    """Return the status of a connector with those of its tasks."""
    specs = (cluster.specs.get(plan.task_id) for plan in desired.plans)
    tasks = tuple(derive_task_status(cluster, spec) for spec in specs if spec is not None)
    failure = schedule.failure_of(desired)
    monitor = _monitor_status(cluster, desired)
    state = _connector_state(desired, failure)
    diagnostic = failure if state is RunState.FAILED else None
    if state is RunState.RUNNING and monitor is not None and monitor.state in _UNHEALTHY_MONITOR:
        state, diagnostic = monitor.state, monitor.diagnostic
    if (
        state is RunState.RUNNING
        and schedule.scales_by_lag(desired)
        and has_unknown_lag(cluster, desired)
    ):
        diagnostic = unknown_lag_warning(desired)
    if state is RunState.RUNNING and monitor is None and _are_completed(tasks):
        state = RunState.COMPLETED  # with a monitor, partitions may still appear
    if state is RunState.UNASSIGNED and not cluster.workers.members:
        diagnostic = _no_worker(None)
    return ConnectorStatus(
        desired.connector.name,
        desired.generation,
        desired.connector.kind,
        state,
        (monitor.worker if monitor else "") or schedule.planner_of(desired.generation),
        diagnostic,
        tasks,
    )


def _are_completed(tasks: Sequence[RunStatus]) -> bool:
    """Return whether all tasks have ended by themselves, and there is one."""
    return bool(tasks) and all(task.state is RunState.COMPLETED for task in tasks)


def _monitor_status(cluster: Cluster, desired: DesiredConnector) -> RunStatus | None:
    spec = cluster.specs.get(monitor_id(desired.generation))
    return derive_task_status(cluster, spec) if spec is not None else None


def derive_task_status(cluster: Cluster, spec: TaskSpec) -> RunStatus:
    """Return the status of a task."""
    owned = cluster.owned.get(spec.id)
    if owned is None and cluster.has_completed(spec):
        return RunStatus(spec.id, RunState.COMPLETED, epoch=cluster.completed[spec.id].epoch)
    if owned is None:
        return RunStatus(spec.id, RunState.UNASSIGNED, diagnostic=_why_unassigned(cluster, spec))
    status = cluster.workers.task_status(spec.id, owned)
    history = cluster.restarts.history(spec.id)
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


def derive_cluster_status(cluster: Cluster, leader: str) -> ClusterStatus:
    """Return the workers of the cluster with their numbers of tasks. `leader` is an address."""
    workers = cluster.workers
    owned = {id_: one for id_, one in cluster.owned.items() if not is_monitor_id(id_)}
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
                workers.is_draining(id_),
                id_ in workers.sessions,
                tasks[id_],
                leaving[id_],
            )
            for id_, member in sorted(workers.members.items())
        ),
        sum(
            not is_monitor_id(id_) and id_ not in owned and not cluster.has_completed(spec)
            for id_, spec in cluster.specs.items()
        ),
        len(moving),
        cluster.rebalances.summary(),
    )


def _connector_state(desired: DesiredConnector, failure: Diagnostic | None) -> RunState:
    target = desired.connector.target_state
    if target is TargetState.STOPPED:
        return RunState.STOPPED
    if failure is not None:
        return RunState.FAILED
    if not desired.plan_epoch:
        return RunState.UNASSIGNED
    return RunState.PAUSED if target is TargetState.PAUSED else RunState.RUNNING


def _task_state(status: TaskStatus | None, history: RestartHistory | None) -> RunState:
    if history is not None and history.action is not None:
        is_final = history.action is FailureAction.WAIT
        return RunState.FAILED if is_final else RunState.RESTARTING
    state = _RUN_STATES.get(status.state) if status else None
    if state is None:  # the task is being opened
        is_restarting = history is not None and history.is_restarting
        if status is not None and status.diagnostic is not None and status.restarts:
            is_restarting = True  # it has failed before, and tries to open again
        return RunState.RESTARTING if is_restarting else RunState.UNASSIGNED
    return state


def _why_unassigned(cluster: Cluster, spec: TaskSpec) -> Diagnostic | None:
    members = cluster.workers.members.values()
    matching = (m for m in members if matches_placement(spec.rules.placement, m.labels))
    if any(not cluster.workers.is_draining(member.id) for member in matching):
        return None  # the next rounds will assign it
    return _no_worker(spec)


def _no_worker(spec: TaskSpec | None) -> Diagnostic:
    if spec is not None and spec.rules.placement:
        return ConfigError(
            "scheduler.no_worker",
            f"no worker has the labels that `placement` of {spec.id} requires",
            fix="Start a worker with these labels, or change `placement`.",
            config_path="placement",
        ).diagnostic
    return ConfigError(
        "scheduler.no_worker",
        "no worker can run tasks",
        fix="Start a worker, or end the draining of one.",
    ).diagnostic
