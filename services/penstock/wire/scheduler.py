"""penstock.api.scheduler.v1 ↔ how connectors, tasks and workers are."""

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
_WITH_A_REASON = frozenset({TaskState.FAILED, TaskState.RESTARTING})


def run_to_proto(status: RunStatus, brief: error.Brief) -> pb.RunStatus:
    """Return the message for a task's status. The diagnostic is in it once: that of what the worker
    says is left out where it is the same.
    """
    task = status.task
    if task is not None and task.diagnostic == status.diagnostic:
        task = replace(task, diagnostic=None)
    return pb.RunStatus(
        task_id=status.task_id,
        number=status.number,
        state=int(status.state),  # type: ignore[arg-type] # enums share numbers
        worker_id=status.worker,
        epoch=status.epoch,
        diagnostic=brief.to_proto(status.diagnostic),
        restarts=status.restarts,
        task=None if task is None else status_to_proto(task, brief),
    )


def run_from_proto(message: pb.RunStatus) -> RunStatus:
    """Return the task's status of a message."""
    diagnostic = error.from_proto(message.diagnostic) if message.HasField("diagnostic") else None
    return RunStatus(
        task_id=message.task_id,
        state=_state(message.state),
        worker=message.worker_id,
        epoch=message.epoch,
        diagnostic=diagnostic,
        restarts=message.restarts,
        task=_said(message, diagnostic) if message.HasField("task") else None,
    )


def _said(message: pb.RunStatus, diagnostic: Diagnostic | None) -> TaskStatus:
    """Return what the worker says. A task that failed and does not say why has said the same."""
    task = status_from_proto(message.task)
    if task.diagnostic is None and task.state in _WITH_A_REASON:
        return replace(task, diagnostic=diagnostic)
    return task


def connector_status_to_proto(status: ConnectorStatus) -> pb.ConnectorStatus:
    """Return the message for a connector's status: one, however many tasks fail with long words."""
    brief = error.Brief()
    return pb.ConnectorStatus(
        name=status.name,
        generation=status.generation,
        kind=int(status.kind),  # type: ignore[arg-type] # enums share numbers
        state=int(status.state),  # type: ignore[arg-type] # enums share numbers
        worker_id=status.worker,
        diagnostic=brief.to_proto(status.diagnostic),
        tasks=[run_to_proto(task, brief) for task in status.tasks],
    )


def connector_status_from_proto(message: pb.ConnectorStatus) -> ConnectorStatus:
    """Return the connector's status of a message. A kind of a newer version reads as unset."""
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
            mean_seconds=status.rebalances.mean,
            most_seconds=status.rebalances.most,
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
            message.rebalances.most_seconds,
        ),
    )


def _state(number: int) -> RunState:
    return RunState(number) if number in _STATES else RunState.UNSPECIFIED
