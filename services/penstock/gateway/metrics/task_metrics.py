"""Families of samples, as Prometheus' client makes text of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.gateway.response_bodies import FROM_TOPICS
from penstock.model.connector import TaskStatus
from penstock.model.metrics import COUNTS, Spread, TaskWork
from penstock.model.status import ConnectorStatus, RunStatus

Samples: TypeAlias = Sequence[tuple[Mapping[str, str], float]]
"""Labels and values; the labels of all samples of a family have the same names."""


def gauge(name: str, help_: str, samples: Samples) -> Metric:
    """Return a family of numbers that rise and fall."""
    return _family(GaugeMetricFamily, name, help_, samples)


def counter(name: str, help_: str, samples: Samples) -> Metric:
    """Return a family of numbers that only grow; their names get `_total`."""
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


MOST_ROWS: Final = 10_000
"""Datasets that are told in all, and numbers of plugins: each is a line or two of text. Of more,
none is told: half of them would be half a truth (invariant 12)."""

OfTask: TypeAlias = tuple[ConnectorStatus, RunStatus]

_Number: TypeAlias = Callable[[TaskStatus], float | None]


@dataclass(frozen=True, slots=True)
class _Measure:
    """A number of a task: what it is called, what it is, and where it is. One that is None, or
    below 0, is unknown and left out.
    """

    name: str
    help: str
    number: _Number
    counts: bool = True
    of: Callable[[ConnectorStatus], bool] = lambda _: True


def _writes_topic(status: ConnectorStatus) -> bool:
    return status.kind not in FROM_TOPICS


def reads_topic(status: ConnectorStatus) -> bool:
    """Tell whether Kafka Connect would call a connector a sink."""
    return status.kind in FROM_TOPICS


def _work(number: Callable[[TaskWork], float]) -> _Number:
    return lambda task: None if task.work is None else number(task.work)


def _spread(
    spread: Callable[[TaskWork], Spread | None],
    number: Callable[[Spread], float],
    scale: float = 1.0,
) -> _Number:
    def found(task: TaskStatus) -> float | None:
        one = None if task.work is None else spread(task.work)
        return None if one is None else number(one) * scale

    return found


def _mean(spread: Spread) -> float:
    return spread.mean


def _most(spread: Spread) -> float:
    return spread.most


def _least(spread: Spread) -> float:
    return spread.least


def _committed_well(task: TaskStatus) -> float | None:
    failed = 0 if task.work is None else task.work.commits_failed
    return task.batches / (task.batches + failed) if task.batches + failed else None


def _committed_badly(task: TaskStatus) -> float | None:
    well = _committed_well(task)
    return None if well is None else 1 - well


KAFKA: Final = "kafka_connect_"
_SOURCE, _SINK, _ERROR = f"{KAFKA}source_task_", f"{KAFKA}sink_task_", f"{KAFKA}task_error_"
_TASK: Final = f"{KAFKA}connector_task_"


def _ours() -> Iterator[_Measure]:
    counted: tuple[tuple[str, str, _Number], ...] = (
        ("rows_read", "Rows read.", lambda t: t.rows_read),
        ("rows_written", "Rows committed at the write end.", lambda t: t.rows_written),
        ("rows_failed", "Rows in dead letters, or skipped.", lambda t: t.rows_failed),
        ("read_bytes", "Bytes read.", lambda t: t.bytes_read),
        ("batches", "Micro-batches committed.", lambda t: t.batches),
        ("commits_failed", "Commits that failed.", _work(lambda w: w.commits_failed)),
        ("retries", "Micro-batches tried again.", _work(lambda w: w.retries)),
        ("starts", "Lives that began.", _work(lambda w: w.starts)),
        (
            "start_failures",
            "Lives that ended by an error before both ends were open.",
            _work(lambda w: w.start_failures),
        ),
    )
    for name, help_, number in counted:
        yield _Measure(f"penstock_task_{name}", help_, number)


def _our_gauges() -> Iterator[_Measure]:
    gauges: tuple[tuple[str, str, _Number], ...] = (
        ("rows_left", "Rows still to read.", lambda t: t.rows_left),
        ("bytes_left", "Bytes still to read.", lambda t: t.bytes_left),
        (
            "rows_under_way",
            "Rows announced and not committed.",
            _work(lambda w: w.rows_under_way),
        ),
        (
            "commit_seconds",
            "Seconds of a commit, mean of the last minute.",
            _spread(lambda w: w.commit_seconds, _mean),
        ),
        (
            "batch_seconds",
            "Seconds of the slowest slot of a micro-batch, mean of the last minute.",
            _spread(lambda w: w.batch_seconds, _mean),
        ),
    )
    for name, help_, number in gauges:
        yield _Measure(f"penstock_task_{name}", help_, number, counts=False)


def _kafkas() -> Iterator[_Measure]:
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
        yield _Measure(name, help_, number, counts, of)


def _spreads() -> Iterator[_Measure]:
    """Yield Kafka Connect's numbers of the last minute."""
    active = _work(lambda w: w.rows_under_way)
    under_way, rows = (lambda w: w.under_way), (lambda w: w.batch_rows)
    for of, name in ((_writes_topic, f"{_SOURCE}source"), (reads_topic, f"{_SINK}sink")):
        start = f"{name}_record_active_count"
        yield _Measure(start, "Rows under way.", active, counts=False, of=of)
        for end, number in (("avg", _mean), ("max", _most)):
            spread = _spread(under_way, number)
            yield _Measure(f"{start}_{end}", "Rows under way.", spread, counts=False, of=of)
    for end, number in (("avg", _mean), ("max", _most), ("min", _least)):
        size = _spread(rows, number)
        name, help_ = f"{_SOURCE}transaction_size_{end}", "Rows of a transaction."
        yield _Measure(name, help_, size, counts=False, of=_writes_topic)
    for end, number in (("avg", _mean), ("max", _most)):
        size = _spread(rows, number)
        yield _Measure(f"{_TASK}batch_size_{end}", "Rows of a batch.", size, counts=False)
        time = _spread(lambda w: w.commit_seconds, number, 1000)
        name = f"{_TASK}offset_commit_{end}_time_ms"
        yield _Measure(name, "Milliseconds of a commit.", time, counts=False)
        time = _spread(lambda w: w.batch_seconds, number, 1000)
        name, help_ = f"{_SINK}put_batch_{end}_time_ms", "Milliseconds from fetch to put."
        yield _Measure(name, help_, time, counts=False, of=reads_topic)


