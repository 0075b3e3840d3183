"""The connectors of metrics keep the protocol; their folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.conformance import differences, run_kit
from support.web import Reply

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent.parent
TARGET = "".join(f'conformance_{n}{{text="ä {n}"}} {n / 4}\n' for n in range(22))


def test_the_connectors_conform_as_their_folder_says(prometheus, web):
    web.answer = [Reply(TARGET, headers={"Content-Type": "text/plain; version=0.0.4"})]
    variables = {"KIT_PROMETHEUS": prometheus.url, "KIT_TARGET": web.url}
    told = run_kit("connectors/metrics/penstock_metrics", variables=variables)
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
