"""What a task measures: over the last minute, by state, by dataset; bounded, whatever comes."""

import pytest

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.metrics import MOST_DATASETS, DatasetRows, PluginNumber, Spread
from penstock.wire.error import Brief
from penstock.wire.worker import status_from_proto, status_to_proto
from penstock.worker.task.commit import Finished
from penstock.worker.task.execution import Moved
from penstock.worker.task.metrics import Numbers, Spreading, Times


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def finished(rows=10, failed=0, **fields):
    return Finished(1, None, Moved((), rows, rows - failed, 0.5, rows_failed=failed, **fields))


def test_a_spread_is_of_the_last_minute():
    clock = Clock()
    spreading = Spreading(clock)
    assert spreading.spread() is None
    for value in (1, 2, 6):
        spreading.add(value)
    assert spreading.spread() == Spread(1, 3, 6)
    clock.now += 31
    spreading.add(11)
    assert spreading.spread() == Spread(1, 5, 11), "two windows count"
    clock.now += 31
    assert spreading.spread() == Spread(11, 11, 11), "the older one is over"
    clock.now += 31
    assert spreading.spread() is None


def test_times_are_shares_of_all_since_the_beginning():
    clock = Clock()
    times = Times(TaskState.STARTING, clock)
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
    numbers = Numbers()
    numbers.begin(3, tuple)
    numbers.announced(10, 100)
    numbers.announced(5, 50)
    assert numbers.rows_under_way == 15
    numbers.committed(finished(10), 0.1)
    work = numbers.work(Times(TaskState.RUNNING), {"starts": 1})
    assert (work.rows_under_way, work.partitions, work.starts) == (5, 3, 1)
    assert work.under_way == Spread(5, 10, 15)
    assert work.batch_rows == Spread(10, 10, 10)
    assert work.commit_seconds == Spread(0.1, 0.1, 0.1)
    numbers.begin(3, tuple)
    assert numbers.rows_under_way == 0, "what was on its way is read again"
    assert numbers.rows_read == 10, "the numbers go on"


def test_bad_rows_are_counted_with_the_time():
    numbers = Numbers()
    numbers.committed(finished(10), 0.1)
    assert numbers.last_error_ms == 0
    numbers.committed(finished(10, failed=2, rows_skipped=2, errors_logged=1), 0.1)
    assert (numbers.rows_failed, numbers.rows_skipped, numbers.errors_logged) == (2, 2, 1)
    assert numbers.last_error_ms > 1e12
    numbers.committed(Finished(2, None, None), 0.1)
    assert numbers.batches == 2, "one without rows is none"


def test_datasets_beyond_the_first_are_one_sum():
    numbers = Numbers()
    for number in range(MOST_DATASETS + 5):
        numbers.committed(finished(datasets={f"d{number}": (3, 2)}), 0.1)
    numbers.committed(finished(datasets={"d0": (1, 1), "d24": (1, 1)}), 0.1)
    found = {one.dataset: one for one in numbers.datasets()}
    assert len(found) == MOST_DATASETS + 1
    assert found["d0"] == DatasetRows("d0", 4, 3)
    assert found[""] == DatasetRows("", 16, 11)
    assert numbers.datasets_left_out == 5
    assert sum(one.rows_read for one in found.values()) == 3 * 25 + 2, "sums stay right"


@pytest.mark.parametrize("length", [1, 10_000])
def test_names_are_bounded(length):
    numbers = Numbers()
    for number in range(3000):
        numbers.committed(finished(datasets={f"{number}-{'x' * length}": (1, 1)}), 0.1)
    assert max(len(one.dataset) for one in numbers.datasets()) <= 200
    assert numbers.datasets_left_out == 1000


def status(number=0):
    numbers = Numbers()
    numbers.announced(30, 1)
    for dataset in range(MOST_DATASETS + 3):
        numbers.committed(finished(datasets={f"d{dataset}": (1, 1)}), 0.1)
    return TaskStatus(
        f"g-{number}",
        "c",
        1,
        TaskState.RUNNING,
        work=numbers.work(Times(TaskState.RUNNING), {"starts": 2, "start_failures": 1}),
        datasets=numbers.datasets(),
        datasets_left_out=numbers.datasets_left_out,
        plugin_numbers=(PluginNumber("mine", "sink", "requests_total", 2.5),),
    )


def test_all_of_it_crosses_the_wire():
    assert status_from_proto(status_to_proto(status())) == status()
    plain = TaskStatus("g-0", "c", 1, TaskState.RUNNING)
    assert status_from_proto(status_to_proto(plain)) == plain


def test_of_very_many_tasks_some_are_told_without():
    brief = Brief()
    told = [status_from_proto(status_to_proto(status(n), brief)) for n in range(3000)]
    with_work = [one for one in told if one.work is not None]
    assert 1000 < len(with_work) < 3000
    without = told[-1]
    assert (without.work, without.datasets) == (None, ())
    assert without.datasets_left_out == 3 + MOST_DATASETS + 1
