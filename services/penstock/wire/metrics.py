"""penstock.api.worker.v1 ↔ metrics of a task; penstock.api.process.v1 ↔ metrics of a process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from penstock.api.process.v1 import process_service_pb2 as process_pb
from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.connector import TaskStatus
from penstock.model.metrics import (
    DatasetRows,
    MinMeanMax,
    PluginMetric,
    ProcessMetric,
    ProcessMetrics,
    TaskMetrics,
)
from penstock.wire.error import MessageBudget

_SUMMARIES = ("commit_seconds", "batch_seconds", "batch_rows", "under_way")
_NUMBERS = (
    *("running", "paused", "starts", "started", "start_failures", "commits_failed", "retries"),
    *("rows_skipped", "errors_logged", "last_error_ms", "rows_under_way", "partitions"),
)


class TaskMetricFields(TypedDict):
    """The fields of a TaskStatus that have metrics."""

    metrics: TaskMetrics | None
    datasets: tuple[DatasetRows, ...]
    datasets_left_out: int
    plugin_metrics: tuple[PluginMetric, ...]


def add_task_metrics(
    message: pb.TaskStatus, status: TaskStatus, budget: MessageBudget | None
) -> None:
    """Add the metrics of a task to its status message.

    `budget` bounds the metrics of many tasks in one message. Metrics beyond it are left out.
    """
    fields = pb.TaskStatus(
        work=None if status.metrics is None else _work_to_proto(status.metrics),
        datasets=[
            pb.DatasetRows(dataset=d.dataset, rows_read=d.rows_read, rows_written=d.rows_written)
            for d in status.datasets
        ],
        datasets_left_out=status.datasets_left_out,
        plugin_metrics=[
            pb.PluginMetric(plugin=n.plugin, end=n.role, name=n.name, value=n.value)
            for n in status.plugin_metrics
        ],
    )
    if budget is None or budget.reserve_metrics(fields.ByteSize()):
        message.MergeFrom(fields)
    else:
        message.datasets_left_out = status.datasets_left_out + len(status.datasets)


def task_metrics_from_proto(message: pb.TaskStatus) -> TaskMetricFields:
    """Return the metrics of a status message."""
    return {
        "metrics": _work_from_proto(message.work) if message.HasField("work") else None,
        "datasets": tuple(
            DatasetRows(d.dataset, d.rows_read, d.rows_written) for d in message.datasets
        ),
        "datasets_left_out": message.datasets_left_out,
        "plugin_metrics": tuple(
            PluginMetric(n.plugin, n.end, n.name, n.value) for n in message.plugin_metrics
        ),
    }


def _work_to_proto(work: TaskMetrics) -> pb.TaskMetrics:
    fields: dict[str, Any] = {name: getattr(work, name) for name in _NUMBERS}
    for name in _SUMMARIES:
        summary: MinMeanMax | None = getattr(work, name)
        if summary is not None:
            fields[name] = pb.MinMeanMax(min=summary.min, mean=summary.mean, max=summary.max)
    return pb.TaskMetrics(**fields)


def _work_from_proto(message: pb.TaskMetrics) -> TaskMetrics:
    fields: dict[str, Any] = {name: getattr(message, name) for name in _NUMBERS}
    for name in _SUMMARIES:
        if message.HasField(name):
            summary: pb.MinMeanMax = getattr(message, name)
            fields[name] = MinMeanMax(summary.min, summary.mean, summary.max)
    return TaskMetrics(**fields)


def process_metrics_to_proto(
    name: str, id_: str, metrics: Iterable[ProcessMetric]
) -> process_pb.ListMetricsResponse:
    """Return the message for the metrics of a process with a name and an id."""
    return process_pb.ListMetricsResponse(
        instance_name=name,
        instance_id=id_,
        metrics=[process_pb.Metric(name=n.name, labels=n.labels, value=n.value) for n in metrics],
    )


def process_metrics_from_proto(
    service: str, message: process_pb.ListMetricsResponse
) -> ProcessMetrics:
    """Return the metrics of a message that a process of `service` sent."""
    metrics = (ProcessMetric(n.name, n.value, dict(n.labels)) for n in message.metrics)
    return ProcessMetrics(service, message.instance_name, message.instance_id, tuple(metrics))
