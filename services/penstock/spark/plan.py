"""Read end → steps → write end, analysed once; each micro-batch only brings a new ticket.

An empty chain, or one whose steps all have an Arrow kernel, is a single `mapInArrow`: rows stay in
the Python worker. Any other chain crosses into the JVM, where its steps are Spark columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from penstock.model.errors import Diagnostic, InternalError, PenstockError
from penstock.model.step import Step
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.spark import ends, report
from penstock.spark.schema import normal_schema

PROPERTY = "penstock.ticket"
"""Local property of the thread that runs a job: executors see the value of their job."""

Kernel = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Plan:
    """A kept plan. `frame` is collected for each micro-batch; `fused` tells which lane it takes."""

    name: str
    output_schema: pa.Schema
    slots: int
    fused: bool
    frame: DataFrame = field(repr=False)


def build(
    session: SparkSession, name: str, schema: pa.Schema, steps: Sequence[Step], slots: int
) -> Plan:
    """Return the plan for rows of a schema. Analyses it; raises pyspark's errors as they are."""
    normal = normal_schema(schema)
    slot_ids = session.range(0, slots, 1, slots)
    kernels = _kernels(steps)
    if kernels is not None:
        output = _output(kernels, normal)
        frame = slot_ids.mapInArrow(partial(fused_lane, kernels=kernels), report.DDL)
        return Plan(name, output, slots, True, frame)
    rows = slot_ids.mapInArrow(read_lane, from_arrow_schema(normal, prefer_timestamp_ntz=True))
    for step in steps:
        rows = _apply(rows, step)
    output = normal_schema(to_arrow_schema(rows.schema))
    return Plan(name, output, slots, False, rows.mapInArrow(write_lane, report.DDL))


def _kernels(steps: Sequence[Step]) -> tuple[Kernel, ...] | None:
    kernels = tuple(step.kernel for step in steps if step.kernel is not None)
    return kernels if len(kernels) == len(steps) else None


def _output(kernels: Sequence[Kernel], schema: pa.Schema) -> pa.Schema:
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    for kernel in kernels:
        empty = kernel(empty)
    return empty.schema


def _apply(rows: DataFrame, step: Step) -> DataFrame:
    if step.where is not None:
        rows = rows.where(step.where)
    if step.select is not None:
        rows = rows.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in step.select))
    return rows


def quoted(name: str) -> str:
    """Return a column's name as Spark SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


# ── in the executors ───────────────────────────────────────────────────────────────────────────


def read_lane(slot_ids: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the rows of this slot to the JVM."""
    for _ in slot_ids:
        ticket, slot = _assigned()
        yield from _marking(ends.read(ticket, slot))


def write_lane(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take this slot's rows from the JVM to the write end, and report."""
    ticket, slot = _assigned()
    yield _written(ticket, slot, rows)


def fused_lane(
    slot_ids: Iterable[pa.RecordBatch], kernels: Sequence[Kernel]
) -> Iterator[pa.RecordBatch]:
    """Take this slot's rows from end to end without the JVM, and report."""
    for _ in slot_ids:
        ticket, slot = _assigned()
        yield _written(ticket, slot, _through(kernels, _marking(ends.read(ticket, slot))))


def _through(
    kernels: Sequence[Kernel], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        out = batch
        for kernel in kernels:
            out = kernel(out)
        yield out


def _assigned() -> tuple[Ticket, SlotTicket]:
    context = _context()
    ticket = Ticket.from_json(context.getLocalProperty(PROPERTY) or "")
    return ticket, ticket.slots[context.partitionId()]


def _context() -> Any:
    context = TaskContext.get()
    if context is None:
        raise InternalError("engine.no_context", "a lane runs outside of a Spark task")
    return context


def _marking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Let the diagnostic of a read end's error survive its way through the JVM."""
    try:
        yield from batches
    except PenstockError as error:
        raise report.marked(error) from None


def _written(ticket: Ticket, slot: SlotTicket, rows: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    attempt = int(_context().taskAttemptId())
    try:
        written = ends.write(ticket, slot, attempt, rows)
    except PenstockError as error:
        return _failed(slot, attempt, error.diagnostic)
    except RuntimeError as error:  # a read end's, of the fused lane
        found = report.find_marked(str(error))
        if found is None:
            raise
        return _failed(slot, attempt, found)
    return report.encode(
        SlotReport(
            slot.slot,
            attempt,
            rows_in=slot.rows,  # the read end counted them
            rows_out=written.rows,
            rejected=tuple(written.rejected),
            detail=written.detail,
        )
    )


def _failed(slot: SlotTicket, attempt: int, reason: Diagnostic) -> pa.RecordBatch:
    return report.encode(SlotReport(slot.slot, attempt, error=reason))
