"""What a task counts and measures over all its runs at an epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from penstock.model.connector import TaskState
from penstock.model.metrics import (
    MAX_DATASET_NAME_LENGTH,
    MAX_DATASETS,
    DatasetRows,
    MinMeanMax,
    PluginMetric,
    TaskMetrics,
    TimeShares,
)
from penstock.model.wall_clock import wall_clock_us
from penstock.worker.task.micro_batches import FinishedBatch

WINDOW_S: Final = 30.0
"""Length of each of the two windows of a measurement, as in Kafka Connect by default."""

_MAX_OTHERS: Final = 1000
"""Datasets that are remembered only to be counted (invariant 12)."""

_Clock: TypeAlias = Callable[[], float]


@dataclass(slots=True)
class _Sample:
    since: float
    minimum: float
    maximum: float
    total: float
    count: int = 1


class WindowedStats:
    """Minimum, mean and maximum of the values of the last 30 to 60 s, in constant memory."""

    def __init__(self, clock: _Clock = time.monotonic) -> None:
        self._clock = clock
        self._before: _Sample | None = None
        self._now: _Sample | None = None

    def add(self, value: float) -> None:
        """Add a value."""
        self._rotate()
        one = self._now
        if one is None:
            self._now = _Sample(self._clock(), value, value, value)
            return
        one.minimum, one.maximum = min(one.minimum, value), max(one.maximum, value)
        one.total, one.count = one.total + value, one.count + 1

    def stats(self) -> MinMeanMax | None:
        """Return the statistics; None when there was no value lately."""
        self._rotate()
        both = [one for one in (self._before, self._now) if one is not None]
        if not both:
            return None
        mean = sum(one.total for one in both) / sum(one.count for one in both)
        return MinMeanMax(min(one.minimum for one in both), mean, max(one.maximum for one in both))

    def _rotate(self) -> None:
        """Start another window when the present one is over."""
        now = self._clock()
        if self._now is not None and now - self._now.since >= WINDOW_S:
            self._before, self._now = self._now, None
        if self._before is not None and now - self._before.since >= 2 * WINDOW_S:
            self._before = None


class StateTimes:
    """How long a task was in each of its states."""

    def __init__(self, state: TaskState, clock: _Clock = time.monotonic) -> None:
        self._clock, self._state = clock, state
        self._began = self._since = clock()
        self._spent: dict[TaskState, float] = {}

    def enter(self, state: TaskState) -> None:
        """Record a change of state."""
        now = self._clock()
        self._spent[self._state] = self._spent.get(self._state, 0.0) + now - self._since
        self._state, self._since = state, now

    def share(self, state: TaskState) -> float:
        """Return the share of the time that the task was in a state, 0 to 1."""
        now = self._clock()
        spent = self._spent.get(state, 0.0) + (now - self._since if state is self._state else 0.0)
        return spent / (now - self._began) if now > self._began else 0.0


class TimeSplit:
    """Where the time of a task went in the last 30 to 60 s, in constant memory."""

    def __init__(self, clock: _Clock = time.monotonic) -> None:
        self._clock = clock
        self._before: dict[str, float] = {}
        self._now: dict[str, float] = {}
        self._began = self._since = clock()
        self._open: tuple[str, float] | None = None

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Count the time in the block for a field of `TimeShares`."""
        self._open = name, self._clock()
        try:
            yield
        finally:
            self._rotate()
            self._count_open()
            self._open = None

    def move(self, seconds: float, source: str, target: str) -> None:
        """Count seconds that were counted for one field for another one, as far as they are still
        in the windows.
        """
        for window in (self._now, self._before):
            moved = min(seconds, window.get(source, 0.0))
            if moved > 0:
                window[source] -= moved
                window[target] = window.get(target, 0.0) + moved
                seconds -= moved

    def shares(self) -> TimeShares | None:
        """Return the shares; None before there is something to count."""
        self._rotate()
        self._count_open()
        spent = dict(self._before)
        for name, seconds in self._now.items():
            spent[name] = spent.get(name, 0.0) + seconds
        length = max(self._clock() - self._began, sum(spent.values()))
        if not spent or length <= 0:
            return None
        return TimeShares(**{name: seconds / length for name, seconds in spent.items()})

    def _add(self, name: str, seconds: float) -> None:
        self._now[name] = self._now.get(name, 0.0) + seconds

    def _count_open(self) -> None:
        """Count what has passed of the block that is open."""
        if self._open is not None:
            name, since = self._open
            now = self._clock()
            self._add(name, now - max(since, self._since))
            self._open = name, now

    def _rotate(self) -> None:
        """Start another window when the present one is over."""
        now = self._clock()
        if now - self._since < WINDOW_S:
            return
        if now - self._since < 2 * WINDOW_S:
            self._count_open()
            self._before, self._began, self._since = self._now, self._since, now
        else:  # of a block that is open, the last window counts
            self._before, self._began, self._since = {}, now - WINDOW_S, now - WINDOW_S
        self._now = {}


