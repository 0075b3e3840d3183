"""Metric families of tasks, their datasets and plugins, by Penstock's and Kafka Connect's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.gateway.response_bodies import TOPIC_KINDS
from penstock.model.connector import TaskStatus
from penstock.model.metrics import COUNTER_SUFFIX, MinMeanMax, TaskMetrics
from penstock.model.status import ConnectorStatus, RunStatus

Samples: TypeAlias = Sequence[tuple[Mapping[str, str], float]]
"""Labels and values. All samples of a family have the same label names."""


def gauge(name: str, help_: str, samples: Samples) -> Metric:
    """Return a gauge family."""
    return _family(GaugeMetricFamily, name, help_, samples)


def counter(name: str, help_: str, samples: Samples) -> Metric:
    """Return a counter family. Prometheus' client adds `_total` to its name."""
    return _family(CounterMetricFamily, name, help_, samples)


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    help_: str,
    samples: Samples,
) -> Metric:
    names = list(samples[0][0]) if samples else []
    family = kind(name, help_, labels=names)
    for labels, value in samples:
        family.add_metric([labels[name] for name in names], value)
    return family


MAX_SERIES: Final = 10_000
"""Series of datasets, and series of plugins; each is a line or two of text. With more, all of them
are left out, because a part of them would mislead (invariant 12)."""

TaskEntry: TypeAlias = tuple[ConnectorStatus, RunStatus]

_Number: TypeAlias = Callable[[TaskStatus], float | None]


@dataclass(frozen=True, slots=True)
class _TaskMetric:
    """A metric of a task: its name, help text and value. A value of None or below 0 is unknown and
    left out. `of` selects the connectors that have it.
    """

    name: str
    help: str
    number: _Number
    counts: bool = True
    of: Callable[[ConnectorStatus], bool] = lambda _: True


def _writes_topic(status: ConnectorStatus) -> bool:
    return status.kind not in TOPIC_KINDS


def reads_topic(status: ConnectorStatus) -> bool:
    """Return whether a connector is a sink in Kafka Connect's terms."""
    return status.kind in TOPIC_KINDS


def _work(number: Callable[[TaskMetrics], float]) -> _Number:
    return lambda task: None if task.metrics is None else number(task.metrics)


def _summary(
    summary: Callable[[TaskMetrics], MinMeanMax | None],
    number: Callable[[MinMeanMax], float],
    scale: float = 1.0,
) -> _Number:
    def found(task: TaskStatus) -> float | None:
        one = None if task.metrics is None else summary(task.metrics)
        return None if one is None else number(one) * scale

    return found


def _mean(summary: MinMeanMax) -> float:
    return summary.mean


def _max(summary: MinMeanMax) -> float:
    return summary.max


def _min(summary: MinMeanMax) -> float:
    return summary.min


def _commit_success(task: TaskStatus) -> float | None:
    failed = 0 if task.metrics is None else task.metrics.commits_failed
    return task.batches / (task.batches + failed) if task.batches + failed else None


def _commit_failure(task: TaskStatus) -> float | None:
    well = _commit_success(task)
    return None if well is None else 1 - well


KAFKA_PREFIX: Final = "kafka_connect_"
_SOURCE, _SINK, _ERROR = (
    f"{KAFKA_PREFIX}source_task_",
    f"{KAFKA_PREFIX}sink_task_",
    f"{KAFKA_PREFIX}task_error_",
)
_TASK: Final = f"{KAFKA_PREFIX}connector_task_"


def _penstock_counters() -> Iterator[_TaskMetric]:
    counted: tuple[tuple[str, str, _Number], ...] = (
        ("rows_read", "Rows read.", lambda t: t.rows_read),
        ("rows_written", "Rows committed by the sink.", lambda t: t.rows_written),
        ("rows_failed", "Rows in dead letters, or skipped.", lambda t: t.rows_failed),
        ("read_bytes", "Bytes read.", lambda t: t.bytes_read),
        ("batches", "Micro-batches committed.", lambda t: t.batches),
        ("commits_failed", "Commits that failed.", _work(lambda w: w.commits_failed)),
        ("retries", "Micro-batches that were retried.", _work(lambda w: w.retries)),
        ("starts", "Starts of the task.", _work(lambda w: w.starts)),
        (
            "start_failures",
            "Starts that failed before source and sink were open.",
            _work(lambda w: w.start_failures),
        ),
    )
    for name, help_, number in counted:
        yield _TaskMetric(f"penstock_task_{name}", help_, number)


