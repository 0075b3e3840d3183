"""penstock.api.scheduler.v1 ↔ statuses of connectors, tasks, workers and the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.model.connector import TaskState
from penstock.model.events import Event
from penstock.model.logs import MAX_STORED_LINES, LogFilter, StoredLogLine
from penstock.model.status import (
    ClusterStatus,
    ConnectorStatus,
    HeldTasks,
    Rebalances,
    RunState,
    RunStatus,
    WorkerStatus,
)
from penstock.wire.codec import Codec, Converter
from penstock.wire.error import DIAGNOSTIC
from penstock.wire.message_budget import MessageBudget
from penstock.wire.worker import TASK_STATUS
from penstock.wire.worker_rows import LOG_LINE, level_from_proto, level_to_proto

_STATES_WITH_DIAGNOSTIC: Final = frozenset({TaskState.FAILED, TaskState.RESTARTING})

_RUN_STATUS: Final = Codec(
    RunStatus, pb.RunStatus, parts=[DIAGNOSTIC, TASK_STATUS], names={"worker": "worker_id"}
)

_CONNECTOR_STATUS: Final = Codec(
    ConnectorStatus,
    pb.ConnectorStatus,
    parts=[DIAGNOSTIC, _RUN_STATUS],
    names={"worker": "worker_id"},
)

CLUSTER: Final = Codec(
    ClusterStatus,
    pb.GetClusterResponse,
    parts=[
        Codec(WorkerStatus, pb.WorkerStatus, names={"id": "worker_id"}),
        Codec(
            Rebalances,
            pb.Rebalances,
            names={"mean_s": "mean_seconds", "max_s": "max_seconds"},
        ),
    ],
)

EVENT: Final = Codec(Event, pb.Event)

STORED_LOG_LINE: Final = Codec(
    StoredLogLine, pb.StoredLogLine, parts=[LOG_LINE], names={"worker": "worker_id"}
)

LOG_LINE_FILTER: Final = Codec(
    LogFilter,
    pb.ListLogLinesRequest,
    converters={
        "level": Converter(level_to_proto, level_from_proto),
        "tail": Converter(from_proto=lambda tail: min(tail, MAX_STORED_LINES)),
    },
    only_in_value=["follow"],
)

HELD_TASKS: Final = Codec(HeldTasks, pb.ListHeldTasksResponse, names={"tasks": "task_ids"})


def connector_status_to_proto(status: ConnectorStatus) -> pb.ConnectorStatus:
    """Return the message for the status of a connector. Its size is bounded by a MessageBudget."""
    budget = MessageBudget()
    diagnostic = budget.cut_texts(status.diagnostic)
    message = _CONNECTOR_STATUS.to_proto(replace(status, diagnostic=diagnostic, tasks=()))
    message.tasks.extend(_run_to_proto(task, budget) for task in status.tasks)
    return message


def connector_status_from_proto(message: pb.ConnectorStatus) -> ConnectorStatus:
    """Return the status of a connector in a message."""
    status = _CONNECTOR_STATUS.from_proto(message)
    return replace(status, tasks=tuple(map(_share_diagnostic, status.tasks)))


def _run_to_proto(status: RunStatus, budget: MessageBudget) -> pb.RunStatus:
    """Return the message for the status of a task.

    A diagnostic that the scheduler and the worker share is in the message once.
    """
    diagnostic, task = budget.cut_texts(status.diagnostic), status.task
    if task is not None:
        shared = task.diagnostic == status.diagnostic
        task = replace(task, diagnostic=None if shared else budget.cut_texts(task.diagnostic))
    message = _RUN_STATUS.to_proto(replace(status, diagnostic=diagnostic, task=task))
    if task is not None:
        budget.limit_metrics(message.task)
    return message


def _share_diagnostic(status: RunStatus) -> RunStatus:
    """Return a status whose worker reported the diagnostic that the message has once."""
    task = status.task
    if task is None or task.diagnostic is not None:
        return status
    # of a task that is being opened: why an attempt to connect failed
    is_connecting = task.state is TaskState.STARTING and status.state is RunState.UNASSIGNED
    if task.state not in _STATES_WITH_DIAGNOSTIC and not is_connecting:
        return status
    return replace(status, task=replace(task, diagnostic=status.diagnostic))
