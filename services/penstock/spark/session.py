"""Starts and stops the Spark session."""

from __future__ import annotations

import logging
import os
import sys
import time

from pyspark.sql import SparkSession

from penstock.model.errors import ConfigError, RetriableError
from penstock.spark.settings import EngineSettings

log = logging.getLogger(__name__)


def start_session(settings: EngineSettings) -> SparkSession:
    """Start the JVM and return a session. Blocks for some seconds.

    Raises:
        ConfigError: there is no Java.
        RetriableError: the JVM ended, or does not answer.
    """
    # without these, Spark runs whatever `python3` the PATH has, not this environment's
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(settings.master).appName("penstock")
    for key, value in settings.spark_conf().items():
        builder = builder.config(key, value)
    began = time.monotonic()
    try:
        session = builder.getOrCreate()
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
            fix="Look at the lines of the JVM above; check JAVA_HOME and free memory.",
        ) from error
    log.info("Spark %s started in %.1f s", session.version, time.monotonic() - began)
    return session
