"""The table of task metrics, from which Prometheus and OpenTelemetry have the same numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.metrics import TASK_METRICS, MinMeanMax, TaskMetrics, TimeShares, read_number

SUMMARY = MinMeanMax(1, 2, 3)
WORK = TaskMetrics(commit_seconds=SUMMARY, batch_seconds=SUMMARY, shares=TimeShares(0.5))
STATUS = TaskStatus("g-0", "c", 1, TaskState.RUNNING, bytes_left=5, rows_left=6, metrics=WORK)


@pytest.mark.parametrize("metric", TASK_METRICS, ids=lambda metric: metric.name)
def test_each_metric_is_a_number_of_a_status(metric):
    assert read_number(STATUS, metric.field) is not None


def test_names_are_unique():
    for names in zip(*((one.field, one.name, one.otel_name) for one in TASK_METRICS), strict=True):
        assert len(set(names)) == len(names)


def test_an_unknown_number_is_none():
    unknown = replace(STATUS, rows_left=-1, metrics=replace(WORK, commit_seconds=None))
    assert read_number(unknown, "rows_left") is None
    assert read_number(unknown, "metrics.commit_seconds.mean") is None
    assert read_number(replace(STATUS, metrics=None), "metrics.retries") is None
    assert read_number(STATUS, "metrics.commit_seconds.mean") == 2
