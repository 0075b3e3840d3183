"""Spark for the tests that compare: a session of the engine, without generated code."""

import pytest


@pytest.fixture(scope="module")
def spark():
    from support.engine import keep

    _, engine = keep()
    session = engine._jvm.session.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.sparkContext.setLogLevel("WARN")
