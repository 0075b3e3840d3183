"""Retriable errors of a job are retried: a few times, or for the configured time."""

import asyncio
import math

import pytest

from penstock.connector_config.settings import RetryPolicy
from penstock.model.errors import DataError, InternalError, PenstockError, RetriableError
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.worker import job_retries
from penstock.worker.job_retries import MAX_TRIES, run_job, run_with_retries


class Work:
    """Fails some times."""

    def __init__(self, fails, error=RetriableError):
        self.fails, self.error, self.runs = fails, error, 0

    async def __call__(self):
        self.runs += 1
        if self.runs <= self.fails:
            raise self.error("x.y", "not yet")
        return "done"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(job_retries, "FIRST_DELAY_S", 0.001)


def run(work, retries):
    return asyncio.run(run_with_retries(work, "work", retries))


def test_a_job_is_retried_a_few_times_by_default():
    assert run(Work(MAX_TRIES - 1), RetryPolicy()) == "done"
    work = Work(MAX_TRIES)
    with pytest.raises(RetriableError):
        run(work, RetryPolicy())
    assert work.runs == MAX_TRIES


def test_a_job_is_retried_for_the_configured_time():
    assert run(Work(MAX_TRIES * 3), RetryPolicy(math.inf, 0.001)) == "done"
    work = Work(10**6)
    with pytest.raises(RetriableError):
        run(work, RetryPolicy(0.05, 0.01))
    assert work.runs > 3


def test_an_error_that_is_not_retriable_is_not_retried():
    work = Work(1, DataError)
    with pytest.raises(DataError):
        run(work, RetryPolicy(math.inf))
    assert work.runs == 1


@pytest.mark.parametrize(
    ("reports", "code"),
    [
        ([SlotReport(0, 0, 3)], "engine.no_report"),
        (
            [SlotReport(0, 0, 3), SlotReport(1, 0, 2, error=InternalError("a.b", "c").diagnostic)],
            "a.b",
        ),
    ],
)
def test_reports_must_account_for_every_slot(reports, code):
    """Invariant 5."""
    slots = (SlotTicket(0, 3, {}, {}), SlotTicket(1, 2, {}, {}))

    class Engine:
        async def run(self, plan, ticket, *, lag):
            return reports

    with pytest.raises(PenstockError) as caught:
        asyncio.run(run_job(Engine(), None, Ticket("t", 1, 1, slots), 0, RetryPolicy()))
    assert caught.value.code == code
