"""Starts the JVM and its Spark session, with a log file of its own."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from penstock.model.errors import ConfigError, RetriableError
from penstock.spark.settings import EngineSettings

log = logging.getLogger(__name__)
logging.getLogger("py4j").setLevel(logging.ERROR)  # it tells of every connection it closes

LOG_NAME: Final = "jvm.log"
"""What the JVM and Spark's Python workers print, in the engine's scratch folder."""

_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_TAIL_BYTES: Final = 2000


_JVM = (b"org.apache.spark.deploy.SparkSubmit", b"spark-submit")
"""What the command line of the JVM, or of the script that becomes it, holds."""


def kill_jvm() -> None:
    """Kill the JVM that this process is starting: until it has started it cannot be asked to end.

    The thread that starts it then ends with an error.
    """
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text(encoding="ascii").split():
            with suppress(OSError):
                command = Path("/proc", pid, "cmdline").read_bytes()
                if any(mark in command for mark in _JVM):
                    os.kill(int(pid), signal.SIGKILL)


def _not_py4j(record: logging.LogRecord) -> bool:
    """Leave out what py4j logs, with a traceback, when the JVM is gone: we say so ourselves."""
    return record.msg != "Exception while sending command."


def start_session(settings: EngineSettings) -> SparkSession:
    """Start the JVM and return a session. Blocks for some seconds.

    Raises:
        ConfigError: there is no Java.
        RetriableError: the JVM ended, or does not answer; with the last lines of its log.
    """
    # without these, Spark runs whatever `python3` the PATH has, not this environment's
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = SparkConf().setMaster(settings.master).setAppName("penstock")
    for key, value in settings.spark_conf().items():
        conf.set(key, value)
    options = conf.get("spark.driver.extraJavaOptions", "") or ""
    conf.set(
        "spark.driver.extraJavaOptions",
        f"{options} -Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
    )
    logging.getLogger().addFilter(_not_py4j)
    began = time.monotonic()
    try:
        with _log_file(settings.local_dir) as stderr:
            gateway = launch_gateway(conf, {"stderr": stderr})
        session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    except FileNotFoundError as error:
        raise ConfigError(
            "engine.no_java",
            f"Java could not be started: {error}",
            fix="Install a JDK 17 or 21, or set JAVA_HOME.",
        ) from error
    except Exception as error:
        raise RetriableError(
            "engine.start_failed",
            f"the Spark session did not start: {type(error).__name__}: {str(error)[:500]}",
            fix="See the detail; check JAVA_HOME (17 or 21) and free memory.",
            detail=log_tail(settings.local_dir),
        ) from error
    log.info("Spark %s started in %.1f s", session.version, time.monotonic() - began)
    return session


def log_tail(folder: Path | None) -> str:
    """Return the last lines that the JVM printed; nothing when it has no log of its own."""
    if folder is None or not (folder / LOG_NAME).is_file():
        return ""
    with (folder / LOG_NAME).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


@contextmanager
def _log_file(folder: Path | None) -> Iterator[IO[Any] | None]:
    """Yield what the JVM inherits as standard error; None for that of this process."""
    if folder is None:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG_NAME).open("ab") as file:
        yield file
