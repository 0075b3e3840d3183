"""The examples keep the protocol; their folders keep the kit's result."""

import pytest

from support.checkout import ROOT
from support.conformance import differences, run_kit
from support.foreign import install

pytestmark = pytest.mark.timeout(600)

EXAMPLES = ROOT / "connectors/go/examples"


@pytest.mark.parametrize("name", ["numbers", "lines"])
def test_the_example_conforms_as_its_folder_says(programs, tmp_path, name):
    plugin = install(EXAMPLES / name, programs / name, tmp_path / name)
    told = run_kit("--config", str(EXAMPLES / name / "conformance.toml"), str(plugin))
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
    assert differences(told, EXAMPLES / name / "conformance.json") == []
