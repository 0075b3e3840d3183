"""What a task needs of its two ends and of the engine, a monitor of the read end, and a worker of
what runs previews: structural ports, defined beside their user.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from penstock.model.connector import CommitMode, Connector, TaskPlan
from penstock.model.preview_rows import Given, Rehearsed
from penstock.model.step import Step
from penstock.model.stream import (
    Offsets,
    PreparedTxn,
    PutSlot,
    ReadEvent,
    StreamSchema,
    TxnCommitted,
    WriteOpened,
)
from penstock.model.ticket import SlotReport, Ticket


class ReadStream(Protocol):
    """The control side of a read end. Events come in stream order and end after `Drained`."""

    async def open(self) -> None:
        """Start reading at the offsets of the plan."""

    def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Iterate over events; raises PenstockError when the stream is lost."""

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Say what an executor needs to fetch exactly these batches, in this order."""

    @property
    def confirms(self) -> bool:
        """Whether the source says what it was told."""

    async def committed(self, checkpoint_id: int) -> None:
        """Tell the source that everything up to a checkpoint is durable. Cumulative."""

    async def release(self, seq: int) -> None:
        """Say that batches up to `seq` will not be fetched again. Cumulative."""

    async def drain(self, grace: float) -> None:
        """Ask for the end: what is in hand, a last checkpoint, then `Drained`."""

    async def close(self) -> None:
        """Let go at once. Idempotent."""


class WriteStream(Protocol):
    """The control side of a write end. Calls come one at a time, in order of transaction."""

    async def open(
        self,
        epoch: int,
        commit_mode: CommitMode,
        last_prepared: PreparedTxn | None,
        recover: bool,
    ) -> WriteOpened:
        """Fence older epochs, apply `last_prepared` again when `recover`, and say how commits work.

        `commit_mode` UNSPECIFIED asks for the strongest that the end has.
        """

    async def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the place where rows of a dataset go; None when there is none yet,
        or when the end cannot tell.
        """

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Make the end ready for rows of a schema; raises SchemaError when it cannot be."""

    def ticket(self, txn_id: int, slot: int, schema_id: int) -> dict[str, Any]:
        """Say what an executor needs to put rows into a slot of a transaction."""

    async def prepare(
        self, txn_id: int, slots: Sequence[PutSlot], token: bytes, offsets: Offsets
    ) -> PreparedTxn:
        """Make the rows of these attempts durable, and only these."""

    async def commit(self, txn_id: int) -> TxnCommitted:
        """Make a prepared transaction visible. Idempotent."""

    async def abort(self, txn_id: int) -> None:
        """Throw a transaction away."""

    async def close(self, grace: float) -> None:
        """Finish and let go. Idempotent."""


Apply: TypeAlias = Callable[[pa.Schema], Awaitable[None]]
"""Makes a write end ready for rows of a schema; raises SchemaError when it cannot be."""


class Announcer(Protocol):
    """What decides on rows whose columns are not those of the place they go to."""

    async def announce(self, dataset: str, rows: pa.Schema, apply: Apply) -> Step | None:
        """Announce rows of a dataset; returns the step that brings them to what was agreed on,
        None when they go as they are.
        """


class Watch(Protocol):
    """What sees partitions appear and vanish, at the read end of a connector."""

    async def open(self, plans: Sequence[TaskPlan]) -> None:
        """Begin to watch; `plans` are those in force."""

    def __aiter__(self) -> AsyncIterator[str]:
        """Iterate over reasons for another plan; raises PenstockError when it cannot watch on."""

    async def tell(self, plans: Sequence[TaskPlan]) -> None:
        """Say which plans are in force now."""

    async def close(self) -> None:
        """Let go. Idempotent."""


class Plan(Protocol):
    """A kept Spark plan."""

    @property
    def output_schema(self) -> pa.Schema:
        """Schema of the rows that reach the write end."""


class Engine(Protocol):
    """The one queue of Spark jobs in this process."""

    @property
    def slots(self) -> int:
        """How many slots run at once."""

    def build(
        self,
        name: str,
        schema: pa.Schema,
        steps: Sequence[Step],
        slots: int,
        *,
        numbered: bool = False,
    ) -> Plan:
        """Analyse a plan once. Blocking: call in a thread. With `numbered`, rows that are refused
        are told by their numbers in the input.
        """

    async def run(self, plan: Any, ticket: Ticket, *, lag: float) -> list[SlotReport]:
        """Run one micro-batch; the task with the largest lag (seconds) goes first."""

    def cancel(self, task_id: str) -> None:
        """Cancel the jobs of a task; they end with an error within 2 s."""


class Compiled(Protocol):
    """What a chain becomes for one dataset and schema."""

    @property
    def dataset(self) -> str:
        """Dataset after routing."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps in order."""


class Compiler(Protocol):
    """The transform chain of a connector."""

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        """Fit the chain to a dataset; raises ConfigError when it cannot be."""


class Chain(Compiler, Protocol):
    """The transform chain of a connector that runs."""

    @property
    def transforms(self) -> Sequence[str]:
        """Names of its transforms, in order."""

    def until(self, transform: str) -> Compiler:
        """Return the chain up to a transform, and with it."""

    def moved(self, before: str, after: str) -> None:
        """Take note that rows of a dataset moved; `after` is its name behind the chain."""


class Previews(Protocol):
    """Evaluates the chain of a connector that may not be stored yet; nothing is written."""

    async def of(self, connector: Connector, given: Given) -> Rehearsed:
        """Return what becomes of rows."""
