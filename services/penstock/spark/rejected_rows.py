"""Rows that are set apart: how they are told from the others on their way through a chain.

A chain in which rows can fail has two more columns: `ROW`, the number of a row in its slot, and,
where rows pass the JVM, `ERROR`, null or a diagnostic. A row with a diagnostic has no other value;
no step looks at it again, and before the write end it leaves the batch and enters the report.
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

from penstock.model.errors import DataError, Diagnostic
from penstock.model.step import ROW, Attempting, SetApart, Step
from penstock.spark.report import read_diagnostic, write_diagnostic

ERROR: Final = "penstock error"

MOST_SET_APART: Final = 10_000
"""Rows of a slot that are told one by one: their reasons travel through the driver, which has to
stay small. A chain that fails on more has another trouble than rows."""


@dataclass(slots=True)
class Apart:
    """The rows of a slot that were set apart so far, and the numbers of those that were not, in
    their order.
    """

    rows: list[SetApart] = field(default_factory=list)
    kept: list[pa.Array] = field(default_factory=list)

    def add(self, rows: Sequence[SetApart]) -> None:
        """Take rows.

        Raises:
            DataError: `transform.too_many_bad_rows`.
        """
        self.rows += rows
        if len(self.rows) > MOST_SET_APART:
            reason = self.rows[0][1]
            raise DataError(
                "transform.too_many_bad_rows",
                f"more than {MOST_SET_APART} rows of a slot failed, one of them: {reason.message}",
                fix=reason.fix or "Look at the transform; so many rows are rarely bad one by one.",
                config_path=reason.config_path,
            )

    def among_input(self, rows: Sequence[SetApart]) -> tuple[SetApart, ...]:
        """Return rows that the write end refused by their numbers in the slot's input, in order;
        they are counted among those that came out. Where rows have no numbers, as many came out as
        went in, or nobody asks.
        """
        if not rows or not self.kept:
            return tuple(rows)
        numbers = pa.chunked_array(self.kept).take(pa.array([row for row, _ in rows]))
        reasons = (reason for _, reason in rows)
        pairs = zip(numbers.to_pylist(), reasons, strict=True)
        return tuple(sorted(pairs, key=lambda pair: pair[0]))


def wants_numbers(steps: Iterable[Step]) -> bool:
    """Tell whether rows can be set apart in a chain."""
    return any(step.sets_apart for step in steps)


def numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give each row its number in the slot."""
    first = 0
    for batch in batches:
        numbers = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
        first += batch.num_rows
        yield batch.append_column(ROW, numbers)


def changed(batch: pa.RecordBatch, kernels: Iterable[object], apart: Apart) -> pa.RecordBatch:
    """Return the rows of a batch after kernels; rows that fail go apart."""
    for kernel in kernels:
        if isinstance(kernel, Attempting):
            batch, failed = kernel.attempt(batch)
            apart.add(failed)
        else:
            batch = kernel(batch)  # type: ignore[operator] # a kernel is a callable
    return batch


def joined(batch: pa.RecordBatch, failed: Sequence[SetApart], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows together with those that failed, as the JVM takes them: in a schema that ends
    with `ROW` and `ERROR`.
    """
    good = batch.append_column(ERROR, pa.nulls(batch.num_rows, pa.string()))
    good = good.select(schema.names).cast(schema)
    if not failed:
        return good
    columns = [
        pa.nulls(len(failed), column.type) for column in schema if column.name not in {ROW, ERROR}
    ]
    numbers = pa.array([row for row, _ in failed], pa.int64())
    texts = pa.array([write_diagnostic(reason) for _, reason in failed], pa.string())
    bad = pa.RecordBatch.from_arrays([*columns, numbers, texts], schema=schema)
    (whole,) = pa.Table.from_batches([good, bad]).combine_chunks().to_batches()
    return whole


def split(batch: pa.RecordBatch, apart: Apart) -> pa.RecordBatch:
    """Return the good rows of a batch from the JVM, without `ERROR`; the others go apart."""
    if ERROR not in batch.schema.names:
        return batch
    errors = batch.column(ERROR)
    good = batch.drop_columns([ERROR])
    if errors.null_count == batch.num_rows:
        return good
    bad = pc.is_valid(errors)
    numbers, texts = batch.column(ROW).filter(bad), errors.filter(bad)
    apart.add(
        [
            (number, read_diagnostic(text))
            for number, text in zip(numbers.to_pylist(), texts.to_pylist(), strict=True)
        ]
    )
    return good.filter(pc.invert(bad))


def unnumbered(batch: pa.RecordBatch, apart: Apart) -> pa.RecordBatch:
    """Return the rows without their numbers, which are kept."""
    if ROW not in batch.schema.names:
        return batch
    apart.kept.append(batch.column(ROW))
    return batch.drop_columns([ROW])


def with_tracks(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows with the two columns."""
    return schema.append(pa.field(ROW, pa.int64())).append(pa.field(ERROR, pa.string()))


def without_tracks(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows without the two columns."""
    return pa.schema([field for field in schema if field.name not in {ROW, ERROR}])


_TRY: Final = "penstock try"


def applied(rows: DataFrame, step: Step) -> DataFrame:
    """Return rows with their tracks after a step; those on which it fails get a diagnostic."""
    if step.where is not None:
        rows = _filtered(rows, step, step.where)
    if step.select is not None:
        rows = _projected(rows, step, step.select)
    return rows


def _filtered(rows: DataFrame, step: Step, where: str) -> DataFrame:
    if not step.risky_where:
        return rows.where(_quoted(ERROR).isNotNull() | expr(where))
    names = [name for name in rows.columns if name != ERROR]
    tried = rows.withColumn(_TRY, _tried(rows, [where]))
    kept = tried.where(_quoted(_TRY).isNull() | expr(f"`{_TRY}`.c0"))
    return kept.select(*(_quoted(name) for name in names), _error(step.failure))


def _projected(rows: DataFrame, step: Step, select: Sequence[tuple[str, str]]) -> DataFrame:
    risky = [(name, text) for name, text in select if name in step.risky]
    tracks = [_quoted(ROW), _quoted(ERROR)]
    if risky:
        rows = rows.withColumn(_TRY, _tried(rows, [text for _, text in risky]))
        tracks[1] = _error(step.failure)
    found = {name: f"`{_TRY}`.c{place}" for place, (name, _) in enumerate(risky)}
    columns = (expr(found.get(name, text)).alias(name) for name, text in select)
    return rows.select(*columns, *tracks)


def _tried(rows: DataFrame, texts: Sequence[str]) -> Column:
    """Return the values of expressions as a struct, which is null where one of them fails, and in
    rows that have failed before.
    """
    fields = ", ".join(f"'c{place}', ({text})" for place, text in enumerate(texts))
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


def _error(failure: Diagnostic | None) -> Column:
    """Return the diagnostic of a row: the one that it has, or this one where the try failed."""
    if failure is None:
        raise AssertionError("a step that can fail says nothing of the rows")
    text = lit(write_diagnostic(failure))
    return coalesce(_quoted(ERROR), when(_quoted(_TRY).isNull(), text)).alias(ERROR)


def _quoted(name: str) -> Column:
    return col("`" + name.replace("`", "``") + "`")
