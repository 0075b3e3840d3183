"""Translates exceptions of pyspark and py4j into errors of the product. The only place that
does.
"""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.model.errors import (
    ConfigError,
    DataError,
    PenstockError,
    RetriableError,
    error_from_diagnostic,
)
from penstock.spark import slot_reports

_ROW_ERROR: Final = re.compile(
    # SQLSTATE class 22 is "data exception", P0001 is raise_error() (Spark 4)
    r"SQLSTATE: (22|P0)"
    # every exception that an expression raises is one of these; SparkException itself is not
    r"|\borg\.apache\.spark\.Spark(Arithmetic|NumberFormat|DateTime|ArrayIndexOutOfBounds"
    r"|IllegalArgument|Runtime|UnsupportedOperation|NoSuchElement)Exception: \["
)


LOSS_TIMEOUT_S: Final = 2.0
"""Time in which the job of a lane says why its connection has ended."""

_OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"


def is_from_jvm(error: Exception) -> bool:
    """Return whether the JVM raised an error. Any other error of a call means that it may have
    ended.
    """
    return isinstance(error, Py4JJavaError | PySparkException)


def plan_error(error: PySparkException) -> ConfigError:
    """Return the error of a plan that Spark cannot resolve, or for which a package is missing."""
    if isinstance(error, ImportError):  # pyspark needs pandas even for plans that only use Arrow
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


def job_error(error: Exception) -> PenstockError:
    """Return the error of a failed job: that of a source reader, a failed row, or a lost worker."""
    text = str(error)
    diagnostic = slot_reports.find_diagnostic(text)
    if diagnostic is not None:
        return error_from_diagnostic(diagnostic)
    row_error = _ROW_ERROR.search(text)
    if row_error is not None:
        return DataError(
            "transform.bad_row",
            _line_around(text, row_error.start()),
            fix="Use try_cast, try_divide or a condition that excludes such rows.",
            config_path="transforms",
        )
    if _OUT_OF_MEMORY in text:
        return RetriableError(
            "engine.out_of_memory",
            "a micro-batch needed more memory than the heap of Spark's JVM has",
            fix="Check transforms that make large values (repeat, sequence, aggregate); "
            "otherwise raise `spark.driver.memory` of the worker.",
            detail=text[-2000:],
        )
    return RetriableError(
        "engine.job_failed",
        f"a Spark job failed: {_first_line(text)}",
        fix="A Python worker or executor may have been lost; the worker retries the micro-batch.",
        detail=text[-2000:],
    )


def cancelled_error(task_id: str) -> RetriableError:
    """Return the error of a job that the worker cancelled."""
    return RetriableError(
        "engine.cancelled",
        f"a Spark job of {task_id} was cancelled",
        fix="No action is needed: the task ends, or runs the micro-batch again.",
    )


def lost_lane_error() -> RetriableError:
    """Return the error of a lane that ended while it moved rows, without a word from Spark."""
    return RetriableError(
        "engine.job_failed",
        "a Python worker of Spark ended while it moved rows",
        fix="The worker retries the micro-batch; look for an out-of-memory kill if this repeats.",
    )


def silent_lane_error(timeout_s: float) -> RetriableError:
    """Return the error of a lane that says nothing any more while it moves rows."""
    return RetriableError(
        "deadline.exceeded",
        f"stage engine.lane: a Python worker of Spark said nothing for {timeout_s:g} s",
        fix="The worker retries the micro-batch in another one; check whether the machine of the "
        "executor is there, and whether somebody stopped the process.",
    )


def lane_port_error(address: str, port: int, error: OSError) -> RetriableError:
    """Return the error of a port that lanes cannot have."""
    return RetriableError(
        "engine.lane_port",
        f"port {port} of {address}, at which lanes reach this process: {error.strerror or error}",
        fix="Set `lane.port` to a free port, or to 0 for any.",
        config_path="lane.port",
    )


def no_slot_error(timeout_s: float) -> RetriableError:
    """Return the error of a lane that Spark does not start."""
    return RetriableError(
        "deadline.exceeded",
        f"stage engine.lane: Spark started no Python worker within {timeout_s:g} s",
        fix="Check that the cluster has free cores and that executors reach `spark.driver.host`; "
        "jvm.log in the worker's folder has Spark's reason.",
    )


def jvm_lost_error() -> RetriableError:
    """Return the error of each call after the end of the JVM."""
    return RetriableError(
        "engine.jvm_lost",
        "the JVM of the Spark session has ended",
        fix="The worker restarts itself; look for an out-of-memory kill if this repeats.",
    )


def slots_lost_error(lost: int, slots: int) -> RetriableError:
    """Return the error of each call once too few slots are left."""
    return RetriableError(
        "engine.slots_lost",
        f"{lost} of {slots} slots of Spark compute for jobs that were cancelled",
        fix="The worker restarts itself; simplify the expressions of connectors that were stopped "
        "while they computed for minutes over one row.",
    )


def not_started_error() -> RetriableError:
    """Return the error of a call before the start or after the stop."""
    return RetriableError(
        "engine.not_started",
        "the Spark session is not running",
        fix="It starts with the worker; the worker's log has the reason why it did not start, or "
        "why it ended.",
    )


def _line_around(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : end if end >= 0 else None].strip()[:500]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:500]
