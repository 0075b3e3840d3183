"""Rows that a sink cannot write are tried again as often as the connector allows, alone."""

from __future__ import annotations

import pytest

from penstock.model.errors import DataError, RetriableError
from penstock.worker.task.write_retries import UnwrittenRows, WriteRetries, WriteRetry

BUSY = RetriableError("sink.busy", "not now").diagnostic
HERE = {"p1": {"n": 7}}
WITH_OTHERS = {"p0": {"n": 1}, "p1": {"n": 7}}


def fail(retries, place=HERE, reason=BUSY, *, max_retries=2, is_progress=False):
    """End the next run."""
    unwritten = None if place is None else UnwrittenRows(place, reason)
    retries.record(unwritten, retries.next(max_retries), is_progress=is_progress)


@pytest.mark.parametrize("is_progress", [False, True])
def test_rows_are_rejected_after_as_many_retries_of_them_alone(is_progress):
    """The first failure is no retry. What else a run commits does not matter."""
    retries = WriteRetries()
    assert retries.next(2) is None
    fail(retries, WITH_OTHERS, is_progress=is_progress)
    assert retries.next(2) == WriteRetry(WITH_OTHERS)
    fail(retries, is_progress=is_progress)
    assert retries.next(2) == WriteRetry(HERE)
    fail(retries, is_progress=is_progress)
    assert retries.next(2) == WriteRetry(HERE, BUSY)
    assert retries.next(3) == WriteRetry(HERE)
    assert retries.next(None) is None


def test_rows_of_another_place_begin_anew():
    retries = WriteRetries()
    for _ in range(3):
        fail(retries)
    assert retries.next(2).reject == BUSY
    fail(retries, {"p1": {"n": 8}}, is_progress=True)  # these were rejected, and others failed
    assert retries.next(2) == WriteRetry({"p1": {"n": 8}})


def test_a_run_that_ends_well_leaves_nothing_to_reject():
    """Its rows were written or rejected: the next run may begin with others, a month later."""
    retries = WriteRetries()
    for _ in range(3):
        fail(retries)
    assert retries.next(2).reject == BUSY
    fail(retries, None, is_progress=True)
    assert retries.next(2) is None


def test_other_errors_before_the_rows_neither_count_nor_forget():
    retries = WriteRetries()
    for _ in range(3):
        fail(retries)
        fail(retries, None)
        fail(retries, reason=DataError("row.bad", "bad").diagnostic)
    assert retries.next(2) == WriteRetry(HERE, BUSY)
    assert retries.next(3) == WriteRetry(HERE)


@pytest.mark.parametrize("other", [WITH_OTHERS, {"p0": {"n": 7}}, {"p1": {"n": 8}}, {}])
def test_only_the_rows_that_failed_are_rejected(other):
    """Those of another partition, or of a larger micro-batch, never failed alone."""
    assert WriteRetry(HERE, BUSY).reason_to_reject(dict(HERE)) == BUSY
    assert WriteRetry(HERE, BUSY).reason_to_reject(other) is None
    assert WriteRetry(HERE).reason_to_reject(HERE) is None
