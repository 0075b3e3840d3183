"""Metrics of tasks, beside the rows and bytes of their status, and metrics of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

MAX_DATASETS: Final = 20
"""Datasets of a task that have metrics of their own: the first ones. Without this bound, a task
that reads ten thousand tables makes ten thousand series (invariant 12)."""

MAX_PLUGIN_METRICS: Final = 32
"""Metrics that the plugin of a source or of a sink may report for a task."""

MAX_DATASET_NAME_LENGTH: Final = 200
MAX_METRIC_NAME_LENGTH: Final = 60
"""Characters of a dataset's name and of a plugin metric's name, as reported."""

COUNTER_SUFFIX: Final = "_total"
"""Suffix of the names of plugin metrics that are counters. All others are gauges."""


@dataclass(frozen=True, slots=True)
class MinMeanMax:
    """The minimum, mean and maximum of the values measured in the last 30 to 60 s."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """Rows of a dataset, by its name behind the transform chain. The empty name has the sum of all
    datasets beyond `MAX_DATASETS`.
    """

    dataset: str
    rows_read: int = 0
    rows_written: int = 0


@dataclass(frozen=True, slots=True)
class PluginMetric:
    """A metric that a plugin reports. `role`: `source` or `sink`, in the task."""

    plugin: str
    role: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Where the time of a task went in the last 30 to 60 s, in shares of it, 0 to 1: it waited for
    rows of the source, for its turn in the engine or a retry, for the sink to prepare and commit,
    for offsets to be stored; or its rows moved. What is done beside something else counts only as
    far as the task waited for it.
    """

    source: float = 0.0
    engine: float = 0.0
    rows: float = 0.0
    sink: float = 0.0
    offsets: float = 0.0


SHARE_WORDS: Final[Mapping[str, str]] = {
    "source": "waits for rows of the source",
    "engine": "waits for its turn in the engine, or for a retry",
    "rows": "moves rows",
    "sink": "waits for the sink to commit",
    "offsets": "waits for offsets to be stored",
}
"""What a task does that spends its time so."""


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """Metrics of one task since it was assigned.

    `running`, `paused`: the share of the time in this state, 0 to 1. `starts` counts runs that
    began, `started` those whose source and sink were opened, `start_failures` those that failed
    before. `rows_under_way` were announced by the source and are not committed; `under_way` is
    their distribution. `commit_seconds` end with the source's acknowledgement; `batch_seconds` are
    those of the slowest slot of a micro-batch, from fetch to put. `last_error_ms` is 0 for none.
    """

    running: float = 0.0
    paused: float = 0.0
    starts: int = 0
    started: int = 0
    start_failures: int = 0
    commits_failed: int = 0
    retries: int = 0
    rows_skipped: int = 0
    errors_logged: int = 0
    last_error_ms: int = 0
    rows_under_way: int = 0
    partitions: int = 0
    commit_seconds: MinMeanMax | None = None
    batch_seconds: MinMeanMax | None = None
    batch_rows: MinMeanMax | None = None
    under_way: MinMeanMax | None = None
    shares: TimeShares | None = None


@dataclass(frozen=True, slots=True)
class TaskMetric:
    """How a number of a task's status is exported. A value below 0 is unknown and left out.

    Attributes:
        field: The field of `TaskStatus`; a dot leads to a field of its value.
        name: Name in Prometheus after `penstock_task_`, without `_total`.
        otel_name: Name in OpenTelemetry after `penstock.task.`.
        unit: Unit in OpenTelemetry.
        is_counter: A counter, else a gauge.
    """

    field: str
    name: str
    otel_name: str
    unit: str
    help: str
    is_counter: bool = True


TASK_METRICS: Final = (
    TaskMetric("rows_read", "rows_read", "rows.read", "{row}", "Rows read."),
    TaskMetric(
        "rows_written", "rows_written", "rows.written", "{row}", "Rows committed by the sink."
    ),
    TaskMetric(
        "rows_failed", "rows_failed", "rows.failed", "{row}", "Rows in dead letters, or skipped."
    ),
    TaskMetric("bytes_read", "read_bytes", "read", "By", "Bytes read."),
    TaskMetric("batches", "batches", "batches", "{batch}", "Micro-batches committed."),
    TaskMetric(
        "metrics.commits_failed",
        "commits_failed",
        "commits.failed",
        "{commit}",
        "Commits that failed.",
    ),
    TaskMetric(
        "metrics.retries", "retries", "retries", "{retry}", "Micro-batches that were retried."
    ),
    TaskMetric("metrics.starts", "starts", "starts", "{start}", "Starts of the task."),
    TaskMetric(
        "metrics.start_failures",
        "start_failures",
        "starts.failed",
        "{start}",
        "Starts that failed before source and sink were open.",
    ),
    TaskMetric(
        "rows_left", "rows_left", "rows.left", "{row}", "Rows still to read.", is_counter=False
    ),
    TaskMetric("bytes_left", "bytes_left", "left", "By", "Bytes still to read.", is_counter=False),
    TaskMetric(
        "metrics.rows_under_way",
        "rows_under_way",
        "rows.under_way",
        "{row}",
        "Rows that are read and not committed.",
        is_counter=False,
    ),
    TaskMetric(
        "metrics.commit_seconds.mean",
        "commit_seconds",
        "commit.duration",
        "s",
        "Seconds of a commit, mean of the last minute.",
        is_counter=False,
    ),
    TaskMetric(
        "metrics.batch_seconds.mean",
        "batch_seconds",
        "batch.duration",
        "s",
        "Seconds of the slowest slot of a micro-batch, mean of the last minute.",
        is_counter=False,
    ),
    *(
        TaskMetric(
            f"metrics.shares.{name}",
            f"time_share_{name}",
            f"time_share.{name}",
            "1",
            f"Share of the last minute in which the task {words}.",
            is_counter=False,
        )
        for name, words in SHARE_WORDS.items()
    ),
)
"""All metrics of tasks, for Prometheus and for OpenTelemetry."""


