"""Read end → steps → write end, analysed once; each micro-batch only brings a new ticket.

An empty chain, or one whose steps all have an Arrow kernel, is a single `mapInArrow`: rows stay in
the Python worker. Any other chain crosses into the JVM, where its steps are Spark columns; kernels
before the first such step and after the last one run at the ends, in the Python workers. A kernel
that has no SQL and stands between two such steps costs a crossing of its own. A step of a plugin is
a kernel, too: it is fitted here, when the columns that go in are known, and what follows it in its
chain to those that come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from penstock.model.column_meaning import meaning_that, with_meanings
from penstock.model.step import ROW, RemoteStep, Step
from penstock.spark import report
from penstock.spark.ends.plugin_transform import fit
from penstock.spark.frozen_times import refuse_frozen_times
from penstock.spark.lanes import Kernel, fused_lane, kernel_lane, read_lane, write_lane
from penstock.spark.rejected_rows import ERROR, applied, wants_numbers, with_tracks, without_tracks
from penstock.spark.schema import normal_schema


@dataclass(frozen=True, slots=True)
class Plan:
    """A kept plan. `frame` is collected for each micro-batch; `fused` tells which lane it takes."""

    name: str
    output_schema: pa.Schema
    slots: int
    fused: bool
    frame: DataFrame = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Head:
    """What a chain begins with, as far as it has kernels.

    Attributes:
        steps, kernels: Those steps, and their kernels.
        schema: What comes out of them.
        rest: The steps that follow.
    """

    steps: tuple[Step, ...]
    kernels: tuple[Kernel, ...]
    schema: pa.Schema
    rest: tuple[Step, ...]


def build(
    session: SparkSession,
    name: str,
    schema: pa.Schema,
    steps: Sequence[Step],
    slots: int,
    *,
    numbered: bool = False,
) -> Plan:
    """Return the plan for rows of a schema. Analyses it; raises pyspark's errors as they are.

    With `numbered`, rows that the write end refuses are known by their numbers in the input; a
    chain that can set rows apart always does that.

    Raises:
        SchemaError: `engine.unsupported_type`.
        ConfigError: `transform.frozen_time`.
    """
    normal = normal_schema(schema)
    _activate(session)
    slot_ids = session.range(0, slots, 1, slots)
    tracked = wants_numbers(steps) or (numbered and bool(steps))
    head = head_of(steps, normal)
    if not head.rest:
        output = _labelled(head.schema, head.steps)
        lane = partial(fused_lane, kernels=head.kernels, tracked=tracked)
        return Plan(name, output, slots, fused=True, frame=slot_ids.mapInArrow(lane, report.DDL))
    tail = _leading(head.rest[::-1])[::-1]
    body, ending = head.rest[: len(head.rest) - len(tail)], head.rest[len(head.rest) - len(tail) :]
    sent = with_tracks(head.schema) if tracked else head.schema
    lane = partial(read_lane, kernels=head.kernels, schema=sent, tracked=tracked)
    read = slot_ids.mapInArrow(lane, _spark_schema(sent))
    rows, passed = transformed(read, body, tracked=tracked)
    # what passed through the JVM unchanged still means what it did
    last = with_meanings(normal_schema(to_arrow_schema(rows.schema)), head.schema)
    untracked = without_tracks(last) if tracked else last
    # mapInArrow looks its columns up by parsing their names; the lane puts the real ones back
    frame = _numbered(rows).mapInArrow(partial(write_lane, schema=last, kernels=tail), report.DDL)
    refuse_frozen_times(frame)
    output = _labelled(_output(tail, untracked), (*head.steps, *passed, *ending))
    return Plan(name, output, slots, fused=False, frame=frame)


def transformed(
    rows: DataFrame, steps: Sequence[Step], *, tracked: bool
) -> tuple[DataFrame, tuple[Step, ...]]:
    """Return rows after steps, and all steps that they took; with `tracked`, rows have their tracks
    (`apart`) as last columns.
    """
    waiting, passed = list(steps), list[Step]()
    while waiting:
        step = waiting.pop(0)
        passed.append(step)
        if isinstance(step, RemoteStep):
            kernel = fit(step.remote, without_tracks(normal_schema(to_arrow_schema(rows.schema))))
            waiting = [*step.rest(kernel.made), *waiting]
            rows = _crossed(rows, kernel, tracked=tracked)
        elif step.only_kernel and step.kernel is not None:
            rows = _crossed(rows, step.kernel, tracked=tracked)
        else:
            rows = applied(rows, step) if tracked else _apply(rows, step)
    return rows, tuple(passed)


def _crossed(rows: DataFrame, kernel: Kernel, *, tracked: bool) -> DataFrame:
    """Return rows after a kernel that stands between two steps of the JVM."""
    if not tracked:
        rows = rows.selectExpr(
            "*", f"CAST(NULL AS BIGINT) AS `{ROW}`", f"CAST(NULL AS STRING) AS `{ERROR}`"
        )
    before = normal_schema(to_arrow_schema(rows.schema))
    after = with_tracks(_output((kernel,), without_tracks(before)))
    lane = partial(kernel_lane, kernels=(kernel,), before=before, after=after)
    changed = _numbered(rows).mapInArrow(lane, _spark_schema(after))
    return changed if tracked else changed.drop(ROW, ERROR)


def _numbered(rows: DataFrame) -> DataFrame:
    return rows.toDF(*(f"c{n}" for n in range(len(rows.columns))))


def _spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _activate(session: SparkSession) -> None:
    """Make a session that of this thread.

    Spark gives an expression the settings of its thread's session when it is parsed, and a new
    thread has none: `spark.sql.ansi.enabled` would be off without a word. This is the public call
    that does it.
    """
    session.createDataFrame([], "x int")


def head_of(steps: Sequence[Step], schema: pa.Schema) -> _Head:
    """Return what a chain begins with; a plugin's steps are fitted to the columns that come to
    them.
    """
    waiting, taken, kernels = list(steps), list[Step](), list[Kernel]()
    while waiting:
        step = waiting[0]
        if isinstance(step, RemoteStep):
            fitted = fit(step.remote, schema)
            kernel: Kernel | None = fitted
            waiting[1:1] = step.rest(fitted.made)
        else:
            kernel = step.kernel
        if kernel is None:
            break
        taken.append(waiting.pop(0))
        kernels.append(kernel)
        schema = _output((kernel,), schema)
    return _Head(tuple(taken), tuple(kernels), schema, tuple(waiting))


def _leading(steps: Sequence[Step]) -> tuple[Kernel, ...]:
    """Return the kernels that steps begin with."""
    kernels: list[Kernel] = []
    for step in steps:
        if step.kernel is None:
            break
        kernels.append(step.kernel)
    return tuple(kernels)


def _labelled(schema: pa.Schema, steps: Sequence[Step]) -> pa.Schema:
    """Return the schema of rows that come out, with what the chain knows of it."""
    for step in steps:
        if step.meanings is not None:
            schema = meaning_that(schema, dict(step.meanings))
    labels = {key: text for step in steps for key, text in step.labels}
    return schema.with_metadata(labels) if labels else schema


def _output(kernels: Sequence[Kernel], schema: pa.Schema) -> pa.Schema:
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    for kernel in kernels:
        empty = kernel(empty)
    return empty.schema


def _apply(rows: DataFrame, step: Step) -> DataFrame:
    if step.where is not None:
        rows = rows.where(step.where)
    if step.select is not None:
        # a name is never parsed, whatever is in it
        rows = rows.select(*(expr(sql).alias(name) for name, sql in step.select))
    return rows
