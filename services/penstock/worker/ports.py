"""Structural ports of a task: its source, its sink, the engine, the chain, monitors and
previews.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from penstock.model.connector import CommitMode, Connector, TaskPlan
from penstock.model.inspection import PreviewRequest, PreviewResult
from penstock.model.step import Step
from penstock.model.stream import PreparedTxn, PutSlot, ReadEvent, StreamSchema, WriteOpened
from penstock.model.ticket import SlotReport, Ticket


class SourceReader(Protocol):
    """The control side of a source. Events come in stream order and end after `EndOfStream`."""

    async def open(self) -> None:
        """Start to read at the offsets of the plan."""

    def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Iterate over events; raises PenstockError when the stream is lost."""

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Return what an executor needs to fetch exactly these batches, in this order."""

    @property
    def confirms(self) -> bool:
        """Whether the source confirms acknowledgements."""

    async def committed(self, checkpoint_id: int) -> None:
        """Acknowledge everything up to a checkpoint: it is durable. Cumulative."""

    async def release(self, seq: int) -> None:
        """Release the batches up to `seq`: they are not fetched again. Cumulative."""

    async def close(self) -> None:
        """Close at once. Idempotent."""


class SinkWriter(Protocol):
    """The control side of a sink. Calls come one at a time, in order of transaction."""

    async def open(
        self,
        epoch: int,
        commit_mode: CommitMode,
        last_prepared: PreparedTxn | None,
        recover: bool,
    ) -> WriteOpened:
        """Fence older epochs, commit `last_prepared` again when `recover` is set, and return how
        commits work.

        `commit_mode` UNSPECIFIED requests the strongest mode of the sink.
        """

    async def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a dataset at the sink; None when it does not exist, or the sink
        does not know.
        """

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Prepare the sink for rows of a schema; raises SchemaError when that is impossible."""

    def ticket(self, txn_id: int, slot: int, schema_id: int) -> dict[str, Any]:
        """Return what an executor needs to write rows into a slot of a transaction."""

    async def prepare(self, txn_id: int, slots: Sequence[PutSlot], token: bytes) -> PreparedTxn:
        """Make the rows of these attempts durable, not those of others.

        Raises:
            FailedRowsError: some can never be written. Nothing is prepared; it may be called again,
                with these rows left out.
        """

    async def commit(self, txn_id: int) -> None:
        """Make a prepared transaction visible. Idempotent."""

    async def close(self, grace: float) -> None:
        """Finish and close within `grace` seconds. Idempotent."""


ApplySchema: TypeAlias = Callable[[pa.Schema], Awaitable[None]]
"""Prepares a sink for rows of a schema; raises SchemaError when that is impossible."""


class SchemaAnnouncer(Protocol):
    """Handles rows whose columns differ from those at the sink."""

    async def announce(self, dataset: str, rows: pa.Schema, apply: ApplySchema) -> Step | None:
        """Announce rows of a dataset. Returns the step that converts them to the columns of the
        sink, None when they need no change.
        """


class PartitionWatch(Protocol):
    """Watches the partitions of a connector's source."""

    async def open(self, plans: Sequence[TaskPlan]) -> None:
        """Start to watch. `plans` are those in force."""

    def __aiter__(self) -> AsyncIterator[str]:
        """Iterate over reasons to plan again; raises PenstockError when the watch is lost."""

    async def set_plans(self, plans: Sequence[TaskPlan]) -> None:
        """Set the plans in force."""

    async def close(self) -> None:
        """Close. Idempotent."""


class Plan(Protocol):
    """A Spark plan that is built once and run many times."""

    @property
    def output_schema(self) -> pa.Schema:
        """Schema of the rows that reach the sink."""


class Engine(Protocol):
    """The one queue of Spark jobs in this process."""

    @property
    def slots(self) -> int:
        """How many slots run at a time."""

    def build(
        self,
        name: str,
        schema: pa.Schema,
        steps: Sequence[Step],
        slots: int,
        *,
        number_rows: bool = False,
    ) -> Plan:
        """Build a plan. Blocking: call it in a thread. With `number_rows`, rejected rows are
        reported by their number in the input.
        """

    async def run(self, plan: Any, ticket: Ticket, *, lag: float) -> list[SlotReport]:
        """Run one micro-batch. The task with the largest lag (seconds) goes first."""

    def cancel(self, task_id: str) -> None:
        """Cancel the jobs of a task. They end with an error within 2 s."""


class Compiled(Protocol):
    """A chain that is compiled for one dataset and schema."""

    @property
    def dataset(self) -> str:
        """Name of the dataset after routing."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps in order."""


class Compiler(Protocol):
    """The transform chain of a connector, or its beginning."""

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        """Compile the chain for a dataset; raises ConfigError when it does not fit."""


class Chain(Compiler, Protocol):
    """The transform chain of a running connector."""

    @property
    def transforms(self) -> Sequence[str]:
        """Names of its transforms, in order."""

    def until(self, transform: str) -> Compiler:
        """Return the chain up to and including a transform."""

    def report_dataset(self, before: str, after: str) -> None:
        """Record that rows of a dataset moved. `before` and `after` are its names before and after
        the chain.
        """


class Previews(Protocol):
    """Runs sample rows through the chain of a connector that may not be stored yet. Nothing is
    written.
    """

    async def preview(self, connector: Connector, given: PreviewRequest) -> PreviewResult:
        """Return what the chain makes of the rows."""
