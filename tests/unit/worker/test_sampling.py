"""A sample is one more job beside a micro-batch: it can neither change nor fail it."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from penstock.model.errors import ErrorClass, InternalError, RetriableError
from penstock.model.live_rows import LookRules, RowStage
from penstock.model.schema_drift import DriftRules
from penstock.model.step import Step
from penstock.model.stream import BatchReady, StreamSchema
from penstock.model.ticket import SlotReport, Ticket
from penstock.worker.dead_letters.rejected_rows import LetterRules, Letters
from penstock.worker.job_retries import Retries
from penstock.worker.task import live_rows
from penstock.worker.task.batching import MicroBatch
from penstock.worker.task.execution import Execution
from penstock.worker.task.live_rows import Looks
from penstock.worker.task.schema_drift import Drift

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
    """An execution whose engine, ends and chain only note what they are asked."""

    slots = 2

    def __init__(self) -> None:
        self.looks = Looks()
        self.jobs: list[tuple[Plan, Ticket]] = []
        self.plans: list[Plan] = []
        self.sample_error: Exception | None = None
        self.sample_hangs = False
        self.cancelled = False
        self.execution = Execution(
            self, self, self, self,
            task_id="g-0", epoch=7, stall=60, settle=self.settle, looks=self.looks,
            drift=Drift(DriftRules(), self), letters=Letters(LetterRules()), retries=Retries(),
        )  # fmt: skip
        self.execution.schema_seen(StreamSchema(1, "here", ARROW))

    async def settle(self) -> None:
        """Nothing is committed."""

    def moved(self, before: str, after: str) -> None:
        """Take note that rows moved."""

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
        self, name: str, schema: pa.Schema, steps: Any, slots: int, *, numbered: bool = False
    ) -> Plan:
        assert not numbered
        self.plans.append(Plan(name, steps, slots))
        return self.plans[-1]

    async def run(self, plan: Plan, ticket: Ticket, *, lag: float) -> list[SlotReport]:
        self.jobs.append((plan, ticket))
        if ticket.slots[0].write["kind"] != "look":
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
        """Move a micro-batch; returns what became of it."""
        return asyncio.run(self.execution.move(1, MICRO_BATCH, 0.5))

    def samples(self) -> list[tuple[Plan, Ticket]]:
        return [job for job in self.jobs if job[1].slots[0].write["kind"] == "look"]


def test_while_nobody_looks_there_is_no_job_no_plan_and_no_word_in_a_ticket():
    bench = Bench()
    moved = bench.move()
    assert (moved.rows_read, len(bench.jobs), len(bench.plans)) == (40, 1, 1)


def test_a_sample_is_of_one_partition_in_turn_and_counts_what_passed():
    bench = Bench()
    with bench.looks.open(LookRules(RowStage.READ, rows=3, row_bytes=9)) as look:
        moved = bench.move()
        ((plan, ticket),) = bench.samples()
        assert moved.rows_read == 40
        assert (plan.steps, plan.slots, ticket.task_id) == ((), 1, "g-0#look")
        (slot,) = ticket.slots
        assert slot.read["what"] == ([2], 1)
        assert (slot.rows, slot.write) == (10, {"kind": "look", "rows": 3, "row_bytes": 9})
        word = first(look)
        assert [(r.topic, r.partition, r.offset, r.ts_us) for r in word.rows] == [
            ("here", "q", "0", 5), ("here", "q", "1", 5), ("here", "q", "2", 5),
        ]  # fmt: skip
        assert word.missed == 37


def test_after_the_chain_the_sample_goes_through_its_steps_and_its_plan_is_kept(monkeypatch):
    bench = Bench()
    monkeypatch.setattr("penstock.worker.task.live_rows.EVERY", 0.0)
    with bench.looks.open(LookRules(RowStage.TRANSFORMED)) as look:
        bench.move()
        bench.move()
        assert [plan.steps for plan, _ in bench.samples()] == [(STEP,)] * 2
        assert len(bench.plans) == 2  # one moves rows, one shows them
        assert first(look).rows[0].topic == "there"


def test_behind_a_transform_the_sample_goes_as_far_and_its_plan_is_kept(monkeypatch):
    bench = Bench()
    monkeypatch.setattr("penstock.worker.task.live_rows.EVERY", 0.0)
    with bench.looks.open(LookRules("keep")) as look:
        bench.move()
        bench.move()
        assert [plan.steps for plan, _ in bench.samples()] == [()] * 2
        assert len(bench.plans) == 2
        assert first(look).rows[0].topic == "halfway"


def test_as_few_batches_as_have_the_rows_are_fetched_again():
    batches = [BatchReady(seq, 1, "pq"[seq % 2], 10, 100) for seq in range(6)]
    assert [one.seq for one in live_rows.chosen(batches, 15, 0)] == [0, 2]
    assert [one.seq for one in live_rows.chosen(batches, 10, 1)] == [1]
    assert [one.seq for one in live_rows.chosen(batches, 100, 1)] == [1, 3, 5]


@pytest.mark.parametrize(
    "error", [RetriableError("engine.job_failed", "no"), InternalError("engine.row_count", "no")]
)
def test_a_sample_that_fails_fails_nothing(error):
    """The twin of invariant 8: looking is nobody's trouble but the looker's."""
    bench = Bench()
    bench.sample_error = error
    with bench.looks.open(LookRules(RowStage.READ)) as look:
        assert bench.move().rows_read == 40
        assert look._missed == 40
    assert error.diagnostic.error_class in {ErrorClass.RETRIABLE, ErrorClass.INTERNAL}


def test_a_sample_that_hangs_is_cut_off(monkeypatch):
    monkeypatch.setattr(live_rows, "WITHIN", 0.05)
    bench = Bench()
    bench.sample_hangs = True
    with bench.looks.open(LookRules(RowStage.READ)):
        assert bench.move().rows_read == 40
    assert bench.cancelled


def first(look):
    async def main():
        return await anext(look.words())

    return asyncio.run(main())
