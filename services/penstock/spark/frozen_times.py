"""Refuses plans with a time that Spark computes once.

A plan is kept and runs for every micro-batch. Spark replaces `current_timestamp()` and casts of
constant texts such as `'now'` and `'today'` by their values when it optimizes a plan, so all later
micro-batches would get the time of the first. The guard (`penstock.transform.sql.guard`)
refuses the functions by name and the literals by their form; which texts become times, as in
`ts > 'now'`, only Spark knows after it has resolved the types. So the resolved plan is given to the
two rules of Spark that make these values, and must come back unchanged.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from penstock.model.errors import ConfigError


def refuse_frozen_times(frame: DataFrame) -> None:
    """Check the plan of a frame. It is analysed, not run.

    Raises:
        ConfigError: `transform.frozen_time`.
    """
    rules = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.optimizer  # noqa: SLF001 - pyspark has no other way
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - as above
    # to_timestamp(…) and others stand for a cast, which Spark puts in their place first
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
