"""The functions of a plan: what a Python worker runs for a slot.

- A fused plan is `move_slot` alone, which a lane calls (`lane_loop`): rows never enter the JVM.
- A JVM plan is `read_source`, then Spark columns, then `write_sink`; `apply_kernels` runs kernels
  between two parts in the JVM. Executors import these functions, so a job carries their names,
  kernels and schemas. Its ticket travels in a local property.

An error of the sink writer is reported as a row, which Spark takes for success: only the caller of
the engine retries it. `read_source` has no report row. It raises an exception that carries its
diagnostic through the JVM.
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
from penstock.spark import rejected_rows, slot_reports
from penstock.spark.connector_io.routed_rows import sort_by_name
from penstock.spark.connector_io.sink_writer import write_rows
from penstock.spark.connector_io.source_reader import read_rows
from penstock.spark.rejected_rows import RejectedRows
from penstock.spark.schema import normalize_batch

TICKET_PROPERTY: Final = "penstock.ticket"
"""Local property of the thread that runs a job: executors read that of their own job."""

Kernel: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]


def move_slot(
    ticket: Ticket, slot: SlotTicket, attempt: int, kernels: Sequence[Kernel], tracked: bool
) -> SlotReport:
    """Move a slot's rows from source to sink without the JVM."""
    rejected = RejectedRows()
    with closing(_transform(kernels, read_rows(ticket, slot), tracked, rejected)) as rows:
        return _write(ticket, slot, attempt, rows, rejected)


def read_source(
    slot_ids: Iterable[pa.RecordBatch], kernels: Sequence[Kernel], schema: pa.Schema, tracked: bool
) -> Iterator[pa.RecordBatch]:
    """Give this slot's rows to the JVM, after the kernels that come before it."""
    for _ in slot_ids:
        ticket, slot, _attempt = _current_slot()
        try:
            batches = read_rows(ticket, slot)
            if not tracked:
                yield from (_apply(kernels, batch, RejectedRows()) for batch in batches)
                continue
            for batch in rejected_rows.number_rows(batches):
                rejected = RejectedRows()
                good = _apply(kernels, batch, rejected)
                yield rejected_rows.append_rejected(good, rejected.rows, schema)
        except PenstockError as error:
            raise slot_reports.wrap_error(error) from None


def apply_kernels(
    batches: Iterable[pa.RecordBatch],
    kernels: Sequence[Kernel],
    before: pa.Schema,
    after: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Apply kernels between two parts in the JVM. Both schemas have the tracking columns."""
    try:
        for batch in batches:
            rejected = RejectedRows()
            good = rejected_rows.take_rejected(normalize_batch(batch, before), rejected)
            changed = _apply(kernels, good, rejected)
            yield rejected_rows.append_rejected(changed, rejected.rows, after)
    except PenstockError as error:
        raise slot_reports.wrap_error(error) from None


def write_sink(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, kernels: Sequence[Kernel]
) -> Iterator[pa.RecordBatch]:
    """Take this slot's rows from the JVM to the sink, after the last kernels, and report."""
    rejected = RejectedRows()

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            # restores the names and types that the sink expects: Spark gives numbered columns, and
            # large strings if it is configured so
            good = rejected_rows.take_rejected(normalize_batch(batch, schema), rejected)
            changed = sort_by_name(_apply(kernels, good, rejected))
            yield rejected_rows.drop_row_numbers(changed, rejected)

    yield slot_reports.encode_report(_write(*_current_slot(), rows(), rejected))


def _transform(
    kernels: Sequence[Kernel],
    batches: Iterator[pa.RecordBatch],
    tracked: bool,
    rejected: RejectedRows,
) -> Generator[pa.RecordBatch]:
    for batch in rejected_rows.number_rows(batches) if tracked else batches:
        changed = sort_by_name(_apply(kernels, batch, rejected))
        yield rejected_rows.drop_row_numbers(changed, rejected)


def _apply(
    kernels: Sequence[Kernel], batch: pa.RecordBatch, rejected: RejectedRows
) -> pa.RecordBatch:
    try:
        return rejected_rows.apply_kernels(batch, kernels, rejected)
    except pa.ArrowException as error:
        raise DataError(
            "transform.bad_row",
            f"{type(error).__name__}: {error}",
            fix="Use a condition, or a function that cannot fail on a row.",
            config_path="transforms",
        ) from None


def _current_slot() -> tuple[Ticket, SlotTicket, int]:
    """Return the ticket of this task's job, its slot, and the id of this attempt."""
    context = task_context()
    ticket = Ticket.from_json(context.getLocalProperty(TICKET_PROPERTY) or "{}")
    return ticket, ticket.slots[context.partitionId()], int(context.taskAttemptId())


def task_context() -> Any:
    """Return Spark's context of the task that runs here."""
    context = TaskContext.get()
    if context is None:
        raise InternalError(
            "engine.no_context", "a function of a plan runs outside of a Spark task"
        )
    return context


def _write(
    ticket: Ticket,
    slot: SlotTicket,
    attempt: int,
    rows: Iterable[pa.RecordBatch],
    rejected: RejectedRows,
) -> SlotReport:
    began = time.monotonic()
    try:
        result = write_rows(ticket, slot, attempt, rows)
    except PenstockError as error:
        return SlotReport(slot.slot, attempt, error=error.diagnostic)
    return SlotReport(
        slot.slot,
        attempt,
        rows_in=slot.rows,  # the source reader has counted them, or it would have failed
        rows_out=result.rows,
        rejected=rejected.to_input_numbers(result.rejected),
        detail=result.detail,
        seconds=time.monotonic() - began,
        rejected_by_chain=tuple(sorted(rejected.rows, key=lambda row: row[0])),
    )
