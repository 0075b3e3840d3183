from __future__ import annotations

import pytest

from penstock.model import faults
from penstock.spark.jvm import engine_environment

GIVEN = (
    *("PATH", "HOME", "LC_ALL", "JAVA_HOME", "JDK_JAVA_OPTIONS", "SPARK_LOCAL_IP", "PYTHONPATH"),
    *("PYSPARK_PYTHON", "AWS_REGION", "AWS_ROLE_ARN", "HTTPS_PROXY", "no_proxy", faults.VARIABLE),
)
KEPT = (
    *("PENSTOCK_ETCD_PASSWORD", "PENSTOCK_STORE_SEAL_KEYS", "DB_PASSWORD", "VAULT_TOKEN"),
    *("OTEL_EXPORTER_OTLP_HEADERS", "XPATH", "PATHS", "NOT_JAVA_HOME", "PGPASSWORD", ""),
)


@pytest.mark.parametrize("name", GIVEN)
def test_what_says_how_programs_run_is_given(name):
    assert engine_environment({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("name", KEPT)
def test_what_may_be_a_secret_stays_in_the_worker(name):
    assert engine_environment({name: "x", "HOME": "/"}) == {"HOME": "/"}
