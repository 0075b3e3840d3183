"""The connector keeps the protocol; its folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.conformance import differences, run_kit

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent.parent


def test_the_connector_conforms_as_its_folder_says(elasticsearch):
    variables = {"KIT_ELASTICSEARCH": elasticsearch.url}
    told = run_kit("connectors/search/penstock_search", variables=variables)
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
