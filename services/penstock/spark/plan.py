"""Builds the plan of a route: source reader → steps → sink writer. It is built once; each
micro-batch only brings a new ticket.

- A fused plan, when the chain is empty or every step has an Arrow kernel: a function for the lanes
  (`lanes`), whose rows stay in the Python worker.
- A JVM plan, for any other chain, is a Spark job for each micro-batch: its steps are Spark columns.
  Kernels before the first of them and after the last run in the Python workers that read and write.
  A kernel between two of them costs a round trip between JVM and Python worker.

A step of a plugin is a kernel too. It is fitted here, where its input columns are known, and the
steps that follow it to its output columns.
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

from penstock.model.arrow_schema import copy_semantic_types, set_semantic_types
from penstock.model.errors import ConfigError
from penstock.model.step import ROW, RemoteStep, Step
from penstock.spark import partition_functions, slot_reports
from penstock.spark.connector_io.plugin_transform import fit_transform
from penstock.spark.lane_loop import LaneFunction
from penstock.spark.partition_functions import Kernel
from penstock.spark.rejected_rows import (
    ERROR,
    apply_tracked_step,
    needs_row_numbers,
    with_tracking_columns,
    without_tracking_columns,
)
from penstock.spark.schema import normalize_schema


@dataclass(frozen=True, slots=True)
class Plan:
    """A kept plan. A micro-batch runs `work`: a function in lanes, or a frame that is collected."""

    name: str
    output_schema: pa.Schema
    work: LaneFunction | DataFrame = field(repr=False)

    @property
    def fused(self) -> bool:
        """Whether its rows stay in the Python worker."""
        return isinstance(self.work, LaneFunction)


@dataclass(frozen=True, slots=True)
class KernelPrefix:
    """The steps at the beginning of a chain that have kernels.

    Attributes:
        steps, kernels: Those steps, and their kernels.
        schema: Their output.
        rest: The steps that follow.
    """

    steps: tuple[Step, ...]
    kernels: tuple[Kernel, ...]
    schema: pa.Schema
    rest: tuple[Step, ...]


def build_plan(
    session: SparkSession,
    name: str,
    schema: pa.Schema,
    steps: Sequence[Step],
    slots: int,
    *,
    number_rows: bool = False,
) -> Plan:
    """Build and analyse the plan for rows of a schema. Raises pyspark's errors as they are.

    With `number_rows`, rows that the sink rejects are known by their numbers in the input. A chain
    that can reject rows always has that.

    Raises:
        SchemaError: `engine.unsupported_type`.
        ConfigError: `transform.frozen_time`.
    """
    tracked = needs_row_numbers(steps) or (number_rows and bool(steps))
    prefix = split_kernel_prefix(steps, normalize_schema(schema))
    if not prefix.rest:
        function = LaneFunction.of(prefix.kernels, tracked=tracked)
        return Plan(name, _labelled(prefix.schema, prefix.steps), function)
    _activate(session)
    return _jvm_plan(name, session.range(0, slots, 1, slots), prefix, tracked=tracked)


def _jvm_plan(name: str, slot_ids: DataFrame, prefix: KernelPrefix, *, tracked: bool) -> Plan:
    tail = _leading_kernels(prefix.rest[::-1])[::-1]
    first_of_tail = len(prefix.rest) - len(tail)
    body, last_steps = prefix.rest[:first_of_tail], prefix.rest[first_of_tail:]
    sent = with_tracking_columns(prefix.schema) if tracked else prefix.schema
    function = partial(
        partition_functions.read_source, kernels=prefix.kernels, schema=sent, tracked=tracked
    )
    read = slot_ids.mapInArrow(function, _spark_schema(sent))
    rows, applied = apply_steps(read, body, tracked=tracked)
    # columns that pass through the JVM unchanged keep their semantic types
    received = copy_semantic_types(normalize_schema(to_arrow_schema(rows.schema)), prefix.schema)
    untracked = without_tracking_columns(received) if tracked else received
    # mapInArrow parses column names, so columns get plain ones; `write_sink` restores the real ones
    function = partial(partition_functions.write_sink, schema=received, kernels=tail)
    frame = _with_plain_names(rows).mapInArrow(function, slot_reports.DDL)
    refuse_frozen_times(frame)
    output = _labelled(_output(tail, untracked), (*prefix.steps, *applied, *last_steps))
    return Plan(name, output, frame)


def apply_steps(
    rows: DataFrame, steps: Sequence[Step], *, tracked: bool
) -> tuple[DataFrame, tuple[Step, ...]]:
    """Return rows after steps, and all steps that were applied: plugins add steps to the chain.
    With `tracked`, the rows have the tracking columns (`rejected_rows`) as their last ones.
    """
    waiting, applied = list(steps), list[Step]()
    while waiting:
        step = waiting.pop(0)
        applied.append(step)
        if isinstance(step, RemoteStep):
            columns = without_tracking_columns(normalize_schema(to_arrow_schema(rows.schema)))
            kernel = fit_transform(step.remote, columns)
            waiting = [*step.rest(kernel.output_schema), *waiting]
            rows = _apply_kernel(rows, kernel, tracked=tracked)
        elif step.only_kernel and step.kernel is not None:
            rows = _apply_kernel(rows, step.kernel, tracked=tracked)
        else:
            rows = apply_tracked_step(rows, step) if tracked else _apply_step(rows, step)
    return rows, tuple(applied)


def _apply_kernel(rows: DataFrame, kernel: Kernel, *, tracked: bool) -> DataFrame:
    """Return rows after a kernel between two steps in the JVM."""
    if not tracked:
        rows = rows.selectExpr(
            "*", f"CAST(NULL AS BIGINT) AS `{ROW}`", f"CAST(NULL AS STRING) AS `{ERROR}`"
        )
    before = normalize_schema(to_arrow_schema(rows.schema))
    after = with_tracking_columns(_output((kernel,), without_tracking_columns(before)))
    function = partial(
        partition_functions.apply_kernels, kernels=(kernel,), before=before, after=after
    )
    changed = _with_plain_names(rows).mapInArrow(function, _spark_schema(after))
    return changed if tracked else changed.drop(ROW, ERROR)


def _apply_step(rows: DataFrame, step: Step) -> DataFrame:
    if step.where is not None:
        rows = rows.where(step.where)
    if step.select is not None:
        # alias() takes any name without parsing it
        rows = rows.select(*(expr(sql).alias(name) for name, sql in step.select))
    return rows


def _with_plain_names(rows: DataFrame) -> DataFrame:
    return rows.toDF(*(f"c{n}" for n in range(len(rows.columns))))


def _spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _activate(session: SparkSession) -> None:
    """Make a session that of this thread.

    Spark parses an expression with the settings of its thread's session, and a new thread has none:
    `spark.sql.ansi.enabled` would be off without a warning. This is the public call that sets it.
    """
    session.createDataFrame([], "x int")


def split_kernel_prefix(steps: Sequence[Step], schema: pa.Schema) -> KernelPrefix:
    """Split the steps that have kernels off the beginning of a chain. Steps of a plugin are fitted
    to the columns that reach them.
    """
    waiting, taken, kernels = list(steps), list[Step](), list[Kernel]()
    while waiting:
        step = waiting[0]
        if isinstance(step, RemoteStep):
            fitted = fit_transform(step.remote, schema)
            kernel: Kernel | None = fitted
            waiting[1:1] = step.rest(fitted.output_schema)
        else:
            kernel = step.kernel
        if kernel is None:
            break
        taken.append(waiting.pop(0))
        kernels.append(kernel)
        schema = _output((kernel,), schema)
    return KernelPrefix(tuple(taken), tuple(kernels), schema, tuple(waiting))


def _leading_kernels(steps: Sequence[Step]) -> tuple[Kernel, ...]:
    kernels: list[Kernel] = []
    for step in steps:
        if step.kernel is None:
            break
        kernels.append(step.kernel)
    return tuple(kernels)


def _labelled(schema: pa.Schema, steps: Sequence[Step]) -> pa.Schema:
    """Return an output schema with the semantic types and labels that its steps set."""
    for step in steps:
        if step.semantic_types is not None:
            schema = set_semantic_types(schema, dict(step.semantic_types))
    labels = {key: text for step in steps for key, text in step.labels}
    return schema.with_metadata(labels) if labels else schema


def _output(kernels: Sequence[Kernel], schema: pa.Schema) -> pa.Schema:
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    for kernel in kernels:
        empty = kernel(empty)
    return empty.schema


def refuse_frozen_times(frame: DataFrame) -> None:
    """Refuse a plan with a time that Spark computes once. The plan is analysed, not run.

    A plan runs for every micro-batch. When Spark optimizes it, it replaces `current_timestamp()`
    and casts of constants such as `'now'` and `'today'` by their values, so all later micro-batches
    would get the time of the first. The guard (`penstock.transform.sql.guard`) refuses the
    functions by name and the literals by form. Which constants become times, as in `ts > 'now'`,
    only Spark knows after it has resolved the types. So the resolved plan is given to the two rules
    of Spark that compute these values, and must come back unchanged.

    Raises:
        ConfigError: `transform.frozen_time`.
    """
    rules = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.optimizer  # noqa: SLF001 - pyspark has no other way
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - as above
    # to_timestamp(…) and others stand for a cast, by which Spark replaces them first
    plan = rules.ReplaceExpressions.apply(plan)
    for rule in (rules.ComputeCurrentTime, rules.SpecialDatetimeValues):
        if not rule.apply(plan).fastEquals(plan):
            raise ConfigError(
                "transform.frozen_time",
                "an expression has the current time or day in it ('now', 'today', …); Spark "
                "computes it once for a plan that is kept, so every micro-batch would get the same",
                fix="Write dates in digits; for the time of a row use InsertField with "
                "`timestamp.field`. To compare with the text 'now', compare a text column.",
                config_path="transforms",
            )
