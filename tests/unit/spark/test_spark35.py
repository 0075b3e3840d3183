"""The same plans on PySpark 3.5, in an environment of its own: some formats have nothing newer."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
import penstock_values
from penstock.model.ticket import SlotReport
from tests.unit.spark.tiny_plugin import SCHEMA

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.spark35
@pytest.mark.timeout(1200)
def test_both_kinds_of_plan_run_on_spark_3_5(tmp_path, plugin):
    ticket = plugin.ticket("t", [[1, 2], [3, 4]]).to_json()
    schema = base64.b64encode(SCHEMA.serialize().to_pybytes()).decode()
    program = [str(PROGRAMS / "one_batch.py"), str(tmp_path / "spark"), ticket, schema]
    done = subprocess.run(
        ["bash", str(PROGRAMS / "spark35.sh"), *program],
        capture_output=True,
        text=True,
        timeout=1100,
        env={
            **os.environ,
            "PENSTOCK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(
                str(Path(package.__file__).parents[1]) for package in (penstock, penstock_values)
            ),
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    version, fused, crossing, *bad = json.loads(done.stdout.splitlines()[-1])
    assert version.startswith("3.5.")
    assert [report["rows_out"] for report in fused] == [2000, 2000]
    assert [report["rows_out"] for report in crossing] == [1800, 1800]
    reports = [SlotReport(report["slot"], report["attempt"]) for report in crossing]
    got = plugin.rows(1, reports)
    assert [row["name"] for row in got[:2]] == ["N1000", "N1001"]
    assert bad == ["transform.bad_row"] * 2
