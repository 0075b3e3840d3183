"""Metrics of a worker's tasks as OpenTelemetry instruments: the same that the leader receives and
that the gateway exports to Prometheus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import chain
from typing import Final, TypeAlias

from opentelemetry import metrics
from opentelemetry.metrics import Observation

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.metrics import COUNTER_SUFFIX, TASK_METRICS, read_number
from penstock.telemetry.otlp import Signal, is_exported

READ_TIMEOUT_S: Final = 2.0
"""Time in which the event loop must return the statuses. A loop that is busy longer is measured the
next time.
"""

_Read: TypeAlias = Callable[[], Sequence[TaskStatus]]
_Observe: TypeAlias = Callable[[TaskStatus], Iterable[Observation]]


def register(statuses: Callable[[], list[TaskStatus]]) -> None:
    """Register the instruments if metrics are sent. Call it in the event loop of the tasks."""
    if is_exported(Signal.METRICS):
        loop = asyncio.get_running_loop()
        create_instruments(lambda: _read_in_loop(loop, statuses))


def create_instruments(read: _Read) -> None:
    """Create instruments of the tasks that `read` returns."""
    meter = metrics.get_meter("penstock.worker")

    def create(
        name: str, observe: _Observe, unit: str, help_: str, *, is_counter: bool = True
    ) -> None:
        kind = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        kind(f"penstock.{name}", [lambda _: chain(*map(observe, read()))], unit, help_)

    for metric in TASK_METRICS:
        number = _field_observer(metric.field)
        create(
            f"task.{metric.otel_name}",
            number,
            metric.unit,
            metric.help,
            is_counter=metric.is_counter,
        )
    create("task.restarts", _field_observer("restarts"), "{restart}", "Restarts after errors.")
    create("task.running", _observe_running, "1", "1 while it runs.", is_counter=False)
    for end in ("read", "written"):
        create(f"dataset.rows.{end}", _dataset_observer(end), "{row}", f"Rows {end}.")
    create("plugin.count", _plugin_observer(counters=True), "1", "Reported by plugins.")
    create(
        "plugin.value",
        _plugin_observer(counters=False),
        "1",
        "Reported by plugins.",
        is_counter=False,
    )


def _read_in_loop(loop: asyncio.AbstractEventLoop, read: _Read) -> Sequence[TaskStatus]:
    """Read the statuses in the event loop, from the exporter's thread. Empty when the loop does not
    answer in time.
    """
    answer: Future[Sequence[TaskStatus]] = Future()

    def answer_call() -> None:
        if answer.set_running_or_notify_cancel():
            answer.set_result(read())

    try:
        loop.call_soon_threadsafe(answer_call)
        return answer.result(READ_TIMEOUT_S)
    except (RuntimeError, TimeoutError):  # the loop has ended, or is busy
        answer.cancel()
        return ()


def _field_observer(field: str) -> _Observe:
    def observe(status: TaskStatus) -> Iterator[Observation]:
        number = read_number(status, field)
        if number is not None:
            yield Observation(number, _labels(status))

    return observe


def _observe_running(status: TaskStatus) -> Iterator[Observation]:
    yield Observation(int(status.state is TaskState.RUNNING), _labels(status))


def _dataset_observer(end: str) -> _Observe:
    def observe(status: TaskStatus) -> Iterator[Observation]:
        for one in status.datasets:
            labels = {**_labels(status), "dataset": one.dataset}
            yield Observation(one.rows_read if end == "read" else one.rows_written, labels)

    return observe


def _plugin_observer(*, counters: bool) -> _Observe:
    def observe(status: TaskStatus) -> Iterator[Observation]:
        for one in status.plugin_metrics:
            if one.name.endswith(COUNTER_SUFFIX) is counters:
                labels = {"plugin": one.plugin, "end": one.role, "name": one.name}
                yield Observation(one.value, {**_labels(status), **labels})

    return observe


def _labels(status: TaskStatus) -> dict[str, str]:
    return {"connector": status.connector, "task": status.task_id.rpartition("-")[2]}
