"""Read end → steps → write end, analysed once; each micro-batch only brings a new ticket.

An empty chain, or one whose steps all have an Arrow kernel, is a single `mapInArrow`: rows stay in
the Python worker. Any other chain crosses into the JVM, where its steps are Spark columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from penstock.model.meaning import with_meanings
from penstock.model.step import Step
from penstock.spark import report
from penstock.spark.lanes import Kernel, fused_lane, read_lane, write_lane
from penstock.spark.schema import normal_schema


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
    """Return the plan for rows of a schema. Analyses it; raises pyspark's errors as they are.

    Raises:
        SchemaError: `engine.unsupported_type`.
    """
    normal = normal_schema(schema)
    _activate(session)
    slot_ids = session.range(0, slots, 1, slots)
    kernels = _kernels(steps)
    if kernels is not None:
        output = _output(kernels, normal)
        frame = slot_ids.mapInArrow(partial(fused_lane, kernels=kernels), report.DDL)
        return Plan(name, output, slots, fused=True, frame=frame)
    rows = slot_ids.mapInArrow(read_lane, from_arrow_schema(normal, prefer_timestamp_ntz=True))
    for step in steps:
        rows = _apply(rows, step)
    # what passed through the JVM unchanged still means what it did
    output = with_meanings(normal_schema(to_arrow_schema(rows.schema)), normal)
    # mapInArrow looks its columns up by parsing their names; the lane puts the real ones back
    numbered = rows.toDF(*(f"c{n}" for n in range(len(output))))
    frame = numbered.mapInArrow(partial(write_lane, schema=output), report.DDL)
    return Plan(name, output, slots, fused=False, frame=frame)


def _activate(session: SparkSession) -> None:
    """Make a session that of this thread.

    Spark gives an expression the settings of its thread's session when it is parsed, and a new
    thread has none: `spark.sql.ansi.enabled` would be off without a word. This is the public call
    that does it.
    """
    session.createDataFrame([], "x int")


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
        # a name is never parsed, whatever is in it
        rows = rows.select(*(expr(sql).alias(name) for name, sql in step.select))
    return rows
