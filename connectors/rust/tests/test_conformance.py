"""The connectors keep the protocol; their folder keeps the kit's result."""

import pytest

from support.checkout import ROOT
from support.conformance import differences, run_kit

pytestmark = pytest.mark.timeout(600)

FOLDER = ROOT / "connectors/rust"


def test_the_connectors_conform_as_their_folder_says(plugin):
    told = run_kit("--config", str(FOLDER / "conformance.toml"), str(plugin))
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
    assert differences(told, FOLDER / "conformance.json") == []