def _penstock_gauges() -> Iterator[_TaskMetric]:
    gauges: tuple[tuple[str, str, _Number], ...] = (
        ("rows_left", "Rows still to read.", lambda t: t.rows_left),
        ("bytes_left", "Bytes still to read.", lambda t: t.bytes_left),
        (
            "rows_under_way",
            "Rows that are read and not committed.",
            _work(lambda w: w.rows_under_way),
        ),
        (
            "commit_seconds",
            "Seconds of a commit, mean of the last minute.",
            _summary(lambda w: w.commit_seconds, _mean),
        ),
        (
            "batch_seconds",
            "Seconds of the slowest slot of a micro-batch, mean of the last minute.",
            _summary(lambda w: w.batch_seconds, _mean),
        ),
    )
    for name, help_, number in gauges:
        yield _TaskMetric(f"penstock_task_{name}", help_, number, counts=False)


def _kafka_rows() -> Iterator[_TaskMetric]:
    rows: tuple[tuple[str, str, _Number, bool, Callable[[ConnectorStatus], bool]], ...] = (
        (f"{_SOURCE}source_record_poll", "Rows read.", lambda t: t.rows_read, True, _writes_topic),
        (
            f"{_SOURCE}source_record_write",
            "Rows written.",
            lambda t: t.rows_written,
            True,
            _writes_topic,
        ),
        (f"{_SINK}sink_record_read", "Rows read.", lambda t: t.rows_read, True, reads_topic),
        (f"{_SINK}sink_record_send", "Rows written.", lambda t: t.rows_written, True, reads_topic),
        (f"{_SINK}sink_record_lag_max", "Rows left.", lambda t: t.rows_left, False, reads_topic),
        (f"{_SINK}offset_commit_completion", "Commits.", lambda t: t.batches, True, reads_topic),
        (f"{_SINK}offset_commit_seq_no", "Commits.", lambda t: t.batches, False, reads_topic),
        (
            f"{_SINK}partition_count",
            "Partitions.",
            _work(lambda w: w.partitions),
            False,
            reads_topic,
        ),
    )
    for name, help_, number, counts, of in rows:
        yield _TaskMetric(name, help_, number, counts, of)


def _kafka_summaries() -> Iterator[_TaskMetric]:
    """Yield Kafka Connect's averages, maxima and minima of the last minute."""
    active = _work(lambda w: w.rows_under_way)
    under_way, rows = (lambda w: w.under_way), (lambda w: w.batch_rows)
    for of, name in ((_writes_topic, f"{_SOURCE}source"), (reads_topic, f"{_SINK}sink")):
        start = f"{name}_record_active_count"
        yield _TaskMetric(start, "Rows under way.", active, counts=False, of=of)
        for end, number in (("avg", _mean), ("max", _max)):
            summary = _summary(under_way, number)
            yield _TaskMetric(f"{start}_{end}", "Rows under way.", summary, counts=False, of=of)
    for end, number in (("avg", _mean), ("max", _max), ("min", _min)):
        size = _summary(rows, number)
        name, help_ = f"{_SOURCE}transaction_size_{end}", "Rows of a transaction."
        yield _TaskMetric(name, help_, size, counts=False, of=_writes_topic)
    for end, number in (("avg", _mean), ("max", _max)):
        size = _summary(rows, number)
        yield _TaskMetric(f"{_TASK}batch_size_{end}", "Rows of a batch.", size, counts=False)
        time = _summary(lambda w: w.commit_seconds, number, 1000)
        name = f"{_TASK}offset_commit_{end}_time_ms"
        yield _TaskMetric(name, "Milliseconds of a commit.", time, counts=False)
        time = _summary(lambda w: w.batch_seconds, number, 1000)
        name, help_ = f"{_SINK}put_batch_{end}_time_ms", "Milliseconds from fetch to put."
        yield _TaskMetric(name, help_, time, counts=False, of=reads_topic)


