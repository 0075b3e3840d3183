"""The connector keeps the protocol; its folder keeps the kit's result."""

import pytest

from support.checkout import ROOT
from support.conformance import differences, run_kit
from support.foreign import use_this_node

pytestmark = pytest.mark.timeout(600)

FOLDER = ROOT / "connectors/node"


def test_the_connector_conforms_as_its_folder_says(plugin):
    use_this_node(plugin)
    told = run_kit("--config", str(FOLDER / "conformance.toml"), str(plugin))
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
    assert differences(told, FOLDER / "conformance.json") == []
