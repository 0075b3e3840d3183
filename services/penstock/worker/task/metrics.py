"""What a task counts and measures, over all its lives at an epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from penstock.model.connector import TaskState
from penstock.model.dead_letter import stamp
from penstock.model.metrics import (
    LONGEST_DATASET,
    MOST_DATASETS,
    DatasetRows,
    PluginNumber,
    Spread,
    TaskWork,
)
from penstock.worker.task.commit import Finished

WINDOW: Final = 30.0
"""Seconds of one of the two windows that a spread is over, as Kafka Connect has it by default."""

_MOST_OTHERS: Final = 1000
"""Datasets that are remembered only to be counted (invariant 12)."""

_Clock: TypeAlias = Callable[[], float]


@dataclass(slots=True)
class _Sample:
    since: float
    least: float
    most: float
    total: float
    count: int = 1


class Spreading:
    """Measures something now and then; remembers it for 30 to 60 s, in bounded memory."""

    def __init__(self, clock: _Clock = time.monotonic) -> None:
        self._clock = clock
        self._before: _Sample | None = None
        self._now: _Sample | None = None

    def add(self, value: float) -> None:
        """Take in a value."""
        self._turn()
        one = self._now
        if one is None:
            self._now = _Sample(self._clock(), value, value, value)
            return
        one.least, one.most = min(one.least, value), max(one.most, value)
        one.total, one.count = one.total + value, one.count + 1

    def spread(self) -> Spread | None:
        """Return what there was; None when nothing was measured lately."""
        self._turn()
        both = [one for one in (self._before, self._now) if one is not None]
        if not both:
            return None
        mean = sum(one.total for one in both) / sum(one.count for one in both)
        return Spread(min(one.least for one in both), mean, max(one.most for one in both))

    def _turn(self) -> None:
        """Begin another window when the time of the present one is over."""
        now = self._clock()
        if self._now is not None and now - self._now.since >= WINDOW:
            self._before, self._now = self._now, None
        if self._before is not None and now - self._before.since >= 2 * WINDOW:
            self._before = None


class Times:
    """How long something was in each of its states."""

    def __init__(self, state: TaskState, clock: _Clock = time.monotonic) -> None:
        self._clock, self._state = clock, state
        self._began = self._since = clock()
        self._spent: dict[TaskState, float] = {}

    def enter(self, state: TaskState) -> None:
        """Take note of a state."""
        now = self._clock()
        self._spent[self._state] = self._spent.get(self._state, 0.0) + now - self._since
        self._state, self._since = state, now

    def share(self, state: TaskState) -> float:
        """Return the part of the time that it was in a state, 0 to 1."""
        now = self._clock()
        spent = self._spent.get(state, 0.0) + (now - self._since if state is self._state else 0.0)
        return spent / (now - self._began) if now > self._began else 0.0


@dataclass(slots=True)
class Numbers:
    """What the runs of a task have moved so far. `bytes_left`, `rows_left`: -1 when unknown."""

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
    plugin_numbers: Callable[[], tuple[PluginNumber, ...]] = tuple
    _datasets: dict[str, list[int]] = field(default_factory=dict)
    _others: dict[str, None] = field(default_factory=dict)
    _commit: Spreading = field(default_factory=Spreading)
    _batch: Spreading = field(default_factory=Spreading)
    _rows: Spreading = field(default_factory=Spreading)
    _under_way: Spreading = field(default_factory=Spreading)

    def begin(self, partitions: int, plugins: Callable[[], tuple[PluginNumber, ...]]) -> None:
        """Begin another run: what was on its way is read again."""
        self.partitions, self.plugin_numbers, self.rows_under_way = partitions, plugins, 0

    def announced(self, rows: int, size: int) -> None:
        """Count rows that the read end has ready."""
        self.bytes_read += size
        self.rows_under_way += rows
        self._under_way.add(self.rows_under_way)

    def committed(self, finished: Finished, seconds: float) -> None:
        """Count a micro-batch that was committed, within so many seconds."""
        moved = finished.moved
        if moved is None:
            return
        self.rows_read += moved.rows_read
        self.rows_written += moved.rows_written
        self.rows_failed += moved.rows_failed
        self.rows_skipped += moved.rows_skipped
        self.errors_logged += moved.errors_logged
        self.batches += 1
        self.rows_under_way = max(0, self.rows_under_way - moved.rows_read)
        if moved.rows_failed:
            self.failed()
        for dataset, (read, written) in moved.datasets.items():
            self._moved(dataset, read, written)
        self._commit.add(seconds)
        self._batch.add(moved.seconds)
        self._rows.add(moved.rows_read)
        self._under_way.add(self.rows_under_way)

    def failed(self) -> None:
        """Take note that a row or a life failed."""
        self.last_error_ms = stamp() // 1000

    def retried(self) -> None:
        """Count a micro-batch that is tried again."""
        self.retries += 1
        self.failed()

    def datasets(self) -> tuple[DatasetRows, ...]:
        """Return the rows of datasets."""
        return tuple(DatasetRows(name, *rows) for name, rows in self._datasets.items())

    @property
    def datasets_left_out(self) -> int:
        """How many have no rows of their own; of more than 1,000 the first 1,000 are known."""
        return len(self._others)

    def work(self, times: Times, lives: Mapping[str, int]) -> TaskWork:
        """Return how the task works; `lives` are its counts of those."""
        return TaskWork(
            running=times.share(TaskState.RUNNING),
            paused=times.share(TaskState.PAUSED),
            commits_failed=self.commits_failed,
            retries=self.retries,
            rows_skipped=self.rows_skipped,
            errors_logged=self.errors_logged,
            last_error_ms=self.last_error_ms,
            rows_under_way=self.rows_under_way,
            partitions=self.partitions,
            commit_seconds=self._commit.spread(),
            batch_seconds=self._batch.spread(),
            batch_rows=self._rows.spread(),
            under_way=self._under_way.spread(),
            **lives,
        )

    def _moved(self, dataset: str, read: int, written: int) -> None:
        name = dataset[:LONGEST_DATASET]
        if name not in self._datasets and len(self._datasets.keys() - {""}) >= MOST_DATASETS:
            if len(self._others) < _MOST_OTHERS:
                self._others[name] = None
            name = ""
        rows = self._datasets.setdefault(name, [0, 0])
        rows[0] += read
        rows[1] += written
