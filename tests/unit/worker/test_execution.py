"""A micro-batch of several schemas: one error ends it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import pyarrow as pa
import pytest

from penstock.connector_config.dead_letters import TOLERATE_ALL, RejectedRowRules
from penstock.connector_config.settings import RetryPolicy
from penstock.model.drift_policy import DriftRules
from penstock.model.errors import ConfigError, Diagnostic, RetriableError
from penstock.model.stream import BatchReady, FailedRow, StreamSchema
from penstock.model.ticket import SlotReport, Ticket
from penstock.worker.dead_letters.rejected_rows import RejectedRowHandler
from penstock.worker.task.drift_handler import DriftHandler
from penstock.worker.task.execution import BatchExecutor
from penstock.worker.task.live_rows import Inspections
from penstock.worker.task.micro_batches import MicroBatch

ARROW = pa.schema([("id", pa.int64())])
BATCHES = (BatchReady(1, 1, "p", 30, 300), BatchReady(2, 2, "q", 10, 100))
MICRO_BATCH = MicroBatch(BATCHES, {}, 1, 2, 0.0)


WHY = Diagnostic("test.bad", "bad")


class Plan:
    output_schema = ARROW


class Compiled:
    steps = ()

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset


class Bench:
    """An executor over two schemas. The sink refuses the dataset `refuses`, the engine fails that
    of `fails`; the job of the other dataset waits until it is cancelled.
    """

    slots = 1

    def __init__(self, refuses: str = "", fails: str = "") -> None:
        self.refuses, self.fails = refuses, fails
        self.rejected: list[tuple[int, list[int], int]] = []
        self.executor = BatchExecutor(
            self,
            self,
            self,
            self,
            task_id="g-0",
            epoch=7,
            stall_timeout_s=60,
            wait_for_commits=self.settle,
            inspections=Inspections(),
            schema_announcer=DriftHandler(DriftRules(), self),
            rejected_rows=RejectedRowHandler(RejectedRowRules(TOLERATE_ALL, discard=True)),
            retries=RetryPolicy(),
        )
        for number, dataset in ((1, "first"), (2, "second")):
            self.executor.add_schema(StreamSchema(number, dataset, ARROW))

    async def settle(self) -> None:
        """Nothing is committed."""

    def report_dataset(self, before: str, after: str) -> None:
        """Do nothing."""

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        return Compiled(dataset)

    async def apply_schema(self, schema: StreamSchema) -> None:
        if schema.dataset == self.refuses:
            raise ConfigError("test.refused", "no")

    def ticket(self, *what: Any) -> dict[str, Any]:
        return {"kind": "test", "what": what}

    def build(self, *_: Any, number_rows: bool = False) -> Plan:
        return Plan()

    async def run(self, plan: Plan, ticket: Ticket, *, lag: float) -> list[SlotReport]:
        slot = ticket.slots[0]
        if slot.write["kind"] == "reject":
            numbers = [row for row, _ in slot.write["rejected"]]
            self.rejected.append((slot.slot, numbers, slot.write["count"]))
            return [SlotReport(slot.slot, 2, slot.rows, 0, tuple((n, WHY) for n in numbers))]
        if not self.fails:
            return [SlotReport(slot.slot, 1, slot.rows, slot.rows)]
        if slot.read["what"][1] == 1 + (self.fails == "second"):
            raise ConfigError("test.failed", "no")
        await asyncio.Event().wait()
        raise AssertionError

    def cancel(self, task_id: str) -> None:
        """Nothing."""

    def move(self) -> Any:
        return asyncio.run(self.executor.execute(1, MICRO_BATCH, 0.5))


def test_rows_that_failed_at_the_sink_are_left_out_and_counted_as_failed() -> None:
    bench = Bench()

    async def move() -> Any:
        moved = await bench.executor.execute(1, MICRO_BATCH, 0.5)
        rows = [FailedRow(1, 4, WHY), FailedRow(1, 2, WHY), FailedRow(0, 29, WHY)]
        return moved, await bench.executor.reject_failed(1, moved, rows)

    moved, left = asyncio.run(move())
    assert [slot.left_out for slot in moved.slots] == [(), ()]
    assert [slot.left_out for slot in left.slots] == [(29,), (2, 4)]
    assert [slot.rows for slot in left.slots] == [30, 10], "as they were put"
    assert (left.rows_read, left.rows_written, left.rows_failed) == (40, 37, 3)
    assert dict(left.datasets) == {"first": (30, 29), "second": (10, 8)}
    assert bench.rejected == [(1, [2, 4], 10), (0, [29], 30)][::-1]


def test_the_rows_of_all_schemas_move_in_one_micro_batch() -> None:
    moved = Bench().move()
    assert dict(moved.datasets) == {"first": (30, 30), "second": (10, 10)}


@pytest.mark.parametrize(
    "bench",
    [{"refuses": "first"}, {"refuses": "second"}, {"fails": "first"}, {"fails": "second"}],
    ids=str,
)
def test_a_micro_batch_that_fails_leaves_no_coroutine_behind(bench: dict[str, str]) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with pytest.raises((ConfigError, ExceptionGroup)):
            Bench(**bench).move()
        gc.collect()
    assert [str(one.message) for one in found] == []


class RoutingBench(Bench):
    """Rows name their datasets; each read of a micro-batch finds those of `reads` in turn."""

    def __init__(self, *reads: list[str]) -> None:
        super().__init__()
        self.reads = list(reads)
        self.announced: list[tuple[int, str, list[str]]] = []

    async def apply_schema(self, schema: StreamSchema) -> None:
        self.announced.append((schema.schema_id, schema.dataset, schema.arrow.names))

    def build(self, *_: Any, number_rows: bool = False) -> Plan:
        plan = Plan()
        plan.output_schema = ARROW.append(pa.field("__topic", pa.string()))
        return plan

    async def run(self, plan: Plan, ticket: Ticket, *, lag: float) -> list[SlotReport]:
        (slot,) = ticket.slots
        names = self.reads.pop(0)
        unknown = [name for name in names if name not in slot.write["targets"]]
        detail = {"new_datasets": unknown} if unknown else {"datasets": dict.fromkeys(names, 5)}
        return [SlotReport(slot.slot, 1, slot.rows, 0 if unknown else 5 * len(names), (), detail)]

    def move_first(self, txn_id: int) -> Any:
        batch = MicroBatch(BATCHES[:1], {}, 1, 1, 0.0)
        return asyncio.run(self.executor.execute(txn_id, batch, 0.5))


def test_datasets_that_rows_name_are_announced_before_any_row_counts() -> None:
    bench = RoutingBench(["b", "a"], ["b", "a"], ["a"], ["a", "c"], ["a", "c"], [])
    moved = bench.move_first(1)
    assert bench.announced == [(1, "a", ["id"]), (2, "b", ["id"])]
    assert dict(moved.datasets) == {"a": (5, 5), "b": (5, 5)}
    assert [slot.rows for slot in moved.slots] == [10]
    bench.move_first(2)
    assert len(bench.announced) == 2, "known ones are not announced again"
    bench.move_first(3)
    assert bench.announced[2:] == [(3, "c", ["id"])]
    assert bench.move_first(4).slots == (), "a slot without rows was never put"


def test_names_that_are_others_each_time_end_the_micro_batch() -> None:
    with pytest.raises(RetriableError, match=r"transform\.not_repeatable"):
        RoutingBench(*([f"n{n}"] for n in range(9))).move_first(1)
