"""penstock.api.worker.v1 ↔ what is measured of a task."""

from __future__ import annotations

from typing import Any, TypedDict

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.connector import TaskStatus
from penstock.model.metrics import DatasetRows, PluginNumber, Spread, TaskWork
from penstock.wire.error import Brief

_SPREADS = ("commit_seconds", "batch_seconds", "batch_rows", "under_way")
_PLAIN = (
    *("running", "paused", "starts", "started", "start_failures", "commits_failed", "retries"),
    *("rows_skipped", "errors_logged", "last_error_ms", "rows_under_way", "partitions"),
)


class Measured(TypedDict):
    """The fields of a status that are here."""

    work: TaskWork | None
    datasets: tuple[DatasetRows, ...]
    datasets_left_out: int
    plugin_numbers: tuple[PluginNumber, ...]


def add_to(message: pb.TaskStatus, status: TaskStatus, brief: Brief | None) -> None:
    """Put what is measured of a task into its message. What does not fit into it with `brief`, as
    one of many, is left out.
    """
    told = pb.TaskStatus(
        work=None if status.work is None else _work_to_proto(status.work),
        datasets=[
            pb.DatasetRows(dataset=d.dataset, rows_read=d.rows_read, rows_written=d.rows_written)
            for d in status.datasets
        ],
        datasets_left_out=status.datasets_left_out,
        plugin_numbers=[
            pb.PluginNumber(plugin=n.plugin, end=n.end, name=n.name, value=n.value)
            for n in status.plugin_numbers
        ],
    )
    if brief is None or brief.affords(told.ByteSize()):
        message.MergeFrom(told)
    else:
        message.datasets_left_out = status.datasets_left_out + len(status.datasets)


def from_proto(message: pb.TaskStatus) -> Measured:
    """Return what a message has of it."""
    return {
        "work": _work_from_proto(message.work) if message.HasField("work") else None,
        "datasets": tuple(
            DatasetRows(d.dataset, d.rows_read, d.rows_written) for d in message.datasets
        ),
        "datasets_left_out": message.datasets_left_out,
        "plugin_numbers": tuple(
            PluginNumber(n.plugin, n.end, n.name, n.value) for n in message.plugin_numbers
        ),
    }


def _work_to_proto(work: TaskWork) -> pb.TaskWork:
    fields: dict[str, Any] = {name: getattr(work, name) for name in _PLAIN}
    for name in _SPREADS:
        spread: Spread | None = getattr(work, name)
        if spread is not None:
            fields[name] = pb.Spread(least=spread.least, mean=spread.mean, most=spread.most)
    return pb.TaskWork(**fields)


def _work_from_proto(message: pb.TaskWork) -> TaskWork:
    fields: dict[str, Any] = {name: getattr(message, name) for name in _PLAIN}
    for name in _SPREADS:
        if message.HasField(name):
            one: pb.Spread = getattr(message, name)
            fields[name] = Spread(one.least, one.mean, one.most)
    return TaskWork(**fields)
