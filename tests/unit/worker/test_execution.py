"""A micro-batch of several schemas: one error ends it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import pyarrow as pa
import pytest

from penstock.connector_config.dead_letters import RejectedRowRules
from penstock.connector_config.settings import RetryPolicy
from penstock.model.drift_policy import DriftRules
from penstock.model.errors import ConfigError
from penstock.model.stream import BatchReady, StreamSchema
from penstock.model.ticket import SlotReport, Ticket
from penstock.worker.dead_letters.rejected_rows import RejectedRowHandler
from penstock.worker.task.execution import BatchExecutor, DriftHandler
from penstock.worker.task.live_rows import Inspections
from penstock.worker.task.micro_batches import MicroBatch

ARROW = pa.schema([("id", pa.int64())])
BATCHES = (BatchReady(1, 1, "p", 30, 300), BatchReady(2, 2, "q", 10, 100))
MICRO_BATCH = MicroBatch(BATCHES, {}, 1, 2, 0.0)


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
            rejected_rows=RejectedRowHandler(RejectedRowRules()),
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
