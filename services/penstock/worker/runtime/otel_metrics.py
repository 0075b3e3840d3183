"""Metrics of a worker's tasks as OpenTelemetry instruments: the same that the leader receives and
that the gateway exports to Prometheus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final, TypeAlias

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.metrics import COUNTER_SUFFIX
from penstock.telemetry.otlp import Signal, is_exported
from penstock.worker.runtime.task_registry import TaskRegistry

READ_TIMEOUT_S: Final = 2.0
"""Time in which the event loop must return the statuses. A loop that is busy longer is measured the
next time.
"""

_Read: TypeAlias = Callable[[], Sequence[TaskStatus]]
_Observe: TypeAlias = Callable[[TaskStatus], Iterable[Observation]]


def register(task_registry: TaskRegistry) -> None:
    """Register the instruments if metrics are sent. Call it in the event loop of the tasks."""
    if is_exported(Signal.METRICS):
        loop = asyncio.get_running_loop()
        create_instruments(lambda: _read_in_loop(loop, task_registry.statuses))


def create_instruments(read: _Read) -> None:
    """Create instruments of the tasks that `read` returns."""
    meter = metrics.get_meter("penstock.worker")

    def callback(
        observations: _Observe,
    ) -> Sequence[Callable[[CallbackOptions], Iterable[Observation]]]:
        return [lambda _: [one for status in read() for one in observations(status)]]

    for name, unit, words, number in _COUNTERS:
        meter.create_observable_counter(name, callback(_plain(number)), unit, words)
    for name, unit, words, number in _GAUGES:
        meter.create_observable_gauge(name, callback(_plain(number)), unit, words)
    for end in ("read", "written"):
        meter.create_observable_counter(
            f"penstock.dataset.rows.{end}", callback(_datasets(end)), "{row}", f"Rows {end}."
        )
    meter.create_observable_counter(
        "penstock.plugin.count", callback(_counts), "1", "Reported by plugins."
    )
    meter.create_observable_gauge(
        "penstock.plugin.value", callback(_values), "1", "Reported by plugins."
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


_Number: TypeAlias = Callable[[TaskStatus], float]

_COUNTERS: Final[tuple[tuple[str, str, str, _Number], ...]] = (
    ("penstock.task.rows.read", "{row}", "Rows read.", lambda t: t.rows_read),
    ("penstock.task.rows.written", "{row}", "Rows committed.", lambda t: t.rows_written),
    ("penstock.task.rows.failed", "{row}", "Rejected rows.", lambda t: t.rows_failed),
    ("penstock.task.read", "By", "Bytes read.", lambda t: t.bytes_read),
    ("penstock.task.batches", "{batch}", "Micro-batches committed.", lambda t: t.batches),
    ("penstock.task.restarts", "{restart}", "Restarts after errors.", lambda t: t.restarts),
    (
        "penstock.task.retries",
        "{retry}",
        "Retries of micro-batches.",
        lambda t: t.metrics.retries if t.metrics else -1,
    ),
)

_GAUGES: Final[tuple[tuple[str, str, str, _Number], ...]] = (
    ("penstock.task.rows.left", "{row}", "Rows still to read.", lambda t: t.rows_left),
    ("penstock.task.left", "By", "Bytes still to read.", lambda t: t.bytes_left),
    (
        "penstock.task.rows.under_way",
        "{row}",
        "Rows announced and not committed.",
        lambda t: t.metrics.rows_under_way if t.metrics else -1,
    ),
    (
        "penstock.task.running",
        "1",
        "1 while it runs.",
        lambda t: int(t.state is TaskState.RUNNING),
    ),
)


def _plain(number: _Number) -> _Observe:
    def observations(status: TaskStatus) -> Iterator[Observation]:
        value = number(status)
        if value >= 0:  # else it is unknown
            yield Observation(value, _labels(status))

    return observations


def _datasets(end: str) -> _Observe:
    def observations(status: TaskStatus) -> Iterator[Observation]:
        for one in status.datasets:
            labels = {**_labels(status), "dataset": one.dataset}
            yield Observation(one.rows_read if end == "read" else one.rows_written, labels)

    return observations


def _counts(status: TaskStatus) -> Iterator[Observation]:
    return _of_plugins(status, counts=True)


def _values(status: TaskStatus) -> Iterator[Observation]:
    return _of_plugins(status, counts=False)


def _of_plugins(status: TaskStatus, *, counts: bool) -> Iterator[Observation]:
    for one in status.plugin_metrics:
        if one.name.endswith(COUNTER_SUFFIX) is counts:
            labels = {"plugin": one.plugin, "end": one.role, "name": one.name}
            yield Observation(one.value, {**_labels(status), **labels})


def _labels(status: TaskStatus) -> dict[str, str]:
    return {"connector": status.connector, "task": status.task_id.rpartition("-")[2]}
