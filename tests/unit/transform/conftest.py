"""Spark for the tests that compare: the engine's settings, one session per module."""

import pytest


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from penstock.spark.session import start_jvm
    from penstock.spark.settings import EngineSettings

    folder = tmp_path_factory.mktemp("spark")
    jvm = start_jvm(
        EngineSettings(
            master="local[2]",
            local_dir=folder,
            extra={"spark.log.level": "OFF", "spark.sql.codegen.wholeStage": "false"},
        )
    )
    yield jvm.session
    jvm.stop()
