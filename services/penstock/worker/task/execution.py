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

import pyarrow as pa

from penstock.connector_config.settings import RetryPolicy
from penstock.model import faults
from penstock.model.drift_policy import DriftPolicy, DriftRules
from penstock.model.errors import Diagnostic, InternalError, SchemaError, error_from_diagnostic
from penstock.model.schema_drift import RejectAllKernel, list_schema_requests, make_fit_kernel
from penstock.model.step import Step
from penstock.model.stream import BadRow, BatchReady, FailedRow, PutSlot, StreamSchema
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.spark.connector_io.sink_writer import reject_all_spec, reject_spec
from penstock.worker.dead_letters.rejected_rows import (
    MAX_LOGGED_ROWS,
    RejectedRowHandler,
    SlotOutcome,
)
from penstock.worker.job_retries import run_job
from penstock.worker.ports import (
    ApplySchema,
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


@dataclass(slots=True)
class _Route:
    """The way of one source schema through the task. `write_id` is its schema id at the sink, 0
    until the sink knows it.
    """

    schema: StreamSchema
    dataset: str
    steps: tuple[Step, ...]
    write_id: int = 0
    plans: dict[int, Plan] = field(default_factory=dict)
    sample_plans: SamplePlans = field(default_factory=dict)


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
        failed = await self._rejected_rows.handle(
            txn_id, _slot_outcomes(jobs, done), batch.unreadable, lag
        )
        self._moved[txn_id] = _MovedBatch(jobs, done, lag)
        reports = [report for of_job in done for report in of_job]
        put = () if reject else reports
        executed = ExecutedBatch(
            tuple(PutSlot(r.slot, r.attempt, r.rows_out, r.detail) for r in put),
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
            self._chain.report_dataset(route.schema.dataset, route.dataset)
        return executed

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
        if not route.write_id and (step := await self._announce(route, plan.output_schema)):
            route.steps = (*route.steps, step)
            plan = await self._build_plan(route, slots)
        route.plans[slots] = plan
        return plan

    async def _build_plan(self, route: _Route, slots: int) -> Plan:
        name = f"{self._task_id}#{route.schema.schema_id}"
        schema, number_rows = route.schema.arrow, self._rejected_rows.is_tolerant
        return await asyncio.to_thread(
            self._engine.build, name, schema, route.steps, slots, number_rows=number_rows
        )

    async def _announce(self, route: _Route, rows: pa.Schema) -> Step | None:
        """Announce rows to the sink. Returns the step that converts them to its columns, None for
        none.
        """
        # a schema takes effect in stream order (rule R15): first commit all rows of older ones
        await self._wait_for_commits()
        write_id = 1 + sum(1 for other in self._routes.values() if other.write_id)

        async def apply(schema: pa.Schema) -> None:
            keys = tuple(name for name in route.schema.key_columns if name in schema.names)
            await self._writer.apply_schema(StreamSchema(write_id, route.dataset, schema, keys))

        step = await self._schema_announcer.announce(route.dataset, rows, apply)
        route.write_id = write_id
        return step

    async def _run_jobs(
        self, runs: Sequence[tuple[Plan, Ticket]], lag: float
    ) -> list[list[SlotReport]]:
        """Run jobs concurrently. The first error cancels the others."""
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
                reject_all_spec(reject)
                if reject
                else self._writer.ticket(txn_id, slot, route.write_id),
            )
            for slot, part in enumerate(parts, first)
        )
        return Ticket(self._task_id, self._epoch, txn_id, slots, self._stall_timeout_s)


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
    """Return rows read and rows written by dataset. Several schemas may share a dataset."""
    found: dict[str, tuple[int, int]] = {}
    for (route, _), reports in zip(jobs, done, strict=True):
        read, written = found.get(route.dataset, (0, 0))
        read += sum(report.rows_in for report in reports)
        written += sum(report.rows_out for report in reports)
        found[route.dataset] = read, written
    return found


class DriftHandler:
    """Applies the schema-evolution policy to the datasets of one run; see
    `ports.SchemaAnnouncer`.
    """

    def __init__(self, rules: DriftRules, writer: SinkWriter) -> None:
        self._rules, self._writer = rules, writer
        self._announced: dict[str, pa.Schema] = {}

    async def announce(self, dataset: str, rows: pa.Schema, apply: ApplySchema) -> Step | None:
        """Announce rows of a dataset to the sink. Returns the step that converts them to the
        columns that the sink accepted, None when they need no change.

        Raises:
            SchemaError: the policy or the sink refuses the rows.
        """
        place = await self._known_columns(dataset)
        if place is None or self._rules.requests_all_changes:
            agreed = rows
            await apply(rows)
        else:
            try:
                schemas = list_schema_requests(place, rows, self._rules, dataset)
            except SchemaError as error:
                if self._rules.policy is not DriftPolicy.DEAD_LETTER:
                    raise
                return await self._reject_all(dataset, place, error, apply)
            agreed = await _apply_first_accepted(schemas, apply)
        self._announced[dataset] = _merge_columns(place, agreed)
        kernel = make_fit_kernel(rows, agreed, dataset)
        return None if kernel is None else Step(kernel=kernel)

    async def _reject_all(
        self, dataset: str, place: pa.Schema, error: SchemaError, apply: ApplySchema
    ) -> Step:
        await apply(place)  # the sink has to know the schema although it gets no rows of it
        self._announced[dataset] = place
        return Step(kernel=RejectAllKernel(place, error.diagnostic))

    async def _known_columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a dataset at the sink; None when it does not exist or is
        not known.
        """
        if self._rules.requests_all_changes:
            return None
        there = await self._writer.columns(dataset)
        return self._announced.get(dataset) if there is None else there


async def _apply_first_accepted(schemas: tuple[pa.Schema, ...], apply: ApplySchema) -> pa.Schema:
    *others, last = schemas
    for schema in others:
        try:
            await apply(schema)
        except SchemaError:
            continue
        return schema
    await apply(last)
    return last


def _merge_columns(place: pa.Schema | None, agreed: pa.Schema) -> pa.Schema:
    """Return the columns at the sink after a change. A change never removes a column."""
    if place is None:
        return agreed
    gone = [field for field in place if agreed.get_field_index(field.name) < 0]
    return pa.schema([*agreed, *gone])