@dataclass(slots=True)
class TaskCounters:
    """The counters of a task. `bytes_left` and `rows_left` are -1 while unknown."""

    rows_read: int = 0
    rows_written: int = 0
    rows_failed: int = 0
    rows_skipped: int = 0
    bytes_read: int = 0
    batches: int = 0
    bytes_left: int = -1
    rows_left: int = -1
    retries: int = 0
    errors_logged: int = 0
    commits_failed: int = 0
    last_error_ms: int = 0
    partitions: int = 0
    rows_under_way: int = 0
    plugin_metrics: Callable[[], tuple[PluginMetric, ...]] = tuple
    _datasets: dict[str, list[int]] = field(default_factory=dict)
    _others: dict[str, None] = field(default_factory=dict)
    _commit: WindowedStats = field(default_factory=WindowedStats)
    _batch: WindowedStats = field(default_factory=WindowedStats)
    _rows: WindowedStats = field(default_factory=WindowedStats)
    _under_way: WindowedStats = field(default_factory=WindowedStats)
    split: TimeSplit = field(default_factory=TimeSplit)

    def start_run(self, partitions: int, plugins: Callable[[], tuple[PluginMetric, ...]]) -> None:
        """Start another run. Rows that were announced and not committed are read again."""
        self.partitions, self.plugin_metrics, self.rows_under_way = partitions, plugins, 0

    def record_announced(self, rows: int, size: int) -> None:
        """Count rows that the source announced."""
        self.bytes_read += size
        self.rows_under_way += rows
        self._under_way.add(self.rows_under_way)

    def record_commit(self, finished: FinishedBatch, seconds: float) -> None:
        """Count a micro-batch whose commit took so many seconds."""
        executed = finished.executed
        if executed is None:
            return
        self.rows_read += executed.rows_read
        self.rows_written += executed.rows_written
        self.rows_failed += executed.rows_failed
        self.rows_skipped += executed.rows_skipped
        self.errors_logged += executed.errors_logged
        self.batches += 1
        self.rows_under_way = max(0, self.rows_under_way - executed.rows_read)
        if executed.rows_failed:
            self.record_error()
        for dataset, (read, written) in executed.datasets.items():
            self._count_dataset(dataset, read, written)
        self._commit.add(seconds)
        self._batch.add(executed.slowest_slot_s)
        self._rows.add(executed.rows_read)
        self._under_way.add(self.rows_under_way)

    def record_error(self) -> None:
        """Record the time of an error: of a row, or of a run."""
        self.last_error_ms = wall_clock_us() // 1000

    def record_retry(self) -> None:
        """Count a retry of a micro-batch."""
        self.retries += 1
        self.record_error()

    def datasets(self) -> tuple[DatasetRows, ...]:
        """Return the row counts by dataset."""
        return tuple(DatasetRows(name, *rows) for name, rows in self._datasets.items())

    @property
    def datasets_left_out(self) -> int:
        """Number of datasets without counts of their own. It stops at 1,000."""
        return len(self._others)

    def fingerprint(self) -> tuple[object, ...]:
        """Return values of which one changes with each event of the task."""
        return (
            self.batches,
            self.bytes_read,
            self.rows_under_way,
            self.bytes_left,
            self.rows_left,
            self.retries,
            self.commits_failed,
            self.last_error_ms,
            self.partitions,
            self.plugin_metrics(),
        )

    def snapshot(self, times: StateTimes, starts: Mapping[str, int]) -> TaskMetrics:
        """Return the metrics of the task. `starts` has the counts of its starts, by field of
        `TaskMetrics`.
        """
        return TaskMetrics(
            running=times.share(TaskState.RUNNING),
            paused=times.share(TaskState.PAUSED),
            commits_failed=self.commits_failed,
            retries=self.retries,
            rows_skipped=self.rows_skipped,
            errors_logged=self.errors_logged,
            last_error_ms=self.last_error_ms,
            rows_under_way=self.rows_under_way,
            partitions=self.partitions,
            commit_seconds=self._commit.stats(),
            batch_seconds=self._batch.stats(),
            batch_rows=self._rows.stats(),
            under_way=self._under_way.stats(),
            shares=self.split.shares(),
            **starts,
        )

    def _count_dataset(self, dataset: str, read: int, written: int) -> None:
        name = dataset[:MAX_DATASET_NAME_LENGTH]
        if name not in self._datasets and len(self._datasets.keys() - {""}) >= MAX_DATASETS:
            if len(self._others) < _MAX_OTHERS:
                self._others[name] = None
            name = ""
        rows = self._datasets.setdefault(name, [0, 0])
        rows[0] += read
        rows[1] += written
