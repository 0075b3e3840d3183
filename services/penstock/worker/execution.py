"""One micro-batch through the engine: read ends → chain → write ends, with bounded retries.

Plans are kept per schema and number of slots; a batch only brings a new ticket. A retried slot puts
under a new attempt, so a repetition never doubles rows: only the attempts that are returned here
are named in the commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from penstock.model import faults
from penstock.model.errors import (
    DataError,
    ErrorClass,
    InternalError,
    PenstockError,
    error_of,
)
from penstock.model.looks import RowStage
from penstock.model.step import Step
from penstock.model.stream import BatchReady, PutSlot, StreamSchema
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.worker.batching import MicroBatch
from penstock.worker.looking import Looks
from penstock.worker.ports import Announcer, Engine, Plan, ReadStream, WriteStream
from penstock.worker.sampling import Sampled, Sampler
from penstock.worker.slots import by_schema, divide

log = logging.getLogger(__name__)

TRIES = 4
"""Times a micro-batch is tried before the run of the task ends: enough for a lost Python worker or
executor, and little enough that a job which kills its worker every time is seen within seconds."""

FIRST_DELAY = 0.2
"""Seconds before the second try; doubles."""


class Compiled(Protocol):
    """What a chain becomes for one dataset and schema."""

    @property
    def dataset(self) -> str:
        """Dataset after routing."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps in order."""


class Chain(Protocol):
    """The transform chain of a connector."""

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        """Fit the chain to a dataset; raises ConfigError when it cannot be."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What a micro-batch became: the attempts that count, its rows, and the seconds of the slowest
    slot.
    """

    slots: tuple[PutSlot, ...]
    rows_read: int
    rows_written: int
    seconds: float = 0.0


@dataclass(slots=True)
class _Route:
    """One read schema's way through the task."""

    schema: StreamSchema
    dataset: str
    steps: tuple[Step, ...]
    write_id: int = 0
    plans: dict[int, Plan] = field(default_factory=dict)
    looks: dict[RowStage, Plan] = field(default_factory=dict)


class Execution:
    """Moves the micro-batches of one run of a task."""

    def __init__(
        self,
        engine: Engine,
        reader: ReadStream,
        writer: WriteStream,
        chain: Chain,
        *,
        task_id: str,
        epoch: int,
        stall: float,
        settle: Callable[[], Awaitable[None]],
        looks: Looks,
        drift: Announcer,
    ) -> None:
        """Take the ends of a run. `settle` waits until no commit is under way on the write end;
        `looks` are those at the task's rows; `drift` says what becomes of other columns.
        """
        self._engine, self._reader, self._writer = engine, reader, writer
        self._chain = chain
        self._task_id, self._epoch, self._stall = task_id, epoch, stall
        self._settle = settle
        self._looks = looks
        self._sampler = Sampler(engine, reader, looks, task_id=task_id, epoch=epoch, stall=stall)
        self._drift = drift
        self._routes: dict[int, _Route] = {}

    def schema_seen(self, schema: StreamSchema) -> None:
        """Take note of a schema version of the read end."""
        compiled = self._chain.compile(schema.dataset, schema.arrow)
        self._routes[schema.schema_id] = _Route(schema, compiled.dataset, compiled.steps)

    async def move(self, txn_id: int, batch: MicroBatch, lag: float) -> Moved:
        """Run a micro-batch into a transaction of the write end, and return the attempts that
        count.
        """
        jobs: list[tuple[_Route, list[list[BatchReady]]]] = []
        for schema_id, batches in by_schema(batch.batches).items():
            route = self._route(schema_id)
            jobs.append((route, divide(batches, self._engine.slots)))
        first, runs = 0, []
        for route, parts in jobs:
            plan = await self._plan(route, len(parts))
            runs.append(self._run_job(plan, self._ticket(txn_id, first, route, parts), parts, lag))
            first += len(parts)
        faults.hit("worker.batch_running")
        async with self._sampler.beside([_sampled(*job) for job in jobs], lag):
            reports = [report for done in await _all(runs) for report in done]
        moved = Moved(
            tuple(PutSlot(r.slot, r.attempt, r.rows_out, r.detail) for r in reports),
            rows_read=sum(r.rows_in for r in reports),
            rows_written=sum(r.rows_out for r in reports),
            seconds=max(r.seconds for r in reports),
        )
        self._looks.moved(moved.rows_read, moved.rows_written)
        return moved

    def _route(self, schema_id: int) -> _Route:
        route = self._routes.get(schema_id)
        if route is None:
            raise InternalError(
                "plugin.protocol.unknown_schema",
                f"a batch names schema {schema_id}, which was never sent",
                fix="Report this to the author of the source.",
            )
        return route

    async def _plan(self, route: _Route, slots: int) -> Plan:
        plan = route.plans.get(slots)
        if plan is None:
            plan = await self._build(route, slots)
        if not route.write_id and (step := await self._announce(route, plan.output_schema)):
            route.steps = (*route.steps, step)
            plan = await self._build(route, slots)
        route.plans[slots] = plan
        return plan

    async def _build(self, route: _Route, slots: int) -> Plan:
        name = f"{self._task_id}#{route.schema.schema_id}"
        schema = route.schema.arrow
        return await asyncio.to_thread(self._engine.build, name, schema, route.steps, slots)

    async def _announce(self, route: _Route, rows: pa.Schema) -> Step | None:
        """Announce rows to the write end; returns the step that fits them to what it has."""
        # a schema takes effect in stream order (rule R15): nothing of an older one may still be
        # committing
        await self._settle()
        write_id = 1 + sum(1 for other in self._routes.values() if other.write_id)

        async def apply(schema: pa.Schema) -> None:
            keys = tuple(name for name in route.schema.key_columns if name in schema.names)
            await self._writer.apply_schema(StreamSchema(write_id, route.dataset, schema, keys))

        step = await self._drift.announce(route.dataset, rows, apply)
        route.write_id = write_id
        return step

    def _ticket(
        self, txn_id: int, first: int, route: _Route, parts: Sequence[Sequence[BatchReady]]
    ) -> Ticket:
        slots = tuple(
            SlotTicket(
                slot,
                sum(batch.rows for batch in part),
                self._reader.ticket([b.seq for b in part], route.schema.schema_id),
                self._writer.ticket(txn_id, slot, route.write_id),
            )
            for slot, part in enumerate(parts, first)
        )
        return Ticket(self._task_id, self._epoch, txn_id, slots, self._stall)

    async def _run_job(
        self, plan: Plan, ticket: Ticket, parts: Sequence[Sequence[BatchReady]], lag: float
    ) -> list[SlotReport]:
        delay = FIRST_DELAY
        for last in [False] * (TRIES - 1) + [True]:
            try:
                reports = await self._engine.run(plan, ticket, lag=lag)
                return _checked(ticket, parts, reports)
            except PenstockError as error:
                if last or error.diagnostic.error_class != ErrorClass.RETRIABLE:
                    raise
                log.warning("micro-batch %d is tried again: %s", ticket.txn_id, error)
            await asyncio.sleep(delay)
            delay *= 2
        raise AssertionError("unreachable")


