"""One micro-batch through the engine: read ends → chain → write ends, with bounded retries.

Plans are kept per schema and number of slots; a batch only brings a new ticket. A retried slot puts
under a new attempt, so a repetition never doubles rows: only the attempts that are returned here
are named in the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.model import faults
from penstock.model.errors import InternalError, error_of
from penstock.model.step import Step
from penstock.model.stream import BadRow, BatchReady, PutSlot, StreamSchema
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.worker.dead_letters.rejected_rows import SHOWN, Letters, SlotDone
from penstock.worker.job_retries import Retries, reported
from penstock.worker.ports import Announcer, Chain, Engine, Plan, ReadStream, WriteStream
from penstock.worker.task.batching import MicroBatch, by_schema, divide
from penstock.worker.task.live_rows import Looks, Plans, Sampled, Sampler


@dataclass(frozen=True, slots=True)
class Moved:
    """What a micro-batch became: the attempts that count, its rows, and the seconds of the slowest
    slot. `rows_failed` are in dead letters, or were skipped; `errors_logged` lines were written
    about them. `datasets` have rows read and rows written, by their names behind the chain.
    """

    slots: tuple[PutSlot, ...]
    rows_read: int
    rows_written: int
    seconds: float = 0.0
    rows_failed: int = 0
    rows_skipped: int = 0
    errors_logged: int = 0
    datasets: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Route:
    """One read schema's way through the task."""

    schema: StreamSchema
    dataset: str
    steps: tuple[Step, ...]
    write_id: int = 0
    plans: dict[int, Plan] = field(default_factory=dict)
    looks: Plans = field(default_factory=dict)


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
        letters: Letters,
        retries: Retries,
    ) -> None:
        """Take the ends of a run. `settle` waits until no commit is under way on the write end;
        `looks` are those at the task's rows; `drift` says what becomes of other columns, `letters`
        of bad rows; `retries` of errors that may pass.
        """
        self._engine, self._reader, self._writer = engine, reader, writer
        self._chain = chain
        self._task_id, self._epoch, self._stall = task_id, epoch, stall
        self._settle = settle
        self._looks = looks
        self._sampler = Sampler(
            engine, reader, looks, chain, task_id=task_id, epoch=epoch, stall=stall
        )
        self._drift, self._letters, self._retries = drift, letters, retries
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
            runs.append((plan, self._ticket(txn_id, first, route, parts)))
            first += len(parts)
        faults.hit("worker.batch_running")
        async with self._sampler.beside([_sampled(*job) for job in jobs], lag):
            done = await self._run(runs, lag)
        failed = await self._letters.take(txn_id, _slots(jobs, done), batch.bad, lag)
        reports = [report for of_job in done for report in of_job]
        moved = Moved(
            tuple(PutSlot(r.slot, r.attempt, r.rows_out, r.detail) for r in reports),
            rows_read=sum(r.rows_in for r in reports),
            rows_written=sum(r.rows_out for r in reports),
            seconds=max((r.seconds for r in reports), default=0.0),
            rows_failed=failed,
            rows_skipped=failed if self._letters.skips else 0,
            errors_logged=min(failed, SHOWN) if self._letters.logs else 0,
            datasets=_datasets(jobs, done),
        )
        self._looks.moved(moved.rows_read, moved.rows_written)
        for route, _ in jobs:
            self._chain.moved(route.schema.dataset, route.dataset)
        return moved

    def unread(self, row: BadRow) -> None:
        """Take note that a row could not be read; raises why, unless bad rows are tolerated."""
        if not self._letters.tolerant:
            raise error_of(row.reason)

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
        schema, numbered = route.schema.arrow, self._letters.tolerant
        return await asyncio.to_thread(
            self._engine.build, name, schema, route.steps, slots, numbered=numbered
        )

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

    async def _run(self, runs: Sequence[tuple[Plan, Ticket]], lag: float) -> list[list[SlotReport]]:
        """Run jobs side by side; the first error cancels the others."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(reported(self._engine, plan, ticket, lag, self._retries))
                for plan, ticket in runs
            ]
        return [task.result() for task in tasks]

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


def _sampled(route: _Route, parts: Sequence[Sequence[BatchReady]]) -> Sampled:
    batches = [batch for part in parts for batch in part]
    return Sampled(route.schema, route.dataset, route.steps, route.looks, batches)


def _slots(
    jobs: Sequence[tuple[_Route, Sequence[Sequence[BatchReady]]]],
    done: Sequence[Sequence[SlotReport]],
) -> Iterator[SlotDone]:
    """Yield the slots of a micro-batch in order, each with its report."""
    for (route, parts), reports in zip(jobs, done, strict=True):
        for part, report in zip(parts, reports, strict=True):
            yield route.schema, part, report


def _datasets(
    jobs: Sequence[tuple[_Route, Sequence[Sequence[BatchReady]]]],
    done: Sequence[Sequence[SlotReport]],
) -> dict[str, tuple[int, int]]:
    """Return the rows of each dataset, read and written. Several schemas may be of one."""
    found: dict[str, tuple[int, int]] = {}
    for (route, _), reports in zip(jobs, done, strict=True):
        read, written = found.get(route.dataset, (0, 0))
        read += sum(report.rows_in for report in reports)
        written += sum(report.rows_out for report in reports)
        found[route.dataset] = read, written
    return found
