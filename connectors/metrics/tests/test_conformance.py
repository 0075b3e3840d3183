"""The connectors of metrics keep the protocol; their folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.conformance import differences, run_kit

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent.parent


def test_the_connectors_conform_as_their_folder_says(prometheus):
    told = run_kit(
        "connectors/metrics/penstock_metrics", variables={"KIT_PROMETHEUS": prometheus.url}
    )
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