def _shares() -> Iterator[_Measure]:
    """Yield Kafka Connect's ratios, and its numbers of errors: they are gauges in the rules."""
    rows: tuple[tuple[str, str, _Number], ...] = (
        (f"{_TASK}running_ratio", "Part of its time running.", _work(lambda w: w.running)),
        (f"{_TASK}pause_ratio", "Part of its time paused.", _work(lambda w: w.paused)),
        (f"{_TASK}offset_commit_success_percentage", "Part of its commits.", _committed_well),
        (f"{_TASK}offset_commit_failure_percentage", "Part of its commits.", _committed_badly),
        (f"{_ERROR}total_record_errors", "Bad rows.", lambda t: t.rows_failed),
        (f"{_ERROR}total_record_failures", "Bad rows.", lambda t: t.rows_failed),
        (f"{_ERROR}total_records_skipped", "Rows skipped.", _work(lambda w: w.rows_skipped)),
        (f"{_ERROR}total_retries", "Batches tried again.", _work(lambda w: w.retries)),
        (f"{_ERROR}total_errors_logged", "Lines logged.", _work(lambda w: w.errors_logged)),
        (
            f"{_ERROR}deadletterqueue_produce_requests",
            "Dead letters.",
            lambda t: t.rows_failed - t.work.rows_skipped if t.work else None,
        ),
        (
            f"{_ERROR}last_error_timestamp",
            "Milliseconds since 1970.",
            _work(lambda w: w.last_error_ms),
        ),
    )
    for name, help_, number in rows:
        yield _Measure(name, help_, number, counts=False)


_MEASURES: Final = (*_ours(), *_our_gauges(), *_kafkas(), *_spreads(), *_shares())


def measured(tasks: Sequence[OfTask]) -> Iterator[Metric]:
    """Yield the families of tasks."""
    for measure in _MEASURES:
        yield _of_tasks(measure, tasks)
    yield from _datasets(tasks)
    yield from _plugins(tasks)


def labels_of(status: ConnectorStatus, task: RunStatus) -> dict[str, str]:
    """Return the labels of a task."""
    return {"connector": status.name, "task": str(task.number)}


def _of_tasks(measure: _Measure, tasks: Iterable[OfTask]) -> Metric:
    samples = [
        (labels_of(status, task), number)
        for status, task in tasks
        if task.task is not None and measure.of(status)
        for number in [measure.number(task.task)]
        if number is not None and number >= 0
    ]
    make = counter if measure.counts else gauge
    return make(measure.name, measure.help, samples)


def _datasets(tasks: Sequence[OfTask]) -> Iterator[Metric]:
    said = [(labels_of(s, t), t.task) for s, t in tasks if t.task is not None]
    rows = [(labels, one) for labels, task in said for one in task.datasets]
    told = rows if len(rows) <= MOST_ROWS else []
    left_out = sum(task.datasets_left_out for _, task in said) + len(rows) - len(told)
    yield gauge(
        "penstock_datasets_left_out",
        "Datasets of tasks without numbers of their own.",
        [({}, left_out)],
    )
    for word, help_ in (("read", "Rows read."), ("written", "Rows committed at the write end.")):
        samples: Samples = [
            ({**labels, "dataset": one.dataset}, getattr(one, f"rows_{word}"))
            for labels, one in told
        ]
        yield counter(f"penstock_dataset_rows_{word}", help_, samples)


def _plugins(tasks: Sequence[OfTask]) -> Iterator[Metric]:
    rows = [
        ({**labels_of(s, t), "plugin": one.plugin, "end": one.end}, one)
        for s, t in tasks
        if t.task is not None
        for one in t.task.plugin_numbers
    ]
    told = rows if len(rows) <= MOST_ROWS else []
    left_out = len(rows) - len(told)
    yield gauge(  # not `penstock_plugin_…`: a plugin may choose any name behind that
        "penstock_left_out_of_plugins",
        "Numbers of plugins that are not told.",
        [({}, left_out)],
    )
    names = sorted({one.name for _, one in told})
    for name in names:
        make = counter if name.endswith(COUNTS) else gauge
        samples = [(labels, one.value) for labels, one in told if one.name == name]
        yield make(f"penstock_plugin_{name.removesuffix(COUNTS)}", "Told by plugins.", samples)
