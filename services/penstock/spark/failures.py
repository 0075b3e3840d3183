"""What an exception of pyspark or py4j means: the one place where they are translated."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.model.errors import ConfigError, DataError, PenstockError, RetriableError, error_of
from penstock.spark import report

_BAD_ROW: Final = re.compile(
    # SQLSTATE class 22 is "data exception", P0001 is raise_error() (Spark 4)
    r"SQLSTATE: (22|P0)"
    # every exception that an expression raises is one of these; SparkException itself is not
    r"|\borg\.apache\.spark\.Spark(Arithmetic|NumberFormat|DateTime|ArrayIndexOutOfBounds"
    r"|IllegalArgument|Runtime|UnsupportedOperation|NoSuchElement)Exception: \["
)


_OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"


def is_answer(error: Exception) -> bool:
    """Tell whether the JVM said so itself; any other error of a call means that it may be gone."""
    return isinstance(error, Py4JJavaError | PySparkException)


def refused(error: PySparkException) -> ConfigError:
    """Return the error of a plan that Spark cannot resolve, or cannot make here at all."""
    if isinstance(error, ImportError):  # pyspark wants pandas even for plans of Arrow alone
        return ConfigError(
            "engine.package_missing",
            _first_line(str(error)),
            fix="Install it into the environment that penstock runs in.",
        )
    return ConfigError(
        "transform.not_valid",
        _first_line(str(error)),
        fix="Check the expressions and the names of columns of the transforms.",
        config_path="transforms",
    )


def of_job(error: Exception) -> PenstockError:
    """Return what a failed job stands for: what a read end said, a bad row, or a lost worker."""
    text = str(error)
    found = report.find_marked(text)
    if found is not None:
        return error_of(found)
    bad = _BAD_ROW.search(text)
    if bad is not None:
        return DataError(
            "transform.bad_row",
            _line_around(text, bad.start()),
            fix="Use try_cast, try_divide or a condition, so that no row can fail.",
            config_path="transforms",
        )
    if _OUT_OF_MEMORY in text:
        return RetriableError(
            "engine.out_of_memory",
            "a micro-batch needed more memory than the heap of Spark's JVM has",
            fix="Look for a transform that makes much of one row (repeat, sequence, aggregate); "
            "otherwise raise `spark.driver.memory` of the worker.",
            detail=text[-2000:],
        )
    return RetriableError(
        "engine.job_failed",
        f"a Spark job failed: {_first_line(text)}",
        fix="A Python worker or executor may have been lost; the micro-batch is tried again.",
        detail=text[-2000:],
    )


def cancelled(task_id: str) -> RetriableError:
    """Return the error of a job that was cancelled on purpose."""
    return RetriableError(
        "engine.cancelled",
        f"a Spark job of {task_id} was cancelled",
        fix="Nothing is to be done: the task ends, or runs the micro-batch again.",
    )


def jvm_lost() -> RetriableError:
    """Return the error of every call after the end of the JVM."""
    return RetriableError(
        "engine.jvm_lost",
        "the JVM of the Spark session is gone",
        fix="The worker starts anew by itself; look for an out-of-memory kill if it repeats.",
    )


def slots_lost(lost: int, slots: int) -> RetriableError:
    """Return the error of every call once too few slots are left."""
    return RetriableError(
        "engine.slots_lost",
        f"{lost} of {slots} slots of Spark compute for jobs that were cancelled",
        fix="The worker starts anew by itself; simplify the expressions of connectors that were "
        "stopped while they computed for minutes over one row.",
    )


def not_running() -> RetriableError:
    """Return the error of a call before the start or after the stop."""
    return RetriableError(
        "engine.not_started",
        "the Spark session is not running",
        fix="It starts with the worker; see in the worker's log why it did not, or has ended.",
    )


def _line_around(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : end if end >= 0 else None].strip()[:500]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:500]
