"""Expressions that give null where they fail, in one row, instead of ending the job.

Spark has this for some functions (`try_cast`, `try_divide`) and inside for any expression:
`TryEval`. It is not in its SQL, so it is made here through the gateway, the one place where this
room leans on a class of Spark's own; a test runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import coalesce, col, expr, lit, when

from penstock.model.errors import Diagnostic
from penstock.model.step import ROW, Step
from penstock.spark.apart import ERROR
from penstock.spark.report import write_diagnostic

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
