"""Metric families of tasks, their datasets and plugins, by Penstock's and Kafka Connect's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.model.connector import TOPIC_KINDS, TaskStatus
from penstock.model.metrics import COUNTER_SUFFIX, TASK_METRICS, read_number
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

KAFKA_PREFIX: Final = "kafka_connect_"


def reads_topic(status: ConnectorStatus) -> bool:
    """Return whether a connector is a sink in Kafka Connect's terms."""
    return status.kind in TOPIC_KINDS


def _writes_topic(status: ConnectorStatus) -> bool:
    return not reads_topic(status)


def _any(_: ConnectorStatus) -> bool:
    return True


def _commit_success(task: TaskStatus) -> float | None:
    failed = 0 if task.metrics is None else task.metrics.commits_failed
    return task.batches / (task.batches + failed) if task.batches + failed else None


def _commit_failure(task: TaskStatus) -> float | None:
    well = _commit_success(task)
    return None if well is None else 1 - well


def _dead_letters(task: TaskStatus) -> float | None:
    return None if task.metrics is None else task.rows_failed - task.metrics.rows_skipped


_Read: TypeAlias = Callable[[TaskStatus], float | None]
_OfKind: TypeAlias = Callable[[ConnectorStatus], bool]


@dataclass(frozen=True, slots=True)
class _KafkaMetric:
    """A metric by its name in Kafka Connect. `of` selects the connectors that have it."""

    name: str
    help: str
    read: _Read
    of: _OfKind = _any
    is_counter: bool = False


def _number(field: str, scale: float = 1.0) -> _Read:
    def read(task: TaskStatus) -> float | None:
        number = read_number(task, field)
        return None if number is None else number * scale

    return read


def _kafka(
    name: str, help_: str, field: str, of: _OfKind = _any, *, is_counter: bool = False
) -> _KafkaMetric:
    return _KafkaMetric(name, help_, _number(field), of, is_counter)


def _kafka_summary(
    name: str,
    help_: str,
    field: str,
    of: _OfKind = _any,
    ends: Sequence[str] = ("avg", "max"),
    scale: float = 1.0,
) -> Iterator[_KafkaMetric]:
    """Yield the averages, maxima and minima of the last minute; `{}` in the name is one of them."""
    for end in ends:
        read = _number(f"metrics.{field}.{'mean' if end == 'avg' else end}", scale)
        yield _KafkaMetric(name.format(end), help_, read, of)


_KAFKA_METRICS: Final = (
    _kafka(
        "source_task_source_record_poll", "Rows read.", "rows_read", _writes_topic, is_counter=True
    ),
    _kafka(
        "source_task_source_record_write",
        "Rows written.",
        "rows_written",
        _writes_topic,
        is_counter=True,
    ),
    _kafka("sink_task_sink_record_read", "Rows read.", "rows_read", reads_topic, is_counter=True),
    _kafka(
        "sink_task_sink_record_send", "Rows written.", "rows_written", reads_topic, is_counter=True
    ),
    _kafka("sink_task_sink_record_lag_max", "Rows left.", "rows_left", reads_topic),
    _kafka(
        "sink_task_offset_commit_completion", "Commits.", "batches", reads_topic, is_counter=True
    ),
    _kafka("sink_task_offset_commit_seq_no", "Commits.", "batches", reads_topic),
    _kafka("sink_task_partition_count", "Partitions.", "metrics.partitions", reads_topic),
    *(
        metric
        for of, name in (
            (_writes_topic, "source_task_source_record_active_count"),
            (reads_topic, "sink_task_sink_record_active_count"),
        )
        for metric in (
            _kafka(name, "Rows under way.", "metrics.rows_under_way", of),
            *_kafka_summary(f"{name}_{{}}", "Rows under way.", "under_way", of),
        )
    ),
    *_kafka_summary(
        "source_task_transaction_size_{}",
        "Rows of a transaction.",
        "batch_rows",
        _writes_topic,
        ("avg", "max", "min"),
    ),
    *_kafka_summary("connector_task_batch_size_{}", "Rows of a batch.", "batch_rows"),
    *_kafka_summary(
        "connector_task_offset_commit_{}_time_ms",
        "Milliseconds of a commit.",
        "commit_seconds",
        scale=1000,
    ),
    *_kafka_summary(
        "sink_task_put_batch_{}_time_ms",
        "Milliseconds from fetch to put.",
        "batch_seconds",
        reads_topic,
        scale=1000,
    ),
    # Kafka Connect's JMX rules export ratios and error counts as gauges
    _kafka("connector_task_running_ratio", "Part of its time running.", "metrics.running"),
    _kafka("connector_task_pause_ratio", "Part of its time paused.", "metrics.paused"),
    _KafkaMetric(
        "connector_task_offset_commit_success_percentage", "Part of its commits.", _commit_success
    ),
    _KafkaMetric(
        "connector_task_offset_commit_failure_percentage", "Part of its commits.", _commit_failure
    ),
    _kafka("task_error_total_record_errors", "Rejected rows.", "rows_failed"),
    _kafka("task_error_total_record_failures", "Rejected rows.", "rows_failed"),
    _kafka("task_error_total_records_skipped", "Rows skipped.", "metrics.rows_skipped"),
    _kafka("task_error_total_retries", "Batches that were retried.", "metrics.retries"),
    _kafka("task_error_total_errors_logged", "Lines logged.", "metrics.errors_logged"),
    _KafkaMetric("task_error_deadletterqueue_produce_requests", "Dead letters.", _dead_letters),
    _kafka("task_error_last_error_timestamp", "Milliseconds since 1970.", "metrics.last_error_ms"),
)
"""What of the same has a name in Kafka Connect: the names of its JMX rules."""


def task_families(tasks: Sequence[TaskEntry]) -> Iterator[Metric]:
    """Yield the metric families of tasks."""
    for metric in TASK_METRICS:
        family = counter if metric.is_counter else gauge
        yield family(
            f"penstock_task_{metric.name}", metric.help, _samples(tasks, _number(metric.field))
        )
    for one in _KAFKA_METRICS:
        family = counter if one.is_counter else gauge
        yield family(f"{KAFKA_PREFIX}{one.name}", one.help, _samples(tasks, one.read, one.of))
    yield from _dataset_families(tasks)
    yield from _plugin_families(tasks)


def task_labels(status: ConnectorStatus, task: RunStatus) -> dict[str, str]:
    """Return the labels of a task."""
    return {"connector": status.name, "task": str(task.number)}


def _samples(tasks: Iterable[TaskEntry], read: _Read, of: _OfKind = _any) -> Samples:
    return [
        (task_labels(status, task), number)
        for status, task in tasks
        if task.task is not None and of(status)
        for number in [read(task.task)]
        if number is not None and number >= 0
    ]


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