def _sampled(route: _Route, parts: Sequence[Sequence[BatchReady]]) -> Sampled:
    batches = [batch for part in parts for batch in part]
    return Sampled(route.schema, route.dataset, route.steps, route.looks, batches)


async def _all(runs: Sequence[Awaitable[list[SlotReport]]]) -> list[list[SlotReport]]:
    """Await several jobs; the first error cancels the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_as_coroutine(run)) for run in runs]
    return [task.result() for task in tasks]


async def _as_coroutine(run: Awaitable[list[SlotReport]]) -> list[SlotReport]:
    return await run


def _checked(
    ticket: Ticket, parts: Sequence[Sequence[BatchReady]], reports: Sequence[SlotReport]
) -> list[SlotReport]:
    """Return the reports in order of slot, if they account for every row (invariant 5)."""
    by_slot = {report.slot: report for report in reports}
    ordered = []
    for slot, part in zip(ticket.slots, parts, strict=True):
        report = by_slot.get(slot.slot)
        if report is None:
            raise InternalError("engine.no_report", f"slot {slot.slot} ended without a report")
        if report.error is not None:
            raise error_of(report.error)
        if report.set_apart:
            raise _set_apart(report)
        if report.rejected:
            raise _refused(report)
        announced = sum(batch.rows for batch in part)
        if report.rows_in != announced:
            raise InternalError(
                "engine.row_count",
                f"slot {slot.slot} fetched {report.rows_in} rows of {announced} announced",
            )
        ordered.append(report)
    return ordered


def _set_apart(report: SlotReport) -> DataError:
    row, reason = report.set_apart[0]
    return DataError(
        reason.code,
        f"{len(report.set_apart)} row(s) cannot be transformed, first row {row}: {reason.message}",
        fix=reason.fix,
        config_path=reason.config_path,
        detail=reason.detail,
        dataset=reason.dataset,
    )


def _refused(report: SlotReport) -> DataError:
    row, reason = report.rejected[0]
    return DataError(
        reason.code or "sink.row_refused",
        f"the sink refused {len(report.rejected)} row(s), first row {row}: {reason.message}",
        fix=reason.fix or "Correct the row at the source, or filter it with a transform.",
        detail=reason.detail,
        dataset=reason.dataset,
    )
