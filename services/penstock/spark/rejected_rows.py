"""Tracks rejected rows on their way through a chain, so that the other rows go on.

Rows of a chain that can reject some have two tracking columns: `ROW`, the number of a row in its
slot, and, where rows pass through the JVM, `ERROR`, which is null or a diagnostic. A row with a
diagnostic has no other value. Later steps skip it, and before the sink it leaves the batch and
enters the slot's report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import coalesce, col, expr, lit, when

from penstock.model.dead_letter_queue import MAX_REJECTED_ROWS
from penstock.model.errors import DataError, Diagnostic
from penstock.model.step import ROW, RejectedRow, RejectingKernel, Step
from penstock.spark.slot_reports import read_diagnostic, write_diagnostic

ERROR: Final = "penstock error"


@dataclass(slots=True)
class RejectedRows:
    """The rejected rows of a slot so far, and the numbers of the others, in order."""

    rows: list[RejectedRow] = field(default_factory=list)
    kept: list[pa.Array] = field(default_factory=list)

    def add(self, rows: Sequence[RejectedRow]) -> None:
        """Add rejected rows.

        Raises:
            DataError: `transform.too_many_bad_rows`.
        """
        self.rows += rows
        if len(self.rows) > MAX_REJECTED_ROWS:
            reason = self.rows[0][1]
            raise DataError(
                "transform.too_many_bad_rows",
                f"more than {MAX_REJECTED_ROWS} rows of a slot failed, one of them: "
                f"{reason.message}",
                fix=reason.fix or "Check the transform; so many rows rarely fail one by one.",
                config_path=reason.config_path,
            )

    def to_input_numbers(self, rows: Sequence[RejectedRow]) -> tuple[RejectedRow, ...]:
        """Return the rows that the sink rejected by their numbers in the slot's input, in order.
        The sink counts them among its own rows. Rows without numbers are returned as they are: as
        many came out as went in, or the caller did not request numbers.
        """
        if not rows or not self.kept:
            return tuple(rows)
        numbers = pa.chunked_array(self.kept).take(pa.array([row for row, _ in rows]))
        reasons = (reason for _, reason in rows)
        pairs = zip(numbers.to_pylist(), reasons, strict=True)
        return tuple(sorted(pairs, key=lambda pair: pair[0]))


def needs_row_numbers(steps: Iterable[Step]) -> bool:
    """Return whether a chain can reject rows."""
    return any(step.can_reject_rows for step in steps)


def number_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches with the number of each row in the slot."""
    first = 0
    for batch in batches:
        numbers = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
        first += batch.num_rows
        yield batch.append_column(ROW, numbers)


def apply_kernels(
    batch: pa.RecordBatch, kernels: Iterable[object], rejected: RejectedRows
) -> pa.RecordBatch:
    """Return the rows of a batch after kernels; rows that fail go to `rejected`."""
    for kernel in kernels:
        if isinstance(kernel, RejectingKernel):
            batch, failed = kernel.split_rejected(batch)
            rejected.add(failed)
        else:
            batch = kernel(batch)  # type: ignore[operator] # a kernel is a callable
    return batch


def append_rejected(
    batch: pa.RecordBatch, rejected: Sequence[RejectedRow], schema: pa.Schema
) -> pa.RecordBatch:
    """Return rows and the rejected ones in one batch, for the JVM. `schema` ends with the tracking
    columns.
    """
    good = batch.append_column(ERROR, pa.nulls(batch.num_rows, pa.string()))
    good = good.select(schema.names).cast(schema)
    if not rejected:
        return good
    columns = [
        pa.nulls(len(rejected), column.type) for column in schema if column.name not in {ROW, ERROR}
    ]
    numbers = pa.array([row for row, _ in rejected], pa.int64())
    texts = pa.array([write_diagnostic(reason) for _, reason in rejected], pa.string())
    bad = pa.RecordBatch.from_arrays([*columns, numbers, texts], schema=schema)
    (whole,) = pa.Table.from_batches([good, bad]).combine_chunks().to_batches()
    return whole


