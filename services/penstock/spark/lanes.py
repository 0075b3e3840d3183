"""What Spark runs in its Python workers: the functions that a plan is made of.

Plans name them; executors import them. So what travels with a job is a name, the kernels and the
schema, and the ticket beside it in a local property.

An error of the write end is reported as a row, which Spark takes for success: nothing tries it
again but the engine's caller. The read end of the crossing lane has no row to report in; it raises
an error that carries its diagnostic through the JVM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark import TaskContext

from penstock.model.errors import DataError, InternalError, PenstockError
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.spark import ends, rejected_rows, report
from penstock.spark.rejected_rows import Apart
from penstock.spark.schema import normal_batch

PROPERTY: Final = "penstock.ticket"
"""Local property of the thread that runs a job: executors see the value of their job."""

Kernel: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]


def read_lane(
    slot_ids: Iterable[pa.RecordBatch], kernels: Sequence[Kernel], schema: pa.Schema, tracked: bool
) -> Iterator[pa.RecordBatch]:
    """Give the rows of this slot to the JVM, changed by the kernels that come before it."""
    for _ in slot_ids:
        ticket, slot, _attempt = _assigned()
        try:
            batches = ends.read(ticket, slot)
            if not tracked:
                yield from (_applied(kernels, batch, Apart()) for batch in batches)
                continue
            for batch in rejected_rows.numbered(batches):
                failed = Apart()
                yield rejected_rows.joined(_applied(kernels, batch, failed), failed.rows, schema)
        except PenstockError as error:
            raise report.marked(error) from None


def kernel_lane(
    batches: Iterable[pa.RecordBatch],
    kernels: Sequence[Kernel],
    before: pa.Schema,
    after: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Change rows between two stays in the JVM. `before` and `after` have their tracks."""
    try:
        for batch in batches:
            failed = Apart()
            good = rejected_rows.split(normal_batch(batch, before), failed)
            yield rejected_rows.joined(_applied(kernels, good, failed), failed.rows, after)
    except PenstockError as error:
        raise report.marked(error) from None


def write_lane(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, kernels: Sequence[Kernel]
) -> Iterator[pa.RecordBatch]:
    """Take this slot's rows from the JVM to the write end, and report."""
    failed = Apart()

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            # the write end was told a schema; Spark gives numbered columns, of large strings if so
            # set up
            good = rejected_rows.split(normal_batch(batch, schema), failed)
            yield rejected_rows.unnumbered(_applied(kernels, good, failed), failed)

    yield _written(*_assigned(), rows(), failed)


def fused_lane(
    slot_ids: Iterable[pa.RecordBatch], kernels: Sequence[Kernel], tracked: bool
) -> Iterator[pa.RecordBatch]:
    """Take this slot's rows from end to end without the JVM, and report."""
    for _ in slot_ids:
        ticket, slot, attempt = _assigned()
        failed = Apart()
        with closing(_through(kernels, ends.read(ticket, slot), tracked, failed)) as rows:
            yield _written(ticket, slot, attempt, rows, failed)


def _through(
    kernels: Sequence[Kernel], batches: Iterator[pa.RecordBatch], tracked: bool, failed: Apart
) -> Generator[pa.RecordBatch]:
    for batch in rejected_rows.numbered(batches) if tracked else batches:
        yield rejected_rows.unnumbered(_applied(kernels, batch, failed), failed)


def _applied(kernels: Sequence[Kernel], batch: pa.RecordBatch, failed: Apart) -> pa.RecordBatch:
    try:
        return rejected_rows.changed(batch, kernels, failed)
    except pa.ArrowException as error:
        raise DataError(
            "transform.bad_row",
            f"{type(error).__name__}: {error}",
            fix="Use a condition or a function that no row can fail.",
            config_path="transforms",
        ) from None


def _assigned() -> tuple[Ticket, SlotTicket, int]:
    context = _context()
    ticket = Ticket.from_json(context.getLocalProperty(PROPERTY) or "{}")
    return ticket, ticket.slots[context.partitionId()], int(context.taskAttemptId())


def _context() -> Any:
    context = TaskContext.get()
    if context is None:
        raise InternalError("engine.no_context", "a lane runs outside of a Spark task")
    return context


def _written(
    ticket: Ticket,
    slot: SlotTicket,
    attempt: int,
    rows: Iterable[pa.RecordBatch],
    failed: Apart,
) -> pa.RecordBatch:
    began = time.monotonic()
    try:
        written = ends.write(ticket, slot, attempt, rows)
    except PenstockError as error:
        return report.encode(SlotReport(slot.slot, attempt, error=error.diagnostic))
    return report.encode(
        SlotReport(
            slot.slot,
            attempt,
            rows_in=slot.rows,  # the read end counted them, or there would be an error
            rows_out=written.rows,
            rejected=failed.among_input(written.rejected),
            detail=written.detail,
            seconds=time.monotonic() - began,
            set_apart=tuple(sorted(failed.rows, key=lambda row: row[0])),
        )
    )
