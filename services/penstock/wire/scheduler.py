"""penstock.api.scheduler.v1 ↔ statuses of connectors, tasks, workers and the cluster."""

from __future__ import annotations

from dataclasses import replace

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.model.connector import ConnectorKind, TaskState, TaskStatus
from penstock.model.errors import Diagnostic
from penstock.model.status import (
    ClusterStatus,
    ConnectorStatus,
    Rebalances,
    RunState,
    RunStatus,
    WorkerStatus,
)
from penstock.wire import error
from penstock.wire.worker import status_from_proto, status_to_proto

_STATES = frozenset(map(int, RunState))
_KINDS = frozenset(map(int, ConnectorKind))
_STATES_WITH_DIAGNOSTIC = frozenset({TaskState.FAILED, TaskState.RESTARTING})


def run_to_proto(status: RunStatus, budget: error.MessageBudget) -> pb.RunStatus:
    """Return the message for the status of a task.

    A diagnostic that the scheduler and the worker share is in the message once.
    """
    task = status.task
    if task is not None and task.diagnostic == status.diagnostic:
        task = replace(task, diagnostic=None)
    return pb.RunStatus(
        task_id=status.task_id,
        state=int(status.state),  # type: ignore[arg-type] # enums share numbers
        worker_id=status.worker,
        epoch=status.epoch,
        diagnostic=budget.to_proto(status.diagnostic),
        restarts=status.restarts,
        task=None if task is None else status_to_proto(task, budget),
    )


def run_from_proto(message: pb.RunStatus) -> RunStatus:
    """Return the status of a task in a message."""
    diagnostic = error.from_proto(message.diagnostic) if message.HasField("diagnostic") else None
    return RunStatus(
        task_id=message.task_id,
        state=_state(message.state),
        worker=message.worker_id,
        epoch=message.epoch,
        diagnostic=diagnostic,
        restarts=message.restarts,
        task=_task_from_proto(message, diagnostic) if message.HasField("task") else None,
    )


def _task_from_proto(message: pb.RunStatus, diagnostic: Diagnostic | None) -> TaskStatus:
    """Return the status that the worker reported, with the diagnostic that the message shares."""
    task = status_from_proto(message.task)
    if task.diagnostic is None and task.state in _STATES_WITH_DIAGNOSTIC:
        return replace(task, diagnostic=diagnostic)
    return task


def connector_status_to_proto(status: ConnectorStatus) -> pb.ConnectorStatus:
    """Return the message for the status of a connector. Its size is bounded by a MessageBudget."""
    budget = error.MessageBudget()
    return pb.ConnectorStatus(
        name=status.name,
        generation=status.generation,
        kind=int(status.kind),  # type: ignore[arg-type] # enums share numbers
        state=int(status.state),  # type: ignore[arg-type] # enums share numbers
        worker_id=status.worker,
        diagnostic=budget.to_proto(status.diagnostic),
        tasks=[run_to_proto(task, budget) for task in status.tasks],
    )


def connector_status_from_proto(message: pb.ConnectorStatus) -> ConnectorStatus:
    """Return the status of a connector in a message. A kind of a newer version reads as unset."""
    known = int(message.kind) in _KINDS
    return ConnectorStatus(
        name=message.name,
        generation=message.generation,
        kind=ConnectorKind(message.kind) if known else ConnectorKind.UNSPECIFIED,
        state=_state(message.state),
        worker=message.worker_id,
        diagnostic=error.from_proto(message.diagnostic) if message.HasField("diagnostic") else None,
        tasks=tuple(run_from_proto(task) for task in message.tasks),
    )


def cluster_to_proto(status: ClusterStatus) -> pb.GetClusterResponse:
    """Return the message for a cluster."""
    return pb.GetClusterResponse(
        leader=status.leader,
        revision=status.revision,
        workers=[
            pb.WorkerStatus(
                worker_id=worker.id,
                name=worker.name,
                address=worker.address,
                labels=worker.labels,
                draining=worker.draining,
                connected=worker.connected,
                tasks=worker.tasks,
                leaving=worker.leaving,
            )
            for worker in status.workers
        ],
        unassigned=status.unassigned,
        moving=status.moving,
        rebalances=pb.Rebalances(
            completed=status.rebalances.completed,
            mean_seconds=status.rebalances.mean_s,
            max_seconds=status.rebalances.max_s,
        ),
    )


def cluster_from_proto(message: pb.GetClusterResponse) -> ClusterStatus:
    """Return the cluster of a message."""
    return ClusterStatus(
        leader=message.leader,
        revision=message.revision,
        workers=tuple(
            WorkerStatus(
                id=worker.worker_id,
                name=worker.name,
                address=worker.address,
                labels=dict(worker.labels),
                draining=worker.draining,
                connected=worker.connected,
                tasks=worker.tasks,
                leaving=worker.leaving,
            )
            for worker in message.workers
        ),
        unassigned=message.unassigned,
        moving=message.moving,
        rebalances=Rebalances(
            message.rebalances.completed,
            message.rebalances.mean_seconds,
            message.rebalances.max_seconds,
        ),
    )


def _state(number: int) -> RunState:
    return RunState(number) if number in _STATES else RunState.UNSPECIFIED