def read_number(status: object, field: str) -> float | None:
    """Return the number of a task's status at a path of fields, `metrics.commit_seconds.mean`. None
    where it is unknown.
    """
    found: Any = status
    for name in field.split("."):
        found = getattr(found, name)
        if found is None:
            return None
    number: float = found
    return number if number >= 0 else None


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProcessMetric:
    """A value of a metric of `METRIC_FAMILIES`, with its labels beside those of the process."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True)
class ProcessMetrics:
    """The metrics of a process. `name` stays over restarts and need not be unique; `id` is new with
    each start.
    """

    service: str
    name: str
    id: str
    numbers: tuple[ProcessMetric, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric family of Prometheus: its name (without `_total`), whether it is a counter, its help
    text, and its labels beside those of the process.
    """

    name: str
    is_counter: bool
    help: str
    labels: tuple[str, ...] = ()


ReadMetrics = Callable[[], Iterable[ProcessMetric]]
"""Returns the current values of metrics."""

PLUGIN_LABELS: Final = ("plugin", "connector_class")

METRIC_FAMILIES: Final[Mapping[str, MetricFamily]] = {
    "engine.jobs": MetricFamily(
        "penstock_engine_jobs", True, "Micro-batches that Spark has run, in lanes or as jobs."
    ),
    "engine.failed": MetricFamily(
        "penstock_engine_jobs_failed", True, "Micro-batches that failed in Spark."
    ),
    "engine.job_seconds": MetricFamily(
        "penstock_engine_job_seconds", True, "Seconds of all of them, without their wait."
    ),
    "engine.plans": MetricFamily("penstock_engine_plans", True, "Plans that were built."),
    "engine.running": MetricFamily(
        "penstock_engine_jobs_running", False, "Running Spark jobs, and busy lanes."
    ),
    "engine.waiting": MetricFamily(
        "penstock_engine_jobs_waiting", False, "Jobs and slots that wait for their turn."
    ),
    "engine.lanes": MetricFamily(
        "penstock_engine_lanes", False, "Lanes: Spark jobs that stay up for micro-batches."
    ),
    "host.starts": MetricFamily(
        "penstock_host_plugin_starts",
        True,
        "Starts of plugin processes.",
        PLUGIN_LABELS,
    ),
    "host.failures": MetricFamily(
        "penstock_host_plugin_failures_in_a_row",
        False,
        "Failures of a plugin's process since its last success.",
        PLUGIN_LABELS,
    ),
    "store.writes": MetricFamily("penstock_store_writes", True, "Writes that were made durable."),
    "store.groups": MetricFamily(
        "penstock_store_transactions", True, "Transactions in which writes were made durable."
    ),
    "member.registrations": MetricFamily(
        "penstock_member_registrations", True, "Registrations of the process in etcd."
    ),
    "member.pings": MetricFamily(
        "penstock_lease_pings", True, "Keep-alives of the lease that etcd has answered."
    ),
    "member.left": MetricFamily(
        "penstock_lease_left_seconds",
        False,
        "Seconds until the lease expires, unless a keep-alive is answered.",
    ),
    "leader.turns": MetricFamily("penstock_leader_turns", True, "Rounds of the leading scheduler."),
    "leader.failed": MetricFamily(
        "penstock_leader_turns_failed", True, "Failed rounds of the leading scheduler."
    ),
    "leader.sessions": MetricFamily(
        "penstock_leader_sessions", False, "Workers that have a session with the leader."
    ),
}
"""All metrics of processes: `<part of the process>.<key of its statistics>` → family."""


def metrics_from_statistics(
    part: str, statistics: Mapping[str, float], labels: Mapping[str, str] = _NONE
) -> Iterator[ProcessMetric]:
    """Yield the statistics of a part of a process as metrics."""
    for name, value in statistics.items():
        yield ProcessMetric(f"{part}.{name}", value, labels)
