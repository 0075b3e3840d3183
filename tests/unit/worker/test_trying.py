"""Errors that may pass are tried again: a few times, or for as long as was said."""

import asyncio
import math

import pytest

from penstock.model.errors import DataError, InternalError, PenstockError, RetriableError
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.worker import job_retries
from penstock.worker.job_retries import TRIES, Retries, reported, tried


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
    monkeypatch.setattr(job_retries, "FIRST_DELAY", 0.001)


def run(work, retries):
    return asyncio.run(tried(work, "work", retries))


def test_a_few_times_when_nothing_is_said():
    assert run(Work(TRIES - 1), Retries()) == "done"
    work = Work(TRIES)
    with pytest.raises(RetriableError):
        run(work, Retries())
    assert work.runs == TRIES


def test_for_as_long_as_was_said():
    assert run(Work(TRIES * 3), Retries(math.inf, 0.001)) == "done"
    work = Work(10**6)
    with pytest.raises(RetriableError):
        run(work, Retries(0.05, 0.01))
    assert work.runs > 3


def test_what_does_not_pass_is_not_tried_again():
    work = Work(1, DataError)
    with pytest.raises(DataError):
        run(work, Retries(math.inf))
    assert work.runs == 1


@pytest.mark.parametrize(
    ("reports", "code"),
    [
        ([SlotReport(0, 0, 3)], "engine.no_report"),
        ([SlotReport(0, 0, 3), SlotReport(1, 0, 1)], "engine.row_count"),
        (
            [SlotReport(0, 0, 3), SlotReport(1, 0, 2, error=InternalError("a.b", "c").diagnostic)],
            "a.b",
        ),
    ],
)
def test_reports_must_account_for_every_row(reports, code):
    """Invariant 5."""
    slots = (SlotTicket(0, 3, {}, {}), SlotTicket(1, 2, {}, {}))

    class Engine:
        async def run(self, plan, ticket, *, lag):
            return reports

    with pytest.raises(PenstockError) as caught:
        asyncio.run(reported(Engine(), None, Ticket("t", 1, 1, slots), 0, Retries()))
    assert caught.value.code == code
