"""The examples of the SDK keep the protocol; their folder keeps the kit's result."""

import sys
from pathlib import Path

import pytest

from support.conformance import differences, run_kit

pytestmark = pytest.mark.timeout(600)

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["counter", "host_metrics", "jsonl"])
def test_the_example_conforms_as_its_folder_says(name):
    """penstock plugin test --config connectors/python/examples/counter.conformance.toml python
    connectors/python/examples/counter.py
    """
    declared = EXAMPLES / f"{name}.conformance.toml"
    told = run_kit("--config", str(declared), sys.executable, str(EXAMPLES / f"{name}.py"))
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
    assert differences(told, EXAMPLES / f"{name}.conformance.json") == []
