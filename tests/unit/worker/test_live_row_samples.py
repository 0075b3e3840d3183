"""A sample is one more job beside a micro-batch: it can neither change nor fail it."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from penstock.connector_config.dead_letters import RejectedRowRules
from penstock.connector_config.settings import RetryPolicy
from penstock.model.drift_policy import DriftRules
from penstock.model.errors import ErrorClass, InternalError, RetriableError
from penstock.model.inspection import InspectRules, RowStage
from penstock.model.step import Step
from penstock.model.stream import BatchReady, StreamSchema
from penstock.model.ticket import SlotReport, Ticket
from penstock.worker.dead_letters.rejected_rows import RejectedRowHandler
from penstock.worker.task import live_rows
from penstock.worker.task.drift_handler import DriftHandler
from penstock.worker.task.execution import BatchExecutor
from penstock.worker.task.live_rows import Inspections
from penstock.worker.task.micro_batches import MicroBatch

ARROW = pa.schema([("id", pa.int64())])
STEP = Step(where="id > 1")
BATCHES = (BatchReady(1, 1, "p", 30, 300), BatchReady(2, 1, "q", 10, 100))
MICRO_BATCH = MicroBatch(BATCHES, {}, 1, 2, 0.0)


class Compiled:
    """A chain that routes elsewhere."""

    dataset, steps = "there", (STEP,)


class Begun:
    """The beginning of a chain."""

    dataset, steps = "halfway", ()

    def compile(self, dataset: str, schema: pa.Schema) -> Begun:
        assert (dataset, schema) == ("here", ARROW)
        return self


class Plan:
    output_schema = ARROW

    def __init__(self, name: str, steps: Any, slots: int) -> None:
        self.name, self.steps, self.slots = name, tuple(steps), slots


class Bench:
    """An executor whose engine, source, sink and chain record their calls."""

    slots = 2

    def __init__(self) -> None:
        self.inspections = Inspections()
        self.jobs: list[tuple[Plan, Ticket]] = []
        self.plans: list[Plan] = []
        self.sample_error: Exception | None = None
        self.sample_hangs = False
        self.cancelled = False
        self.executor = BatchExecutor(
            self,
            self,
            self,
            self,
            task_id="g-0",
            epoch=7,
            stall_timeout_s=60,
            wait_for_commits=self.settle,
            inspections=self.inspections,
            schema_announcer=DriftHandler(DriftRules(), self),
            rejected_rows=RejectedRowHandler(RejectedRowRules()),
            retries=RetryPolicy(),
        )
        self.executor.add_schema(StreamSchema(1, "here", ARROW))

    async def settle(self) -> None:
        """Nothing is committed."""

    def report_dataset(self, before: str, after: str) -> None:
        """Do nothing."""

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        return Compiled()

    def until(self, transform: str) -> Begun:
        assert transform == "keep"
        return Begun()

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Take it."""

    def ticket(self, *what: Any) -> dict[str, Any]:
        return {"kind": "test", "what": what}

    def build(
        self, name: str, schema: pa.Schema, steps: Any, slots: int, *, number_rows: bool = False
    ) -> Plan:
        assert not number_rows
        self.plans.append(Plan(name, steps, slots))
        return self.plans[-1]

    async def run(self, plan: Plan, ticket: Ticket, *, lag: float) -> list[SlotReport]:
        self.jobs.append((plan, ticket))
        if ticket.slots[0].write["kind"] != "live_rows":
            return [SlotReport(s.slot, 1, s.rows, s.rows - 1) for s in ticket.slots]
        if self.sample_hangs:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled = True
        if self.sample_error is not None:
            raise self.sample_error
        shown = [["{}", False, str(n), 5] for n in range(ticket.slots[0].write["rows"])]
        return [SlotReport(0, 1, 10, 10, detail={"rows": shown})]

    def cancel(self, task_id: str) -> None:
        """Nothing."""

    def move(self):
        """Execute a micro-batch and return its outcome."""
        return asyncio.run(self.executor.execute(1, MICRO_BATCH, 0.5))

    def samples(self) -> list[tuple[Plan, Ticket]]:
        return [job for job in self.jobs if job[1].slots[0].write["kind"] == "live_rows"]


