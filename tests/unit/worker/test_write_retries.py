"""Rows that a sink cannot write are tried again as often as the connector allows, alone."""

from __future__ import annotations

import pytest

from penstock.model.connector import Partition
from penstock.model.errors import DataError, RetriableError
from penstock.worker.task.write_retries import WriteRetries

BUSY = RetriableError("sink.busy", "not now")


def at(position):
    return [Partition({"file": "/a"}, {"position": position})]


def fail(retries, position=7, error=BUSY, *, is_progress=False):
    retries.record(error, at(position), is_progress=is_progress)


@pytest.mark.parametrize("is_progress", [False, True])
def test_rows_are_rejected_after_as_many_retries_of_them_alone(is_progress):
    """The first failure is no retry, and its micro-batch had other rows, too."""
    retries = WriteRetries()
    assert not retries.is_retry
    fail(retries, 3 if is_progress else 7, is_progress=is_progress)
    for _ in range(2):
        assert retries.is_retry
        assert retries.reason_to_reject(2) is None
        fail(retries)
    assert retries.reason_to_reject(2) == BUSY.diagnostic
    assert retries.reason_to_reject(3) is None
    assert retries.reason_to_reject(None) is None


def test_rows_that_were_rejected_make_room_for_the_next_ones():
    retries = WriteRetries()
    for _ in range(3):
        fail(retries)
    assert retries.reason_to_reject(2)
    fail(retries, is_progress=True)  # the rejected rows were committed, and others failed
    assert retries.reason_to_reject(1) is None
    fail(retries, 8)
    assert retries.reason_to_reject(1)


@pytest.mark.parametrize("place", [8, None])
def test_failures_at_other_places_do_not_count(place):
    retries = WriteRetries()
    for _ in range(9):
        fail(retries)
        if place is None:
            fail(retries, is_progress=True)
        else:
            fail(retries, place)
        assert retries.reason_to_reject(2) is None


def test_other_ends_neither_count_nor_forget():
    retries = WriteRetries()
    for _ in range(3):
        fail(retries)
        fail(retries, error=None)
        fail(retries, error=DataError("row.bad", "bad"))
        retries.record(BUSY, None, is_progress=False)
    assert retries.reason_to_reject(2)
    assert retries.reason_to_reject(3) is None
    fail(retries, error=None, is_progress=True)
    assert not retries.is_retry
    assert retries.reason_to_reject(1) is None
