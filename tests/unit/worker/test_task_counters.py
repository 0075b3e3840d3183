"""What a task measures: over the last minute, by state, by dataset; always bounded."""

import pytest

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.metrics import (
    MAX_DATASETS,
    DatasetRows,
    MinMeanMax,
    PluginMetric,
    TimeShares,
)
from penstock.wire.message_budget import MessageBudget
from penstock.wire.worker import TASK_STATUS, status_to_proto
from penstock.worker.task.metrics import StateTimes, TaskCounters, TimeSplit, WindowedStats
from penstock.worker.task.micro_batches import ExecutedBatch, FinishedBatch


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def finished(rows=10, failed=0, **fields):
    return FinishedBatch(
        1, None, ExecutedBatch((), rows, rows - failed, 0.5, rows_failed=failed, **fields)
    )


def test_statistics_cover_the_last_minute():
    clock = Clock()
    stats = WindowedStats(clock)
    assert stats.stats() is None
    for value in (1, 2, 6):
        stats.add(value)
    assert stats.stats() == MinMeanMax(1, 3, 6)
    clock.now += 31
    stats.add(11)
    assert stats.stats() == MinMeanMax(1, 5, 11), "two windows count"
    clock.now += 31
    assert stats.stats() == MinMeanMax(11, 11, 11), "the older one is over"
    clock.now += 31
    assert stats.stats() is None


def test_state_times_are_shares_of_the_whole_time():
    clock = Clock()
    times = StateTimes(TaskState.STARTING, clock)
    assert times.share(TaskState.STARTING) == 0
    clock.now += 10
    times.enter(TaskState.RUNNING)
    clock.now += 20
    times.enter(TaskState.PAUSED)
    clock.now += 10
    assert times.share(TaskState.RUNNING) == 0.5
    assert times.share(TaskState.PAUSED) == 0.25
    clock.now += 10
    assert times.share(TaskState.PAUSED) == 0.4


def test_rows_under_way_are_those_announced_and_not_committed():
    counters = TaskCounters()
    counters.start_run(3, tuple)
    counters.record_announced(10, 100)
    counters.record_announced(5, 50)
    assert counters.rows_under_way == 15
    counters.record_commit(finished(10), 0.1)
    work = counters.snapshot(StateTimes(TaskState.RUNNING), {"starts": 1})
    assert (work.rows_under_way, work.partitions, work.starts) == (5, 3, 1)
    assert work.under_way == MinMeanMax(5, 10, 15)
    assert work.batch_rows == MinMeanMax(10, 10, 10)
    assert work.commit_seconds == MinMeanMax(0.1, 0.1, 0.1)
    counters.start_run(3, tuple)
    assert counters.rows_under_way == 0, "what was on its way is read again"
    assert counters.rows_read == 10, "the numbers go on"


def test_rejected_rows_are_counted_with_the_time():
    counters = TaskCounters()
    counters.record_commit(finished(10), 0.1)
    assert counters.last_error_ms == 0
    counters.record_commit(finished(10, failed=2, rows_skipped=2, errors_logged=1), 0.1)
    assert (counters.rows_failed, counters.rows_skipped, counters.errors_logged) == (2, 2, 1)
    assert counters.last_error_ms > 1e12
    counters.record_commit(FinishedBatch(2, None, None), 0.1)
    assert counters.batches == 2, "one without rows is none"


def test_further_datasets_are_summed():
    counters = TaskCounters()
    for number in range(MAX_DATASETS + 5):
        counters.record_commit(finished(datasets={f"d{number}": (3, 2)}), 0.1)
    counters.record_commit(finished(datasets={"d0": (1, 1), "d24": (1, 1)}), 0.1)
    found = {one.dataset: one for one in counters.datasets()}
    assert len(found) == MAX_DATASETS + 1
    assert found["d0"] == DatasetRows("d0", 4, 3)
    assert found[""] == DatasetRows("", 16, 11)
    assert counters.datasets_left_out == 5
    assert sum(one.rows_read for one in found.values()) == 3 * 25 + 2, "sums stay right"


@pytest.mark.parametrize("length", [1, 10_000])
def test_dataset_names_are_bounded(length):
    counters = TaskCounters()
    for number in range(3000):
        counters.record_commit(finished(datasets={f"{number}-{'x' * length}": (1, 1)}), 0.1)
    assert max(len(one.dataset) for one in counters.datasets()) <= 200
    assert counters.datasets_left_out == 1000


def status(number=0):
    counters = TaskCounters()
    counters.record_announced(30, 1)
    for dataset in range(MAX_DATASETS + 3):
        counters.record_commit(finished(datasets={f"d{dataset}": (1, 1)}), 0.1)
    return TaskStatus(
        f"g-{number}",
        "c",
        1,
        TaskState.RUNNING,
        metrics=counters.snapshot(
            StateTimes(TaskState.RUNNING), {"starts": 2, "start_failures": 1}
        ),
        datasets=counters.datasets(),
        datasets_left_out=counters.datasets_left_out,
        plugin_metrics=(PluginMetric("mine", "sink", "requests_total", 2.5),),
    )


def test_a_status_survives_the_wire():
    assert TASK_STATUS.from_proto(TASK_STATUS.to_proto(status())) == status()
    plain = TaskStatus("g-0", "c", 1, TaskState.RUNNING)
    assert TASK_STATUS.from_proto(TASK_STATUS.to_proto(plain)) == plain


def test_of_very_many_tasks_some_are_reported_without_metrics():
    brief = MessageBudget()
    told = [TASK_STATUS.from_proto(status_to_proto(status(n), brief)) for n in range(3000)]
    with_work = [one for one in told if one.metrics is not None]
    assert 1000 < len(with_work) < 3000
    without = told[-1]
    assert (without.metrics, without.datasets) == (None, ())
    assert without.datasets_left_out == 3 + MAX_DATASETS + 1


def test_time_is_split_by_what_a_task_did():
    clock = Clock()
    split = TimeSplit(clock)
    assert split.shares() is None
    with split.during("rows"):
        clock.now += 6
    split.move(2, "rows", "engine")
    clock.now += 2  # neither
    with split.during("sink"):
        clock.now += 2
        assert split.shares() == TimeShares(rows=0.4, engine=0.2, sink=0.2), "it is still waiting"
    assert split.shares() == TimeShares(rows=0.4, engine=0.2, sink=0.2)


def test_time_of_the_last_minute_counts():
    clock = Clock()
    split = TimeSplit(clock)
    with split.during("rows"):
        clock.now += 31
    with split.during("source"):
        clock.now += 29
        assert split.shares() == TimeShares(rows=31 / 60, source=29 / 60)
        clock.now += 31
        assert split.shares() == TimeShares(source=1.0)
        clock.now += 3600
        assert split.shares() == TimeShares(source=1.0)
    clock.now += 90
    assert split.shares() is None


@pytest.mark.parametrize("looks", [0, 60], ids=["at its end", "all the time"])
def test_time_that_has_left_the_windows_is_not_moved(looks):
    clock = Clock()
    split = TimeSplit(clock)
    with split.during("rows"):
        for _ in range(looks):
            clock.now += 5
            split.shares()
        clock.now += 300 - 5 * looks
    split.move(299, "rows", "engine")
    found = split.shares()
    assert 0.9 < found.engine <= 1
    assert 0 <= found.rows <= 0.1
