"""Spark for the tests that compare: the engine's settings, one session per module."""

import sys

import pytest


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        session = running.newSession()
    else:
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.pyspark.python", sys.executable)
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )
    session.conf.set("spark.sql.caseSensitive", "true")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    yield session
    if running is None:
        session.stop()