def take_rejected(batch: pa.RecordBatch, rejected: RejectedRows) -> pa.RecordBatch:
    """Return the good rows of a batch from the JVM, without `ERROR`; the others go to
    `rejected`.
    """
    if ERROR not in batch.schema.names:
        return batch
    errors = batch.column(ERROR)
    good = batch.drop_columns([ERROR])
    if errors.null_count == batch.num_rows:
        return good
    bad = pc.is_valid(errors)
    numbers, texts = batch.column(ROW).filter(bad), errors.filter(bad)
    rejected.add(
        [
            (number, read_diagnostic(text))
            for number, text in zip(numbers.to_pylist(), texts.to_pylist(), strict=True)
        ]
    )
    return good.filter(pc.invert(bad))


def drop_row_numbers(batch: pa.RecordBatch, rejected: RejectedRows) -> pa.RecordBatch:
    """Return the rows without their numbers, which `rejected` keeps."""
    if ROW not in batch.schema.names:
        return batch
    rejected.kept.append(batch.column(ROW))
    return batch.drop_columns([ROW])


def with_tracking_columns(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the two tracking columns as its last ones."""
    return schema.append(pa.field(ROW, pa.int64())).append(pa.field(ERROR, pa.string()))


def without_tracking_columns(schema: pa.Schema) -> pa.Schema:
    """Return a schema without the two tracking columns."""
    return pa.schema([field for field in schema if field.name not in {ROW, ERROR}])


_TRY: Final = "penstock try"


def apply_tracked_step(rows: DataFrame, step: Step) -> DataFrame:
    """Return rows with tracking columns after a step. Rows on which it fails get a diagnostic."""
    if step.where is not None:
        rows = _filter(rows, step, step.where)
    if step.select is not None:
        rows = _project(rows, step, step.select)
    return rows


def _filter(rows: DataFrame, step: Step, where: str) -> DataFrame:
    if not step.risky_where:
        return rows.where(_quoted(ERROR).isNotNull() | expr(where))
    names = [name for name in rows.columns if name != ERROR]
    tried = rows.withColumn(_TRY, _try_values(rows, [where]))
    kept = tried.where(_quoted(_TRY).isNull() | expr(f"`{_TRY}`.c0"))
    return kept.select(*(_quoted(name) for name in names), _error_column(step.failure))


def _project(rows: DataFrame, step: Step, select: Sequence[tuple[str, str]]) -> DataFrame:
    risky = [(name, text) for name, text in select if name in step.risky]
    tracking = [_quoted(ROW), _quoted(ERROR)]
    if risky:
        rows = rows.withColumn(_TRY, _try_values(rows, [text for _, text in risky]))
        tracking[1] = _error_column(step.failure)
    tried = {name: f"`{_TRY}`.c{place}" for place, (name, _) in enumerate(risky)}
    columns = (expr(tried.get(name, text)).alias(name) for name, text in select)
    return rows.select(*columns, *tracking)


def _try_values(rows: DataFrame, expressions: Sequence[str]) -> Column:
    """Return the values of expressions as a struct. It is null where one of them fails, and in rows
    that have failed before.
    """
    fields = ", ".join(f"'c{place}', ({text})" for place, text in enumerate(expressions))
    jvm = rows.sparkSession._jvm  # noqa: SLF001 - pyspark has no other way
    sql = jvm.org.apache.spark.sql
    java = expr(f"named_struct({fields})")._jc  # noqa: SLF001 - as above
    try_eval = sql.catalyst.expressions.TryEval
    if rows.sparkSession.version.startswith("3."):
        tried = sql.Column(try_eval(java.expr()))
    else:
        tools = sql.classic.ExpressionUtils
        tried = tools.column(try_eval(tools.expression(java)))
    return when(_quoted(ERROR).isNull(), Column(tried))


def _error_column(failure: Diagnostic | None) -> Column:
    """Return the diagnostic of a row: its own, or `failure` where the try failed."""
    if failure is None:
        raise AssertionError("a step that can fail on a row has no diagnostic for it")
    text = lit(write_diagnostic(failure))
    return coalesce(_quoted(ERROR), when(_quoted(_TRY).isNull(), text)).alias(ERROR)


def _quoted(name: str) -> Column:
    return col("`" + name.replace("`", "``") + "`")
