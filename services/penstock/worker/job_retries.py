"""A job of a micro-batch, tried again after retriable errors: a bounded number of times, or for as
long as a person said.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from penstock.model.errors import ErrorClass, InternalError, PenstockError, error_of
from penstock.model.ticket import SlotReport, Ticket
from penstock.rpc.tracing import PARENT, carried
from penstock.worker.ports import Engine, Plan

log = logging.getLogger(__name__)


TRIES: Final = 4
"""Times a micro-batch is tried before the run of the task ends: enough for a lost Python worker or
executor, and little enough that a job which kills its worker every time is seen within seconds."""

FIRST_DELAY: Final = 0.2
"""Seconds before the second try; doubles."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Retries:
    """`within`: seconds in which it is tried again (`errors.retry.timeout`), None for `TRIES`
    times. `longest`: most seconds between two tries. `again` is called before each but the first.
    """

    within: float | None = None
    longest: float = 60.0
    again: Callable[[], None] = lambda: None


DEFAULT: Final = Retries()


async def tried(run: Callable[[], Awaitable[_T]], what: str, retries: Retries) -> _T:
    """Return what `run` returns, the first time that it does not raise a retriable error.

    Raises:
        PenstockError: an error that is not retriable, or the last one.
    """
    delay, tries = FIRST_DELAY, 0
    end = math.inf if retries.within is None else time.monotonic() + retries.within
    while True:
        tries += 1
        try:
            return await run()
        except PenstockError as error:
            last = time.monotonic() + delay >= end if retries.within else tries == TRIES
            if last or error.diagnostic.error_class != ErrorClass.RETRIABLE:
                raise
            log.warning("%s is tried again: %s", what, error)
        retries.again()
        await asyncio.sleep(delay)
        delay = min(delay * 2, retries.longest)


async def reported(
    engine: Engine, plan: Plan, ticket: Ticket, lag: float, retries: Retries
) -> list[SlotReport]:
    """Run the job of a ticket; returns the reports in order of slot, if they account for every row
    (invariant 5).

    Raises:
        PenstockError: `engine.no_report`, `engine.row_count`, or what went wrong in a slot.
    """
    ticket = replace(ticket, trace=carried().get(PARENT, ""))

    async def run() -> list[SlotReport]:
        return _checked(ticket, await engine.run(plan, ticket, lag=lag))

    return await tried(run, f"micro-batch {ticket.txn_id}", retries)


def _checked(ticket: Ticket, reports: Sequence[SlotReport]) -> list[SlotReport]:
    by_slot = {report.slot: report for report in reports}
    ordered = []
    for slot in ticket.slots:
        report = by_slot.get(slot.slot)
        if report is None:
            raise InternalError("engine.no_report", f"slot {slot.slot} ended without a report")
        if report.error is not None:
            raise error_of(report.error)
        if report.rows_in != slot.rows:
            raise InternalError(
                "engine.row_count",
                f"slot {slot.slot} fetched {report.rows_in} rows of {slot.rows} announced",
            )
        ordered.append(report)
    return ordered
