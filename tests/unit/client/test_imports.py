"""A client and a service are light: no Arrow, no Spark in a process that moves no rows."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("room", ["penstock.config", "penstock.offset", "penstock.telemetry"])
def test_a_service_imports_neither_arrow_nor_spark(room):
    program = (
        f"import sys, {room}\n"
        "print([m for m in ('pyarrow', 'pyspark', 'pandas', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
