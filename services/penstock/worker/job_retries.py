"""Runs the Spark job of a micro-batch, with a bounded number of retries after retriable errors."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from penstock.connector_config.settings import RetryPolicy
from penstock.model.backoff import Backoff
from penstock.model.errors import ErrorClass, InternalError, PenstockError, error_from_diagnostic
from penstock.model.ticket import SlotReport, Ticket
from penstock.rpc.traces import TRACEPARENT, trace_headers
from penstock.worker.ports import Engine, Plan

log = logging.getLogger(__name__)


MAX_TRIES: Final = 4
"""Tries of a micro-batch before its run ends: enough for a lost Python worker or executor, and few
enough that a job which kills its worker every time fails within seconds.
"""

FIRST_DELAY_S: Final = 0.2
"""Delay before the second try. It doubles."""

_T = TypeVar("_T")


async def run_with_retries(run: Callable[[], Awaitable[_T]], what: str, retries: RetryPolicy) -> _T:
    """Return the result of `run`, retried after retriable errors. `what` names the work in the log.

    Raises:
        PenstockError: an error that is not retriable, or that of the last try.
    """
    backoff, tries = Backoff(FIRST_DELAY_S, retries.max_delay_s), 0
    end = math.inf if retries.timeout_s is None else time.monotonic() + retries.timeout_s
    while True:
        tries += 1
        try:
            return await run()
        except PenstockError as error:
            too_late = time.monotonic() + backoff.delay_s >= end
            is_last = too_late if retries.timeout_s else tries == MAX_TRIES
            if is_last or error.diagnostic.error_class != ErrorClass.RETRIABLE:
                raise
            log.warning("retrying %s: %s", what, error)
        retries.on_retry()
        await asyncio.sleep(backoff.delay_s)
        backoff.advance()


async def run_job(
    engine: Engine, plan: Plan, ticket: Ticket, lag: float, retries: RetryPolicy
) -> list[SlotReport]:
    """Run the job of a ticket. Returns its reports in order of slot. The executors have counted the
    rows of each slot (invariant 5).

    Raises:
        PenstockError: `engine.no_report`, or the error of a slot.
    """
    ticket = replace(ticket, trace=trace_headers().get(TRACEPARENT, ""))

    run = partial(_run_once, engine, plan, ticket, lag)
    return await run_with_retries(run, f"micro-batch {ticket.txn_id}", retries)


async def _run_once(engine: Engine, plan: Plan, ticket: Ticket, lag: float) -> list[SlotReport]:
    return _check_reports(ticket, await engine.run(plan, ticket, lag=lag))


def _check_reports(ticket: Ticket, reports: Sequence[SlotReport]) -> list[SlotReport]:
    by_slot = {report.slot: report for report in reports}
    ordered = []
    for slot in ticket.slots:
        report = by_slot.get(slot.slot)
        if report is None:
            raise InternalError("engine.no_report", f"slot {slot.slot} ended without a report")
        if report.error is not None:
            raise error_from_diagnostic(report.error)
        ordered.append(report)
    return ordered
