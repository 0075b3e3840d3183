"""A service imports only what it needs: libraries for rows are half of the memory of a
small one.
"""

import json
import sys

import pytest

from support.checkout import run

ROWS = {"pyarrow", "numpy", "pyspark"}
CLIENTS = {"httpx", "jwt", "cryptography"}
SENDERS = {"opentelemetry.sdk", "opentelemetry.exporter"}

UNUSED = {
    "control_process": ROWS | CLIENTS | SENDERS | {"fastapi"},
    "gateway_process": ROWS | CLIENTS | SENDERS,
}


def loaded(home: str, more: str = "") -> set[str]:
    script = f"""
import json, sys
import penstock.cli.__main__, penstock.cli.service, penstock.cluster.{home}
{more}
print(json.dumps(sorted(sys.modules)))
"""
    done = run(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("home", UNUSED)
def test_a_service_loads_nothing_that_it_does_not_need(home):
    assert not loaded(home) & UNUSED[home]


def test_an_unneeded_import_is_detected():
    loads = "import penstock.worker.process_settings"
    assert loaded("gateway_process", loads) & UNUSED["gateway_process"] >= {"pyarrow"}