def _kafka_ratios() -> Iterator[_TaskMetric]:
    """Yield Kafka Connect's ratios and error counts. Its JMX rules export them as gauges."""
    rows: tuple[tuple[str, str, _Number], ...] = (
        (f"{_TASK}running_ratio", "Part of its time running.", _work(lambda w: w.running)),
        (f"{_TASK}pause_ratio", "Part of its time paused.", _work(lambda w: w.paused)),
        (f"{_TASK}offset_commit_success_percentage", "Part of its commits.", _commit_success),
        (f"{_TASK}offset_commit_failure_percentage", "Part of its commits.", _commit_failure),
        (f"{_ERROR}total_record_errors", "Rejected rows.", lambda t: t.rows_failed),
        (f"{_ERROR}total_record_failures", "Rejected rows.", lambda t: t.rows_failed),
        (f"{_ERROR}total_records_skipped", "Rows skipped.", _work(lambda w: w.rows_skipped)),
        (f"{_ERROR}total_retries", "Batches that were retried.", _work(lambda w: w.retries)),
        (f"{_ERROR}total_errors_logged", "Lines logged.", _work(lambda w: w.errors_logged)),
        (
            f"{_ERROR}deadletterqueue_produce_requests",
            "Dead letters.",
            lambda t: t.rows_failed - t.metrics.rows_skipped if t.metrics else None,
        ),
        (
            f"{_ERROR}last_error_timestamp",
            "Milliseconds since 1970.",
            _work(lambda w: w.last_error_ms),
        ),
    )
    for name, help_, number in rows:
        yield _TaskMetric(name, help_, number, counts=False)


_TASK_METRICS: Final = (
    *_penstock_counters(),
    *_penstock_gauges(),
    *_kafka_rows(),
    *_kafka_summaries(),
    *_kafka_ratios(),
)


def task_families(tasks: Sequence[TaskEntry]) -> Iterator[Metric]:
    """Yield the metric families of tasks."""
    for metric in _TASK_METRICS:
        yield _metric_family(metric, tasks)
    yield from _dataset_families(tasks)
    yield from _plugin_families(tasks)


def task_labels(status: ConnectorStatus, task: RunStatus) -> dict[str, str]:
    """Return the labels of a task."""
    return {"connector": status.name, "task": str(task.number)}


def _metric_family(metric: _TaskMetric, tasks: Iterable[TaskEntry]) -> Metric:
    samples = [
        (task_labels(status, task), number)
        for status, task in tasks
        if task.task is not None and metric.of(status)
        for number in [metric.number(task.task)]
        if number is not None and number >= 0
    ]
    make = counter if metric.counts else gauge
    return make(metric.name, metric.help, samples)


def _dataset_families(tasks: Sequence[TaskEntry]) -> Iterator[Metric]:
    reported = [(task_labels(s, t), t.task) for s, t in tasks if t.task is not None]
    rows = [(labels, one) for labels, task in reported for one in task.datasets]
    listed = rows if len(rows) <= MAX_SERIES else []
    left_out = sum(task.datasets_left_out for _, task in reported) + len(rows) - len(listed)
    yield gauge(
        "penstock_datasets_left_out",
        "Datasets of tasks without series of their own.",
        [({}, left_out)],
    )
    for word, help_ in (("read", "Rows read."), ("written", "Rows committed by the sink.")):
        samples: Samples = [
            ({**labels, "dataset": one.dataset}, getattr(one, f"rows_{word}"))
            for labels, one in listed
        ]
        yield counter(f"penstock_dataset_rows_{word}", help_, samples)


def _plugin_families(tasks: Sequence[TaskEntry]) -> Iterator[Metric]:
    rows = [
        ({**task_labels(s, t), "plugin": one.plugin, "end": one.role}, one)
        for s, t in tasks
        if t.task is not None
        for one in t.task.plugin_metrics
    ]
    listed = rows if len(rows) <= MAX_SERIES else []
    left_out = len(rows) - len(listed)
    yield gauge(  # not `penstock_plugin_…`, which is for names that plugins choose
        "penstock_left_out_of_plugins",
        "Metrics of plugins that are left out.",
        [({}, left_out)],
    )
    names = sorted({one.name for _, one in listed})
    for name in names:
        make = counter if name.endswith(COUNTER_SUFFIX) else gauge
        samples = [(labels, one.value) for labels, one in listed if one.name == name]
        yield make(
            f"penstock_plugin_{name.removesuffix(COUNTER_SUFFIX)}", "Reported by plugins.", samples
        )