def test_without_an_inspection_there_is_no_extra_job_and_no_extra_plan():
    bench = Bench()
    moved = bench.move()
    assert (moved.rows_read, len(bench.jobs), len(bench.plans)) == (40, 1, 1)


def test_a_sample_is_of_one_partition_in_turn_and_counts_what_passed():
    bench = Bench()
    with bench.inspections.open(InspectRules(RowStage.READ, rows=3, row_bytes=9)) as inspection:
        moved = bench.move()
        ((plan, ticket),) = bench.samples()
        assert moved.rows_read == 40
        assert (plan.steps, plan.slots, ticket.task_id) == ((), 1, "g-0#look")
        (slot,) = ticket.slots
        assert slot.read["what"] == ([2], 1)
        assert (slot.rows, slot.write) == (10, {"kind": "live_rows", "rows": 3, "row_bytes": 9})
        word = first(inspection)
        assert [(r.topic, r.partition, r.offset, r.ts_us) for r in word.rows] == [
            ("here", "q", "0", 5), ("here", "q", "1", 5), ("here", "q", "2", 5),
        ]  # fmt: skip
        assert word.missed == 37


def test_a_sample_after_the_chain_runs_its_steps_and_its_plan_is_cached(monkeypatch):
    bench = Bench()
    monkeypatch.setattr("penstock.worker.task.live_rows.SAMPLE_INTERVAL_S", 0.0)
    with bench.inspections.open(InspectRules(RowStage.TRANSFORMED)) as inspection:
        bench.move()
        bench.move()
        assert [plan.steps for plan, _ in bench.samples()] == [(STEP,)] * 2
        assert len(bench.plans) == 2  # one moves rows, one shows them
        assert first(inspection).rows[0].topic == "there"


def test_a_sample_after_a_transform_runs_the_steps_up_to_it_and_its_plan_is_cached(monkeypatch):
    bench = Bench()
    monkeypatch.setattr("penstock.worker.task.live_rows.SAMPLE_INTERVAL_S", 0.0)
    with bench.inspections.open(InspectRules("keep")) as inspection:
        bench.move()
        bench.move()
        assert [plan.steps for plan, _ in bench.samples()] == [()] * 2
        assert len(bench.plans) == 2
        assert first(inspection).rows[0].topic == "halfway"


def test_only_as_many_batches_as_needed_are_fetched_again():
    batches = [BatchReady(seq, 1, "pq"[seq % 2], 10, 100) for seq in range(6)]
    assert [one.seq for one in live_rows.choose_batches(batches, 15, 0)] == [0, 2]
    assert [one.seq for one in live_rows.choose_batches(batches, 10, 1)] == [1]
    assert [one.seq for one in live_rows.choose_batches(batches, 100, 1)] == [1, 3, 5]


@pytest.mark.parametrize(
    "error", [RetriableError("engine.job_failed", "no"), InternalError("engine.row_count", "no")]
)
def test_a_failed_sample_does_not_fail_the_task(error):
    """The twin of invariant 8: an inspection affects only its user."""
    bench = Bench()
    bench.sample_error = error
    with bench.inspections.open(InspectRules(RowStage.READ)) as inspection:
        assert bench.move().rows_read == 40
        assert inspection._missed == 40
    assert error.diagnostic.error_class in {ErrorClass.RETRIABLE, ErrorClass.INTERNAL}


def test_a_sample_that_hangs_is_cancelled(monkeypatch):
    monkeypatch.setattr(live_rows, "SAMPLE_TIMEOUT_S", 0.05)
    bench = Bench()
    bench.sample_hangs = True
    with bench.inspections.open(InspectRules(RowStage.READ)):
        assert bench.move().rows_read == 40
    assert bench.cancelled


def first(inspection):
    async def main():
        return await anext(inspection.read())

    return asyncio.run(main())
