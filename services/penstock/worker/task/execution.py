"""Runs one micro-batch through the engine: source readers → chain → sink writers, with bounded
retries.

Plans are kept per schema and number of slots; a micro-batch only brings a new ticket. A retried
slot writes under a new attempt, and the commit names only the attempts that are returned here, so a
retry never duplicates rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from penstock.connector_config.settings import RetryPolicy
from penstock.model import faults
from penstock.model.columns import TOPIC
from penstock.model.errors import (
    Diagnostic,
    InternalError,
    RetriableError,
    error_from_diagnostic,
)
from penstock.model.schema_drift import RejectAllKernel
from penstock.model.step import Step
from penstock.model.stream import BadRow, BatchReady, FailedRow, PutSlot, StreamSchema
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.spark.connector_io.routed_rows import Target, routed_spec
from penstock.spark.connector_io.sink_writer import reject_all_spec, reject_spec
from penstock.worker.dead_letters.rejected_rows import (
    MAX_LOGGED_ROWS,
    RejectedRowHandler,
    SlotOutcome,
)
from penstock.worker.job_retries import run_job
from penstock.worker.ports import (
    Chain,
    Engine,
    Plan,
    SchemaAnnouncer,
    SinkWriter,
    SourceReader,
)
from penstock.worker.task.live_rows import Inspections, SamplePlans, Sampler, SampleSource
from penstock.worker.task.micro_batches import (
    ExecutedBatch,
    MicroBatch,
    divide_into_slots,
    group_by_schema,
)

MAX_ANNOUNCEMENTS: Final = 3
"""Announcements of datasets that the rows of a micro-batch name. The first has all of them, unless
the chain names others when it is run again."""


@dataclass(frozen=True, slots=True)
class _Target:
    """A dataset at the sink: its schema id there, and the step that gives rows its columns."""

    write_id: int
    fit: Step | None


@dataclass(slots=True)
class _Route:
    """The way of one source schema through the task. `targets` are the datasets that the sink knows
    for it: `dataset`, or those that single rows name.
    """

    schema: StreamSchema
    dataset: str
    steps: tuple[Step, ...]
    targets: dict[str, _Target] = field(default_factory=dict)
    output_schema: pa.Schema | None = None
    plans: dict[int, Plan] = field(default_factory=dict)
    sample_plans: SamplePlans = field(default_factory=dict)

    @property
    def routes_rows(self) -> bool:
        """Whether single rows name their datasets."""
        return self.output_schema is not None and TOPIC in self.output_schema.names


@dataclass(frozen=True, slots=True)
class _MovedBatch:
    """A micro-batch whose rows are staged at the sink: its jobs, with the reports of each."""

    jobs: Sequence[tuple[_Route, Sequence[Sequence[BatchReady]]]]
    reports: Sequence[Sequence[SlotReport]]
    lag: float


class BatchExecutor:
    """Executes the micro-batches of one run of a task."""

    def __init__(
        self,
        engine: Engine,
        reader: SourceReader,
        writer: SinkWriter,
        chain: Chain,
        *,
        task_id: str,
        epoch: int,
        stall_timeout_s: float,
        wait_for_commits: Callable[[], Awaitable[None]],
        inspections: Inspections,
        schema_announcer: SchemaAnnouncer,
        rejected_rows: RejectedRowHandler,
        retries: RetryPolicy,
    ) -> None:
        """`wait_for_commits` returns when no commit is in progress at the sink. `inspections` are
        the live-row inspections of the task. `schema_announcer` handles rows whose columns differ
        from the sink's.
        """
        self._engine, self._reader, self._writer = engine, reader, writer
        self._chain = chain
        self._task_id, self._epoch, self._stall_timeout_s = task_id, epoch, stall_timeout_s
        self._wait_for_commits = wait_for_commits
        self._inspections = inspections
        self._sampler = Sampler(
            engine,
            reader,
            inspections,
            chain,
            task_id=task_id,
            epoch=epoch,
            stall_timeout_s=stall_timeout_s,
        )
        self._schema_announcer, self._rejected_rows = schema_announcer, rejected_rows
        self._retries = retries
        self._routes: dict[int, _Route] = {}
        self._write_ids = 0
        self._moved: dict[int, _MovedBatch] = {}

    def add_schema(self, schema: StreamSchema) -> None:
        """Register a schema version of the source, with its way through the chain."""
        compiled = self._chain.compile(schema.dataset, schema.arrow)
        self._routes[schema.schema_id] = _Route(schema, compiled.dataset, compiled.steps)

    async def execute(
        self, txn_id: int, batch: MicroBatch, lag: float, reject: Diagnostic | None = None
    ) -> ExecutedBatch:
        """Run a micro-batch into a transaction of the sink. `lag` is its age in seconds. With
        `reject`, all its rows are rejected for this reason, and none reaches the sink.

        Raises:
            PenstockError: a job failed for good, or a row was rejected that is not tolerated.
        """
        jobs: list[tuple[_Route, list[list[BatchReady]]]] = []
        for schema_id, batches in group_by_schema(batch.batches).items():
            route = self._route(schema_id)
            jobs.append((route, divide_into_slots(batches, self._engine.slots)))
        first, runs = 0, []
        for route, parts in jobs:
            plan = await self._plan(route, len(parts))
            runs.append((plan, self._ticket(txn_id, first, route, parts, reject)))
            first += len(parts)
        faults.hit("worker.batch_running")
        async with self._sampler.sample_during([_sample_source(*job) for job in jobs], lag):
            done = await self._run_jobs(runs, lag)
            for at, (route, parts) in enumerate(jobs):
                done[at] = await self._write_to_new_datasets(*runs[at], done[at], route, parts, lag)
        failed = await self._rejected_rows.handle(
            txn_id, _slot_outcomes(jobs, done), batch.unreadable, lag
        )
        self._moved[txn_id] = _MovedBatch(jobs, done, lag)
        reports = [report for of_job in done for report in of_job]
        put = () if reject else reports
        executed = ExecutedBatch(
            tuple(
                PutSlot(r.slot, r.attempt, r.rows_out, r.detail)
                for r in put
                if r.detail.get("datasets", True)  # without a row, nothing was put
            ),
            rows_read=sum(r.rows_in for r in reports),
            rows_written=sum(r.rows_out for r in reports),
            slowest_slot_s=max((r.seconds for r in reports), default=0.0),
            rows_failed=failed,
            rows_skipped=failed if self._rejected_rows.discards else 0,
            errors_logged=min(failed, MAX_LOGGED_ROWS) if self._rejected_rows.logs else 0,
            datasets=_count_datasets(jobs, done),
        )
        self._inspections.record_batch(executed.rows_read, executed.rows_written)
        for route, _ in jobs:
            for name in route.targets:
                self._chain.report_dataset(route.schema.dataset, name)
        return executed

    async def _write_to_new_datasets(
        self,
        plan: Plan,
        ticket: Ticket,
        reports: list[SlotReport],
        route: _Route,
        parts: Sequence[Sequence[BatchReady]],
        lag: float,
    ) -> list[SlotReport]:
        """Return the reports of a job. Where rows name datasets that the sink does not know, these
        are announced, and the job runs again.
        """
        for _ in range(MAX_ANNOUNCEMENTS):
            names = {name for report in reports for name in report.detail.get("new_datasets", ())}
            if not names:
                return reports
            for name in sorted(names):
                await self._announce(route, name)
            first = ticket.slots[0].slot
            ticket = self._ticket(ticket.txn_id, first, route, parts, None)
            reports = await run_job(self._engine, plan, ticket, lag, self._retries)
        raise RetriableError(
            "transform.not_repeatable",
            f"rows of {route.dataset} named other datasets each time that they were read",
            fix="Use names that depend on the row alone.",
            config_path="transforms",
        )

    def forget(self, txn_id: int) -> None:
        """Forget a micro-batch: the sink has prepared its rows."""
        self._moved.pop(txn_id, None)

    async def reject_failed(
        self, txn_id: int, executed: ExecutedBatch, failed: Sequence[FailedRow]
    ) -> ExecutedBatch:
        """Make dead letters of staged rows that the sink can never write. Returns the micro-batch
        without them.

        A job reads the slots of these rows again, to find out which rows of the source they are.

        Raises:
            PenstockError: the job failed, or the rows are not tolerated.
        """
        by_slot: dict[int, list[FailedRow]] = {}
        for row in sorted(failed, key=lambda row: row.row):
            by_slot.setdefault(row.slot, []).append(row)
        moved, datasets = self._moved[txn_id], dict(executed.datasets)
        outcomes: list[SlotOutcome] = []
        for (route, parts), reports in zip(moved.jobs, moved.reports, strict=True):
            slots = [one for one in zip(parts, reports, strict=True) if one[1].slot in by_slot]
            if slots:
                outcomes += await self._locate(txn_id, route, slots, by_slot, moved.lag)
                if not route.routes_rows:
                    read, written = datasets[route.dataset]
                    gone = sum(len(by_slot[report.slot]) for _, report in slots)
                    datasets[route.dataset] = read, written - gone
        count = await self._rejected_rows.handle_failed(
            txn_id, outcomes, executed.rows_failed, moved.lag
        )
        logged = min(executed.errors_logged + count, MAX_LOGGED_ROWS)
        return replace(
            executed,
            slots=tuple(_leave_out(slot, by_slot.get(slot.slot, ())) for slot in executed.slots),
            rows_written=executed.rows_written - count,
            rows_failed=executed.rows_failed + count,
            rows_skipped=executed.rows_skipped + count * self._rejected_rows.discards,
            errors_logged=logged if self._rejected_rows.logs else 0,
            datasets=datasets,
        )

    async def _locate(
        self,
        txn_id: int,
        route: _Route,
        slots: Sequence[tuple[Sequence[BatchReady], SlotReport]],
        failed: Mapping[int, Sequence[FailedRow]],
        lag: float,
    ) -> list[SlotOutcome]:
        """Return the outcome of slots with the rows of the source that failed."""
        tickets = tuple(
            SlotTicket(
                report.slot,
                sum(batch.rows for batch in part),
                self._reader.ticket([b.seq for b in part], route.schema.schema_id),
                reject_spec(
                    [(row.row, row.reason) for row in failed[report.slot]],
                    report.rows_out + len(report.rejected),
                ),
            )
            for part, report in slots
        )
        plan = await self._plan(route, len(slots))
        ticket = Ticket(self._task_id, self._epoch, txn_id, tickets, self._stall_timeout_s)
        found = await run_job(self._engine, plan, ticket, lag, self._retries)
        return [
            (route.schema, part, replace(report, rejected_by_chain=()))
            for (part, _), report in zip(slots, found, strict=True)
        ]

    def check_unreadable_row(self, row: BadRow) -> None:
        """Raise the error of a row that the source could not read, unless rejected rows are
        tolerated.
        """
        if not self._rejected_rows.is_tolerant:
            raise error_from_diagnostic(row.reason)

    def _route(self, schema_id: int) -> _Route:
        route = self._routes.get(schema_id)
        if route is None:
            raise InternalError(
                "plugin.protocol.unknown_schema",
                f"a batch names schema {schema_id}, which was never sent",
                fix="Report it to the author of the source.",
            )
        return route

    async def _plan(self, route: _Route, slots: int) -> Plan:
        plan = route.plans.get(slots)
        if plan is None:
            plan = await self._build_plan(route, slots)
        if not route.routes_rows and not route.targets:
            target = await self._announce(route, route.dataset)
            if target.fit is not None:
                route.steps = (*route.steps, target.fit)
                plan = await self._build_plan(route, slots)
        route.plans[slots] = plan
        return plan

    async def _build_plan(self, route: _Route, slots: int) -> Plan:
        name = f"{self._task_id}#{route.schema.schema_id}"
        schema, number_rows = route.schema.arrow, self._rejected_rows.is_tolerant
        plan = await asyncio.to_thread(
            self._engine.build, name, schema, route.steps, slots, number_rows=number_rows
        )
        route.output_schema = plan.output_schema
        return plan

    async def _announce(self, route: _Route, dataset: str) -> _Target:
        """Announce the rows of a route to the sink, as those of a dataset."""
        # a schema takes effect in stream order (rule R15): first commit all rows of older ones
        await self._wait_for_commits()
        self._write_ids += 1
        write_id, rows = self._write_ids, _written_columns(route)

        async def apply(schema: pa.Schema) -> None:
            keys = tuple(name for name in route.schema.key_columns if name in schema.names)
            await self._writer.apply_schema(StreamSchema(write_id, dataset, schema, keys))

        fit = await self._schema_announcer.announce(dataset, rows, apply)
        if route.routes_rows and fit is not None and isinstance(fit.kernel, RejectAllKernel):
            raise error_from_diagnostic(fit.kernel.reason)  # such rows fail the task
        target = route.targets[dataset] = _Target(write_id, fit)
        return target

    async def _run_jobs(
        self, runs: Sequence[tuple[Plan, Ticket]], lag: float
    ) -> list[list[SlotReport]]:
        """Run jobs concurrently. The first error cancels the others."""
        if len(runs) == 1:
            ((plan, ticket),) = runs
            return [await run_job(self._engine, plan, ticket, lag, self._retries)]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(run_job(self._engine, plan, ticket, lag, self._retries))
                for plan, ticket in runs
            ]
        return [task.result() for task in tasks]

    def _ticket(
        self,
        txn_id: int,
        first: int,
        route: _Route,
        parts: Sequence[Sequence[BatchReady]],
        reject: Diagnostic | None,
    ) -> Ticket:
        slots = tuple(
            SlotTicket(
                slot,
                sum(batch.rows for batch in part),
                self._reader.ticket([b.seq for b in part], route.schema.schema_id),
                reject_all_spec(reject) if reject else self._write_spec(txn_id, slot, route),
            )
            for slot, part in enumerate(parts, first)
        )
        return Ticket(self._task_id, self._epoch, txn_id, slots, self._stall_timeout_s)

    def _write_spec(self, txn_id: int, slot: int, route: _Route) -> dict[str, Any]:
        if not route.routes_rows:
            return self._writer.ticket(txn_id, slot, route.targets[route.dataset].write_id)
        targets = {
            name: Target(
                self._writer.ticket(txn_id, slot, target.write_id),
                target.fit.kernel if target.fit is not None else None,
            )
            for name, target in route.targets.items()
        }
        return routed_spec(targets, route.dataset)


def _leave_out(slot: PutSlot, failed: Sequence[FailedRow]) -> PutSlot:
    return replace(slot, left_out=(*slot.left_out, *(row.row for row in failed)))


def _sample_source(route: _Route, parts: Sequence[Sequence[BatchReady]]) -> SampleSource:
    batches = [batch for part in parts for batch in part]
    return SampleSource(route.schema, route.dataset, route.steps, route.sample_plans, batches)


def _slot_outcomes(
    jobs: Sequence[tuple[_Route, Sequence[Sequence[BatchReady]]]],
    done: Sequence[Sequence[SlotReport]],
) -> Iterator[SlotOutcome]:
    """Yield the slots of a micro-batch in order, each with its report."""
    for (route, parts), reports in zip(jobs, done, strict=True):
        for part, report in zip(parts, reports, strict=True):
            yield route.schema, part, report


def _count_datasets(
    jobs: Sequence[tuple[_Route, Sequence[Sequence[BatchReady]]]],
    done: Sequence[Sequence[SlotReport]],
) -> dict[str, tuple[int, int]]:
    """Return rows read and rows written by dataset. Several schemas may share a dataset. Of rows
    that name their datasets, those that the chain leaves count as read.
    """
    found: dict[str, tuple[int, int]] = {}

    def count(dataset: str, read: int, written: int) -> None:
        before = found.get(dataset, (0, 0))
        found[dataset] = before[0] + read, before[1] + written

    for (route, _), reports in zip(jobs, done, strict=True):
        for report in reports:
            if not route.routes_rows:
                count(route.dataset, report.rows_in, report.rows_out)
            for name, rows in report.detail.get("datasets", {}).items():
                count(name, rows, rows)
    return found


def _written_columns(route: _Route) -> pa.Schema:
    schema = route.output_schema
    if schema is None:
        raise AssertionError("a dataset is announced after its plan was built")
    at = schema.get_field_index(TOPIC)
    return schema if at < 0 else schema.remove(at)
